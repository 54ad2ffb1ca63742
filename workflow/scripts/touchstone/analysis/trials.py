"""What the trials of the mode `best` found: what each run chose, and how much faster that is."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from touchstone.analysis import findings_model
from touchstone.measure.trials import chosen
from touchstone.results.planned import FACTORS
from touchstone.results.study import Cell, Result, Study
from touchstone.results.tables import trials_of, tried
from touchstone.schema import spec

COLUMNS = (
    *(name for name in FACTORS if name != "mode"),
    *("cell", "repeat", "mode", "threads", "wait_policy", "chosen", "status", "reason"),
    *("throughput", "ratio_to_default", "low", "high", "sets", "chosen_is_faster_by"),
    *("first_step_time", "files"),
)


class Trial(NamedTuple):
    """A trial of some settings by one run of a cell.

    `recorded` is what the record keeps of it; `settings` says in words what it tried. `faster` is
    how many times as fast the chosen trial is; of older records, without ratios, by throughput.
    """

    cell: Cell
    run: Result
    recorded: spec.Trial
    settings: str
    chosen: bool
    faster: float | None

    @property
    def files(self) -> str:
        """The folder of its spec, events, telemetry and log, from the working folder."""
        return f"{self.run.provenance['run']}/{self.recorded.folder}"


class Choice(NamedTuple):
    """Settings that runs of a cell tried; `faster` is the median over their trials."""

    cell: Cell
    settings: str
    trials: list[Trial]

    @property
    def chosen(self) -> int:
        """How many runs of the cell trained with these settings."""
        return sum(trial.chosen for trial in self.trials)

    @property
    def throughput(self) -> float | None:
        """The median of its trials, images/s."""
        return _median([trial.recorded.throughput for trial in self.trials])

    @property
    def faster(self) -> float | None:
        """How many times as fast the settings are that the run chose."""
        return _median([trial.faster for trial in self.trials])

    @property
    def failed(self) -> Counter[str]:
        """The outcomes of the trials that gave no number."""
        without = [trial.recorded for trial in self.trials if trial.recorded.throughput is None]
        return Counter(recorded.status for recorded in without)

    @property
    def reasons(self) -> list[str]:
        """Why, each reason once."""
        reasons = (trial.recorded.reason for trial in self.trials)
        return list(dict.fromkeys(filter(None, reasons)))


def _median(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return median(known) if known else None


def trials(study: Study) -> list[Trial]:
    """Every trial of a study, in the order of the plan, the repeats and the run's own."""
    found = []
    for cell in study.cells:
        for run in cell.runs:
            all_of_run = trials_of(run.provenance)
            best = chosen(all_of_run)
            for one in all_of_run:
                settings = tried(one, all_of_run[0])
                faster = _faster(best, one) if best else None
                found.append(Trial(cell, run, one, settings, one is best, faster))
    return found


def _faster(best: spec.Trial, one: spec.Trial) -> float | None:
    """How many times as fast the chosen trial is as another one; None where that is not known."""
    if best.ratio is not None and one.ratio is not None:
        return best.ratio / one.ratio
    if best.chosen is None and best.throughput and one.throughput:
        return best.throughput / one.throughput
    return None


def choices(found: Sequence[Trial]) -> list[Choice]:
    """What was tried, cell by cell."""
    grouped: dict[tuple[str, str], list[Trial]] = {}
    for trial in found:
        grouped.setdefault((trial.cell.plan.name, trial.settings), []).append(trial)
    return [Choice(group[0].cell, settings, group) for (_, settings), group in grouped.items()]


def rows(found: Sequence[Trial]) -> list[list[object]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [
        [
            *(trial.cell.plan.factors[name] for name in FACTORS if name != "mode"),
            trial.cell.plan.name,
            trial.run.repeat,
            trial.recorded.mode,
            trial.recorded.threads,
            trial.recorded.wait_policy,
            "yes" if trial.chosen else "no",
            trial.recorded.status,
            trial.recorded.reason,
            trial.recorded.throughput,
            trial.recorded.ratio,
            trial.recorded.low,
            trial.recorded.high,
            trial.recorded.sets,
            trial.faster,
            trial.recorded.first_step_time,
            trial.files,
        ]
        for trial in found
    ]


def summary(choice: Choice) -> findings_model.Choice:
    """What was tried of a cell, as the findings have it."""
    return findings_model.Choice(
        cell=choice.cell.plan.name,
        settings=choice.settings,
        chosen=choice.chosen,
        throughput=choice.throughput,
        chosen_is_faster_by=choice.faster,
        failed=choice.failed,
        reasons=choice.reasons,
        trials=[_trial_summary(trial) for trial in choice.trials],
    )


def _trial_summary(trial: Trial) -> findings_model.TrialSummary:
    recorded = trial.recorded
    return findings_model.TrialSummary(
        repeat=trial.run.repeat,
        mode=recorded.mode,
        threads=recorded.threads,
        wait_policy=recorded.wait_policy,
        chosen=trial.chosen,
        status=recorded.status,
        reason=recorded.reason,
        throughput=recorded.throughput,
        ratio=recorded.ratio,
        low=recorded.low,
        high=recorded.high,
        chosen_is_faster_by=trial.faster,
        first_step_time=recorded.first_step_time,
        files=trial.files,
    )
