"""The phases of a run."""

from typing import NamedTuple

from touchstone.results.measured import DIVIDED, PhaseSpan, events_error
from touchstone.results.run_files import Run
from touchstone.results.steadiness import Chunk
from touchstone.schema import events
from touchstone.schema.spec import TrainingSpec, epochs_of

PHASES = (
    "import", "load", "build", "first_step", "warmup", "measured", "evaluation", "latency", "rest",
)  # fmt: skip


class Phase(NamedTuple):
    """A phase: one stretch of time, or several between which the network was evaluated."""

    parts: tuple[PhaseSpan, ...]

    @property
    def begin(self) -> float:
        return self.parts[0].begin

    @property
    def end(self) -> float:
        return self.parts[-1].end

    @property
    def seconds(self) -> float:
        """The time within its parts."""
        return sum(part.end - part.begin for part in self.parts)

    @property
    def steps(self) -> int:
        return sum(part.steps for part in self.parts)

    @property
    def examples(self) -> int:
        return sum(part.examples for part in self.parts)

    def covers(self, t: float) -> bool:
        """Whether the time `t` (s) lies in a part."""
        return any(part.begin <= t <= part.end for part in self.parts)


def phases_of(run: Run) -> dict[str, Phase]:
    """The phases that were reached, by name."""
    phases: dict[str, Phase] = {}
    for event in run.of(events.Phase):
        name = event.name
        if name not in PHASES:
            raise events_error(run, f"unknown phase {name!r} (known: {', '.join(PHASES)})")
        part = PhaseSpan(event.begin, event.end, event.steps, event.examples)
        if name in phases and name not in DIVIDED:
            raise events_error(run, f"phase {name!r} occurs twice")
        phases[name] = Phase((*(phases[name].parts if name in phases else ()), part))
    return phases


def planned_steps(run: Run, steps: int, phases: dict[str, Phase]) -> tuple[int, int]:
    """The steps of an epoch, and of the whole run; a run that lasts for a time has those it did.

    Where the spec limits the measured steps, they come after those of the warm-up.
    """
    spec = run.spec
    if not isinstance(spec, TrainingSpec):
        return 0, steps
    per_epoch = epochs_of(spec).steps
    planned = spec.phases.epochs * per_epoch
    if limit := spec.phases.measured_steps:
        planned = min(planned, steps_before(phases) + limit)
    return per_epoch, planned


def steps_before(phases: dict[str, Phase]) -> int:
    """The steps before the measured phase."""
    return sum(phases[name].steps for name in ("first_step", "warmup") if name in phases)


def measured_chunks(run: Run, measured: Phase) -> list[Chunk]:
    """The chunks of the measured phase, with the time between its parts left out of their ends."""
    events_of_phase = [chunk for chunk in run.of(events.Chunk) if chunk.phase == "measured"]
    chunks, left_out, last = [], 0.0, measured.begin
    for part in measured.parts:
        left_out += part.begin - last
        last = part.end
        inside = (chunk for chunk in events_of_phase if part.begin <= chunk.end <= part.end)
        chunks += [Chunk(chunk.steps, chunk.end - left_out) for chunk in inside]
    return chunks


def trained_until(phases: dict[str, Phase], t: float) -> float:
    """Seconds of training, evaluations left out, from its first step to the time `t`."""
    evaluated = phases["evaluation"].parts if "evaluation" in phases else ()
    pauses = sum(part.end - part.begin for part in evaluated if part.end <= t)
    return t - phases["first_step"].begin - pauses
