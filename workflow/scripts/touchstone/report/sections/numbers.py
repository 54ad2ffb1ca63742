"""All numbers of the cells that train, what precision changes, and what limits the cells."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from touchstone.analysis.bottleneck_model import Bottleneck
from touchstone.analysis.findings_model import CellSummary, Findings, LargestBatch, PrecisionGain
from touchstone.report.sections.columns import MetricColumn, has_values, metric_columns
from touchstone.report.table import (
    Column,
    Table,
    TableCell,
    batches_vary,
    below,
    facet_column,
    facets_vary,
    flags_column,
    itself,
    place_columns,
    ratio_cell,
    stack_name,
    verdict_cell,
    word,
)
from touchstone.report.text import (
    counts_text,
    missing_words,
    number,
    optional_number,
    ratio_text,
)
from touchstone.results.flags import FLAGS
from touchstone.results.metrics import METRICS, words
from touchstone.results.planned import FACTORS
from touchstone.results.tables import STUDY_FLAGS
from touchstone.schema.status import STATUSES

COLUMNS = (
    MetricColumn("Throughput", "images/s", "throughput", digits=4),
    MetricColumn("Step time", "ms", "step_time"),
    MetricColumn("First step", "s", "first_step_time"),
    MetricColumn("Training time", "s", "training_time"),
    MetricColumn("Test accuracy", "", "test_accuracy", digits=4),
    MetricColumn("Final loss", "", "final_loss"),
    MetricColumn("CPU", "cores", "cpu_cores"),
    MetricColumn("Host memory", "MiB", "host_memory"),
)
GPU_COLUMNS = (
    MetricColumn("GPU utilisation", "%", "gpu_utilization"),
    MetricColumn("GPU memory", "MiB", "gpu_memory"),
    MetricColumn("GPU memory peak", "MiB", "gpu_memory_peak"),
    MetricColumn("GPU power", "W", "gpu_power"),
    MetricColumn("GPU energy", "J", "gpu_energy"),
)
CANNOT_TELL = "cannot tell"
SIGNS = {
    "reading": ("Reading", "% of time"),
    "CPU time of reading": ("CPU time of reading", "%"),
    "PCIe link": ("PCIe link", "%"),
    "batch size": ("Fixed per step", "% of time"),
    "idle GPU": ("GPU idle", "% of time"),
    "busy cores": ("Cores busy", "% of time"),
    "context switches": ("Switches", "1/s and core"),
    "measured peak": ("Of measured peak", "%"),
}
"""Name and unit of the column of each kind of evidence on a bottleneck."""
BOUNDS = ("input-bound", "copy-bound", "launch-bound", "compute-bound")
"""The verdicts, in the order of their sentences."""
NAMED_CELLS = 4
"""Cells with the same verdict that have a sentence of their own."""


def view(findings: Findings) -> dict[str, Any]:
    """The tables of numbers, with what says how to read them."""
    cells = findings.cells_of("training")
    has_gpu = has_values(cells, [column.metric for column in GPU_COLUMNS])
    factors = findings.setup.factors
    return {
        "rows": _numbers(findings, cells, [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]),
        "shares": _has_shares(cells),
        "further": further_columns(cells),
        "further_rows": _further(findings, cells),
        "gpu_reason": _why_no_gpu(findings) if not has_gpu else None,
        "factors": factors,
        "first": (*FACTORS, "epochs", "steps"),
        "batch_size": None if batches_vary(findings) else cells[0].batch_size if cells else "–",
        "max_batches": _largest_batches(findings),
        "gains": _gains(findings),
        "bottlenecks": _bottlenecks(findings),
        "verdict_sentences": bottleneck_sentences(findings),
        "flags": {
            name: (text, count)
            for name, text in (FLAGS | STUDY_FLAGS).items()
            if (count := findings.flags[name])
        },
    }


def _why_no_gpu(findings: Findings) -> str | None:
    """Why no run on a GPU has a value of it; None if none is on one."""
    on_gpu = any(cell.device == "gpu" for cell in findings.cells)
    return findings.metrics_without_values.get("gpu_power") if on_gpu else None


def _has_shares(cells: Sequence[CellSummary]) -> bool:
    return any(optional_number(cell.share_of_peak, 3) for cell in cells)


def _numbers(
    findings: Findings, cells: Sequence[CellSummary], metrics: Sequence[MetricColumn]
) -> Table:
    """All numbers of the cells that train."""
    throughput, *others = metric_columns(metrics)
    columns = (
        *place_columns(findings, itself),
        throughput,
        Column("Its CV", _variation, "%"),
        *others,
        *[Column("Share of peak", _share, "%")] * _has_shares(cells),
        Column("Runs", lambda cell: counts_text(cell.outcomes, STATUSES), css="text"),
        flags_column(itself),
        *map(_factor_column, findings.setup.factors.other),
    )
    return Table("Summary of all cells", columns, cells, csv="tables/summary.csv", sortable=True)


def _variation(cell: CellSummary) -> str | None:
    """The coefficient of variation of the throughput, %."""
    throughput = cell.metrics.get("throughput")
    return number(throughput.cv * 100, 2) if throughput and throughput.cv is not None else None


def _share(cell: CellSummary) -> str:
    """The share of the measured peak, %, or why there is none."""
    if cell.share_of_peak is not None:
        return number(cell.share_of_peak, 3)
    return Markup('<span class="soft">{}</span>').format(cell.share_of_peak_missing)


def _factor_column(name: str) -> Column:
    heading = name.replace("_", " ").capitalize()
    return Column(heading, lambda cell: cell.factors[name] or None)


def _further(findings: Findings, cells: Sequence[CellSummary]) -> Table:
    """The metrics that the table of all numbers has no column for."""
    metrics = [
        column._replace(heading=column.heading[0].upper() + column.heading[1:])
        for column in further_columns(cells)
    ]
    return Table(
        "Further measurements",
        (*place_columns(findings, itself), *metric_columns(metrics), flags_column(itself)),
        cells,
        csv="tables/summary.csv",
    )


def further_columns(cells: Sequence[CellSummary]) -> list[MetricColumn]:
    """A column for every other metric that a run has a value of."""
    shown = {column.metric for column in (*COLUMNS, *GPU_COLUMNS)} | {"cpu_utilization"}
    shown.add("step_rate")  # its reciprocal is shown
    return [
        MetricColumn(words(name), "" if metric.unit == "1" else metric.unit, name)
        for name, metric in METRICS.items()
        if name not in shown and has_values(cells, [name])
    ]


def _largest_batches(findings: Findings) -> Table:
    """The searches for the largest batch that fits."""

    def cell(search: LargestBatch) -> CellSummary:
        return findings.cell[search.cell]

    columns = (
        Column(
            "Framework or program",
            lambda search: cell(search).factors["program"] or stack_name(cell(search)),
        ),
        *[facet_column(cell)] * facets_vary(findings),
        Column(
            "Largest batch",
            lambda search: search.max_batch_size or word(search.status),
            "images",
        ),
        Column("Probes", lambda search: search.probes),
        Column("Limit", lambda search: search.limit, css="wrap"),
        Column("Remark", lambda search: search.reason or None, css="wrap"),
    )
    return Table(
        "The largest batch that fits",
        columns,
        findings.largest_batches,
        what="searches",
        whole="max_batch/",
    )


def _gains(findings: Findings) -> Table:
    """What precision changes."""

    def verdict(gain: PrecisionGain) -> TableCell | str:
        if gain.throughput:
            return verdict_cell(gain.throughput)
        words = ", ".join(missing_words(findings.cell[gain.cell], "throughput"))
        return TableCell(words or "no block has both", "text word")

    def precision(name: str) -> str:
        return findings.cell[name].factors["precision"]

    columns = (
        *place_columns(findings),
        Column(
            "Precision",
            lambda gain: f"{precision(gain.cell)} against {precision(gain.reference)}",
            css="text",
        ),
        Column("Throughput", lambda gain: ratio_cell(gain.throughput)),
        Column("Verdict", verdict, css="text"),
        Column("Test accuracy", _accuracy, "points"),
        Column("Memory", _memory),
    )
    return Table(
        "What precision changes",
        columns,
        findings.precision,
        csv="tables/precision.csv",
        sortable=True,
    )


def _accuracy(gain: PrecisionGain) -> str | None:
    """The change of the test accuracy with its interval, in percentage points."""
    if gain.accuracy_change is None:
        return None
    text = f"{gain.accuracy_change * 100:+.2f}"
    if gain.accuracy_low is None or gain.accuracy_high is None:
        return text
    interval = f"[{gain.accuracy_low * 100:+.2f}, {gain.accuracy_high * 100:+.2f}]"
    return text + below(interval)


def _memory(gain: PrecisionGain) -> str | None:
    if gain.memory_metric is None or gain.memory_ratio is None:
        return None
    return ratio_text(gain.memory_ratio) + below(gain.memory_metric.replace("_", " "))


def _bottlenecks(findings: Findings) -> Table:
    """What limits each cell, with the evidence of which the study has some."""
    kinds = {sign.kind for bottleneck in findings.bottlenecks for sign in bottleneck.evidence}
    columns = (
        *place_columns(findings),
        Column("Input", lambda row: findings.cell[row.cell].factors["input"], css="text"),
        Column("Verdict", _bound, css="text"),
        Column("Because", lambda bottleneck: bottleneck.why, css="wrap"),
        *(_sign_column(kind) for kind in SIGNS if kind in kinds),
    )
    return Table(
        "Bottlenecks", columns, findings.bottlenecks, csv="tables/bottleneck.csv", sortable=True
    )


def _bound(bottleneck: Bottleneck) -> TableCell:
    css = "text word" if bottleneck.verdict == CANNOT_TELL else None
    return TableCell(bottleneck.verdict, css)


def _sign_column(kind: str) -> Column:
    """The evidence of one kind, with its interval."""

    def text(bottleneck: Bottleneck) -> str | None:
        sign = next((sign for sign in bottleneck.evidence if sign.kind == kind), None)
        if sign is None:
            return None
        value = number(sign.value, 3)
        if sign.low is None:
            return value
        return value + below(f"[{number(sign.low, 3)}, {number(sign.high, 3)}]")

    heading, unit = SIGNS[kind]
    return Column(heading, text, unit)


def bottleneck_sentences(findings: Findings) -> list[str]:
    """On each network, data set and device: a sentence for each cell that has a verdict, in order
    of the verdicts, up to `NAMED_CELLS` of each, and how many cells have none."""
    places: dict[tuple[str, str, str], list[Bottleneck]] = {}
    for bottleneck in findings.bottlenecks:
        places.setdefault(findings.cell[bottleneck.cell].facet, []).append(bottleneck)
    return [line for place in places.values() for line in _of_place(findings, place)]


def _of_place(findings: Findings, place: list[Bottleneck]) -> list[str]:
    network, dataset, device = findings.cell[place[0].cell].facet
    where = f"{network} with {dataset} ({device.upper()})"
    sentences = []
    for bound in BOUNDS:
        judged = [bottleneck for bottleneck in place if bottleneck.verdict == bound]
        for bottleneck in judged[:NAMED_CELLS]:
            cell = findings.cell[bottleneck.cell]
            name = f"{cell.label} at batch size {cell.batch_size}"
            sentences.append(f"{where}: {name} is {bound}. Evidence: {bottleneck.why}.")
        if (more := len(judged) - NAMED_CELLS) > 0:
            sentences.append(f"{where}: {more} more are {bound}; see the table.")
    if unknown := sum(bottleneck.verdict == CANNOT_TELL for bottleneck in place):
        which = f"{unknown} of {len(place)} configurations"
        sentences.append(f"{where}: no verdict on {which}. The table says why.")
    return sentences
