"""What the trials of the mode `best` found: what each run chose, and how much faster that is."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from touchstone.analysis.findings_model import Choice, TrialSummary
from touchstone.measure.trials import chosen
from touchstone.results.study import Cell, Result, Study
from touchstone.results.tables import trials_of, tried
from touchstone.schema.spec import Trial


def choices(study: Study) -> list[Choice]:
    """The settings that the runs of each cell tried, in the order in which they were tried."""
    return [
        _choice(cell.plan.name, settings, trials)
        for cell in study.cells
        for settings, trials in _by_settings(cell).items()
    ]


def _by_settings(cell: Cell) -> dict[str, list[TrialSummary]]:
    """The trials of a cell's runs, by what they tried in words."""
    trials: dict[str, list[TrialSummary]] = {}
    for run in cell.runs:
        of_run = trials_of(run.provenance)
        best = chosen(of_run)
        for trial in of_run:
            settings = tried(trial, of_run[0])
            trials.setdefault(settings, []).append(_summary(run, trial, best))
    return trials


def _choice(cell: str, settings: str, trials: Sequence[TrialSummary]) -> Choice:
    return Choice(
        cell=cell,
        settings=settings,
        chosen=sum(trial.chosen for trial in trials),
        throughput=_median(trial.throughput for trial in trials),
        chosen_is_faster_by=_median(trial.chosen_is_faster_by for trial in trials),
        failed=Counter(trial.status for trial in trials if trial.throughput is None),
        reasons=list(dict.fromkeys(trial.reason for trial in trials if trial.reason)),
        trials=list(trials),
    )


def _summary(run: Result, trial: Trial, best: Trial | None) -> TrialSummary:
    return TrialSummary(
        repeat=run.repeat,
        mode=trial.mode,
        threads=trial.threads,
        wait_policy=trial.wait_policy,
        chosen=trial is best,
        status=trial.status,
        reason=trial.reason,
        throughput=trial.throughput,
        ratio=trial.ratio,
        low=trial.low,
        high=trial.high,
        sets=trial.sets,
        chosen_is_faster_by=_faster(best, trial) if best else None,
        first_step_time=trial.first_step_time,
        files=f"{run.provenance['run']}/{trial.folder}",
    )


def _faster(best: Trial, trial: Trial) -> float | None:
    """How many times as fast the chosen trial is as another one; None where that is not known.

    Records of older versions have no ratios, but throughputs."""
    if best.ratio is not None and trial.ratio is not None:
        return best.ratio / trial.ratio
    if best.chosen is None and best.throughput and trial.throughput:
        return best.throughput / trial.throughput
    return None


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
