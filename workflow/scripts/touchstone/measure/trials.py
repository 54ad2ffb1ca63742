"""Which mode, how many threads and which waiting are the fastest: a short measured run of each."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.schema.events import Phase, outcome_of, read_events
from touchstone.schema.spec import Execution, TrainingSpec, Trial
from touchstone.schema.status import OK

WAIT_POLICIES = ("passive", "active")
MANY = 4
"""So many cores, or more, have the most numbers of threads to try."""
WARMUP_STEPS = 3
WARMUP_SECONDS = 1.0
MEASURED_SECONDS = 3.0
"""How long a trial measures, at most, after its first step and warm-up, s."""


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


def search(
    execution: Execution,
    modes: Sequence[str],
    waits: bool,
    cores: int,
    attempt: Callable[[Settings], Trial],
) -> list[Trial]:
    """All trials of a run, in their order; see `to_try`.

    `attempt` makes the trial of some settings. Where no mode passes, nothing else is tried.
    """
    trials: list[Trial] = []
    for name in Settings._fields:
        own = settings_of(execution)
        for value in to_try(name, execution, modes, waits, cores):
            trials.append(attempt(own._replace(**{name: value})))
        best = fastest(trials)
        if best is None:
            break
        execution = settings_of(best).applied_to(execution)
    return trials


def folder_of(settings: Settings, execution: Execution) -> str:
    """Where the files of a trial are in the folder of its run.

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
    )


def trial_from(events: Path, settings: Settings, folder: str) -> Trial:
    """The trial of some settings that left these events, with its `folder` in that of the run.

    Its throughput (images/s) and first_step_time (s) may be None.
    """
    found = read_events(events)
    phases = {event.name: event for event in found if isinstance(event, Phase)}
    seconds = {name: phase.end - phase.begin for name, phase in phases.items()}
    outcome = outcome_of(found)
    measured = outcome.status == OK and seconds.get("measured")
    return Trial(
        *settings,
        status=outcome.status,
        reason=outcome.reason,
        throughput=phases["measured"].examples / measured if measured else None,
        first_step_time=seconds.get("first_step"),
        folder=folder,
    )


def fastest(trials: Iterable[Trial]) -> Trial | None:
    """The trial with the highest throughput; None where all failed."""
    passed = [trial for trial in trials if trial.throughput is not None]
    return max(passed, key=lambda trial: trial.throughput or 0.0, default=None)
