"""Which mode, how many threads and which waiting are the fastest: they take turns (measuring.md).

The framework's default stays unless other settings are shown to be faster.
"""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from touchstone.measure.interleaving import Failed, FailedBeside, Timing
from touchstone.schema.events import Phase, outcome_of, read_events
from touchstone.schema.interleaved import MeasuredSet, Round, Slice, Turns, least_latency
from touchstone.schema.spec import Execution, TrainingSpec, Trial
from touchstone.schema.status import OK

WAIT_POLICIES = ("passive", "active")
MANY = 4
"""So many cores, or more, have the most numbers of threads to try."""
ROUNDS, SLICE_SECONDS, LEAD_SECONDS = 4, 0.4, 0.15
"""Of a set in which settings take turns."""
LONG_SECONDS = 2.0
"""How long a slice lasts before which nothing is done unmeasured."""
MOST_TIMES = 2
"""How long the rounds of a set last at most, beside other programs, as a multiple of their time
without: rounds beside these show nothing."""
LEAST_SETS, MOST_SETS = 3, 5
"""Of the default and the settings that may be faster."""
ONE_AFTER_ANOTHER = 4.0
"""Seconds that a trial works after its start and first step, where each is a run of its own."""
COST = 2
"""What turns may cost, as a multiple of such trials of the same settings."""
WARMUP_STEPS = 3
WARMUP_SECONDS = 1.0
MEASURED_SECONDS = 3.0
"""How long a trial measures, at most, after its first step and warm-up, s, where it is a run."""


class Settings(NamedTuple):
    """What trials change of an execution: one is chosen before the next one is tried."""

    mode: str
    threads: int | None
    wait_policy: str

    def applied_to(self, execution: Execution) -> Execution:
        """The execution with these settings."""
        return execution._replace(**self._asdict())


def settings_of(source: Execution | Trial) -> Settings:
    """The settings of an execution, or those that a trial tried."""
    return Settings(source.mode, source.threads, source.wait_policy)


def to_try(
    setting: str, execution: Execution, modes: Sequence[str], waits: bool, cores: int
) -> Sequence[Any]:
    """The values of a setting to try: every mode, of the others those that are not tried yet.

    What the study sets is not tried, and on a GPU or with several replicas nothing but modes.

    Args:
        execution: that of a spec, with the fastest values of the settings before this one.
        modes: the framework's.
        waits: whether its idle threads heed a wait policy.
        cores: that the run may use.
    """
    if setting == "mode":
        return modes
    if execution.device != "cpu" or execution.world_size > 1:
        return ()
    if setting == "threads":
        return sorted({1, cores // 2} - {0, cores}) if execution.threads is None else ()
    several = (execution.threads or cores) > 1
    return WAIT_POLICIES if waits and several and execution.wait_policy == "default" else ()


def most_trials(execution: Execution, modes: Sequence[str], waits: bool) -> int:
    """The largest number of trials that a run can make, on any machine."""
    return sum(len(to_try(name, execution, modes, waits, MANY)) for name in Settings._fields)


class Judge(Protocol):
    """What sets show; their cells have the names of settings (`folder_of`)."""

    def leader(self, sets: Sequence[MeasuredSet], leader: str) -> str:
        """The fastest of those that are shown to be faster than the `leader`, or itself."""

    def sets(self, sets: Sequence[MeasuredSet], cell: str, other: str) -> int:
        """How many count that have both."""

    def is_faster(self, sets: Sequence[MeasuredSet], cell: str, other: str) -> bool:
        """Whether a cell is shown to be faster than the other in such sets."""


Measure = Callable[[int, Sequence[Settings], float], tuple[MeasuredSet, list[Failed]]]
"""Measures the set of a number, of some settings, where the least core latency, ns, is known:
the set, and who failed. Raises Failed and FailedBeside, as `measure_unknown`."""


class Search:
    """Finds the settings of a run.

    Args:
        execution: of the run's spec.
        measure: measures settings in turn.
        judge: of what it measured.
        in_pairs: whether no more than two fit on the device at one time.

    Attributes:
        tried: by name, in their order: the framework's default first.
        failed: by name, why.
        sets: those measured.
    """

    def __init__(
        self, execution: Execution, measure: Measure, judge: Judge, in_pairs: bool
    ) -> None:
        self.execution, self.measure, self.judge = execution, measure, judge
        self.in_pairs = in_pairs
        self.tried: dict[str, Settings] = {}
        self.failed: dict[str, Failed] = {}
        self.sets: list[MeasuredSet] = []
        self.allowed = 0.0

    def run(self, modes: Sequence[str], waits: bool, cores: int) -> Settings:
        """The fastest settings; the `reference` unless others are shown to be faster.

        The modes take turns first; with the fastest one other numbers of threads, and then how
        idle threads wait. The default takes part each time. At last it and the fastest settings
        take turns until one is shown to be faster, or the time is over (`COST`).
        """
        default = self._name(settings_of(self.execution)._replace(mode=modes[0]))
        leader = default
        for setting in Settings._fields:
            own = self.tried[leader]
            execution = own.applied_to(self.execution)
            values = to_try(setting, execution, modes, waits, cores)
            new = [self._name(own._replace(**{setting: value})) for value in values]
            if not new:
                continue
            sets = self._contest(list(dict.fromkeys([default, leader, *new])), set(new))
            passed = [name for name in self.tried if self.has_passed(name)]
            if not passed:
                break
            leader = self.judge.leader(sets, leader if leader in passed else passed[0])
        reference = self.reference
        if reference is None:
            return self.tried[default]
        confirmed = self._is_confirmed(leader, reference)
        return self.tried[leader if confirmed else reference]

    @property
    def reference(self) -> str | None:
        """The default, or where it cannot take turns the first settings that can; None where none
        can."""
        return next((name for name in self.tried if self.has_passed(name)), None)

    @property
    def measured(self) -> set[str]:
        """The settings that took turns."""
        return {cell for set_ in self.sets for turns in set_.turns for cell in turns.cells}

    def has_passed(self, name: str) -> bool:
        """Whether settings took turns, and did not fail."""
        return name in self.measured and name not in self.failed

    def _name(self, settings: Settings) -> str:
        name = folder_of(settings, self.execution)
        self.tried[name] = settings
        return name

    def _is_confirmed(self, leader: str, default: str) -> bool:
        """Whether the `leader` is shown to be faster than the default in several sets."""
        if leader == default:
            return False
        for _ in range(MOST_SETS):
            count = self.judge.sets(self.sets, leader, default)
            enough = count >= LEAST_SETS and self.judge.is_faster(self.sets, leader, default)
            if enough or count >= MOST_SETS or not self._has_time():
                break
            self._contest([default, leader], set())
        passed = self.has_passed(leader) and self.has_passed(default)
        return passed and self.judge.is_faster(self.sets, leader, default)

    def _has_time(self) -> bool:
        """Whether another set of two is likely to end in the time that turns may take."""
        last = self.sets[-1]
        cells = sum(len(turns.cells) for turns in last.turns)
        spent = sum(set_.seconds for set_ in self.sets)
        return spent + last.seconds * 2 / max(cells, 2) <= COST * self.allowed

    def _contest(self, names: Sequence[str], new: set[str]) -> list[MeasuredSet]:
        """Measure a set of the named settings that have not failed; several where they do not fit
        into memory together, each with the first of them. `new` are those that are tried for the
        first time."""
        begin, left = len(self.sets), [name for name in names if name not in self.failed]
        while left:
            group = left[:2] if self.in_pairs else left
            try:
                set_, failed = self._measured(group)
            except FailedBeside as fault:
                self._note_crowd(group, fault)
            except Failed as fault:
                self.failed[group[0]] = fault
            else:
                self.failed |= {fault.cell: fault for fault in failed}
                self._add(set_, new)
                left = [left[0], *(name for name in left[1:] if name not in set_.turns[0].cells)]
            left = [name for name in left if name not in self.failed]
            if len(self.sets) > begin and len(left) < 2:
                break
        return self.sets[begin:]

    def _measured(self, names: Sequence[str]) -> tuple[MeasuredSet, list[Failed]]:
        least = least_latency(part for set_ in self.sets for part in set_.slices)
        return self.measure(len(self.sets) + 1, [self.tried[name] for name in names], least)

    def _note_crowd(self, names: Sequence[str], fault: Failed) -> None:
        """The first of them failed only beside the others: they take turns in pairs, and the other
        of a pair cannot take turns."""
        if len(names) > 2:
            self.in_pairs = True
            return
        reason = f"beside it {fault.cell} failed: {fault.reason}"
        self.failed[names[1]] = Failed(names[1], reason, fault.status)

    def _add(self, set_: MeasuredSet, new: set[str]) -> None:
        """Keep a set, and count what trials one after another would have taken."""
        self.sets.append(set_)
        (turns,) = set_.turns
        parts = [*set_.set_aside, *(part for r in turns.rounds for part in r.slices)]
        worked = sum(part.seconds + LEAD_SECONDS for part in parts)
        start = max(set_.seconds - worked, 0.0) / len(turns.cells)
        self.allowed += sum(start + ONE_AFTER_ANOTHER for cell in turns.cells if cell in new)


def timing_of(cells: int) -> Timing:
    """How a set of so many settings is measured."""
    usual = ROUNDS * cells * (LEAD_SECONDS + SLICE_SECONDS)
    return Timing(
        ROUNDS, SLICE_SECONDS, LEAD_SECONDS, MOST_TIMES * usual, least_rounds=0,
        long_seconds=LONG_SECONDS,
    )  # fmt: skip


def folder_of(settings: Settings, execution: Execution) -> str:
    """Where the files of a trial are in the folder of its run, which is its name in sets.

    It names the mode, and every other setting that is not the `execution`'s own.
    """
    words = [settings.mode]
    if settings.threads != execution.threads:
        words.append(f"threads{settings.threads}")
    if settings.wait_policy != execution.wait_policy:
        words.append(settings.wait_policy)
    return f"trials/{'-'.join(words)}"


def trial_spec(spec: TrainingSpec, settings: Settings) -> TrainingSpec:
    """The spec of the trial of some settings: the run's own, but short and without evaluations."""
    return spec._replace(
        execution=settings.applied_to(spec.execution),
        phases=spec.phases._replace(
            evaluate_every=0,
            warmup_steps=WARMUP_STEPS,
            warmup_seconds=WARMUP_SECONDS,
            measured_seconds=MEASURED_SECONDS,
        ),
        keep_weights=None,
    )


def phases_of(events: Path) -> dict[str, Phase]:
    """The phases in the events of a trial, by name; none where it left none."""
    all_events = read_events(events) if events.exists() else []
    return {event.name: event for event in all_events if isinstance(event, Phase)}


def first_step_time(events: Path) -> float | None:
    """How long the first step of a trial took, s; None where it did not come to that."""
    phase = phases_of(events).get("first_step")
    return phase.end - phase.begin if phase else None


def slice_of(events: Path, name: str) -> Slice:
    """A trial that was a run of its own, as one slice. Raises Failed where it measured nothing."""
    outcome = outcome_of(read_events(events))
    phase = phases_of(events).get("measured")
    if outcome.status != OK or not phase or phase.end <= phase.begin:
        raise Failed(name, str(outcome.reason or "it measured nothing"), outcome.status)
    return Slice(name, phase.begin, phase.end - phase.begin, phase.examples, 0.0)


def set_of_runs(
    number: int, names: Sequence[str], seed: int, attempt: Callable[[str], Slice]
) -> tuple[MeasuredSet, list[Failed]]:
    """A set of trials that are runs of their own, as the work of several replicas has no slices:
    in random order, each is one slice. Raises Failed where the first of the `names` fails."""
    started, begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    parts, failed = [], list[Failed]()
    for name in random.Random(f"{seed} {number}").sample(names, len(names)):
        try:
            parts.append(attempt(name))
        except Failed as fault:
            if name == names[0]:
                raise
            failed.append(fault)
    turns = Turns([part.cell for part in parts], [Round(parts)], [])
    return MeasuredSet(number, started, time.monotonic() - begin, [turns], {}), failed


def chosen(trials: Sequence[Trial]) -> Trial | None:
    """The trial whose settings the run has; None where none passed.

    Those of older versions do not say: it was the one with the highest throughput.
    """
    if any(trial.chosen is not None for trial in trials):
        return next((trial for trial in trials if trial.chosen and trial.status == OK), None)
    passed = [trial for trial in trials if trial.throughput is not None]
    return max(passed, key=lambda trial: trial.throughput or 0.0, default=None)
