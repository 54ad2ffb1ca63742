"""The numbers of each cell: medians, ranges, phases, shares of the measured peak."""

from collections import Counter
from collections.abc import Mapping
from statistics import median

from touchstone.analysis.findings_model import CellSummary, MetricSummary, PeakRates, Reported
from touchstone.analysis.peaks import Place, place_of, share_of_peak, why_no_share
from touchstone.plan.setting import INFERENCE, TRAINING
from touchstone.results.metrics import CENSORED, METRICS
from touchstone.results.phases import PHASES
from touchstone.results.study import Cell, Result, Study, each_once
from touchstone.statistics.intervals import summarise

STEP_TIME = "step_time"
UNITS = {name: metric.unit for name, metric in METRICS.items()} | {STEP_TIME: "ms"}
"""Units of the metrics, and of the time of a step, which is computed here."""


def summaries(
    study: Study, peaks: Mapping[Place, PeakRates], released: Mapping[str, str | None]
) -> list[CellSummary]:
    """The numbers of all cells, in order of the plan.

    Args:
        peaks: the measured peaks of the study's basic operations.
        released: by framework, the month of its release.
    """
    return [
        _summary(cell, peaks.get(place_of(cell)), released.get(cell.series.stack))
        for cell in study.cells
    ]


def _summary(cell: Cell, peak: PeakRates | None, released: str | None) -> CellSummary:
    network, dataset, device = cell.facet
    share = None if cell.kind == INFERENCE else share_of_peak(cell, peak)
    return CellSummary(
        name=cell.plan.name,
        framework=cell.series.framework,
        released=released,
        label=cell.series.label,
        network=network,
        dataset=dataset,
        device=device,
        batch_size=cell.batch_size,
        workload=cell.kind,
        factors=cell.plan.factors,
        outcomes=Counter(run.status for run in cell.runs),
        flags=Counter(cell.flags),
        best_chose=cell.chosen,
        metrics=_metrics(cell),
        missing_metrics=_missing(cell),
        phases=_phases(cell.runs),
        reports=_reports(cell.runs),
        peak_place=place_of(cell).label,
        share_of_peak=share,
        share_of_peak_missing=(
            why_no_share(cell, peak) if cell.kind == TRAINING and share is None else None
        ),
        by_sitting=_by_sitting(cell),
    )


def _by_sitting(cell: Cell) -> dict[str, float]:
    speeds: dict[str, list[float]] = {}
    for run in cell.runs:
        if run.execution and (speed := run.values["throughput"]) is not None:
            speeds.setdefault(run.execution, []).append(speed)
    return {began: median(speeds[began]) for began in sorted(speeds)}


def _reports(runs: list[Result]) -> list[Reported]:
    """Those of the first run that has any."""
    reported = next((run.reports for run in runs if run.reports), ())
    return [Reported(**report) for report in reported]


def _metrics(cell: Cell) -> dict[str, MetricSummary]:
    metrics = {}
    for name in METRICS:
        if values := cell.values(name):
            metrics[name] = _metric(cell, name, values)
    if rates := cell.values("step_rate"):
        metrics[STEP_TIME] = _metric(cell, "step_rate", [1000 / rate for rate in rates])
    return metrics


def _metric(cell: Cell, name: str, values: list[float]) -> MetricSummary:
    """The summary of a metric; `values` are its own, or what is computed from each of them."""
    missing = [run.status for run in cell.runs if run.values[name] is None]
    summary = summarise(values, len(missing) if name in CENSORED else 0)
    return MetricSummary(
        n=summary.n,
        median=summary.median,
        min=min(values),
        max=summary.max,
        cv=summary.cv,
        missing=Counter("no value" if status == "ok" else status for status in missing),
    )


def _missing(cell: Cell) -> dict[str, list[str]]:
    """By reason, the metrics that a run has no value of."""
    names: dict[str, dict[str, None]] = {}
    for reasons in each_once(run.reasons for run in cell.runs):
        for metric, reason in reasons.items():
            names.setdefault(reason, {})[metric] = None
    return {reason: list(metrics) for reason, metrics in names.items()}


def _phases(runs: list[Result]) -> dict[str, float]:
    """Median seconds of each phase over the ok runs that have it."""
    ok = [run.phases for run in runs if run.status == "ok"]
    seconds = {name: [phases[name] for phases in ok if name in phases] for name in PHASES}
    return {name: median(values) for name, values in seconds.items() if values}


def metrics_without_values(study: Study) -> dict[str, str]:
    """Metrics that no run of the study has a value of, and why."""
    reasons = {name: study.why_empty(name) for name in METRICS}
    return {name: reason for name, reason in reasons.items() if reason is not None}
