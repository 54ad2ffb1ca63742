"""All numbers of the cells that train, what precision changes, and what limits the cells."""

from typing import Any

from touchstone.analysis.bottleneck_model import Bottleneck
from touchstone.analysis.findings_model import CellSummary, Findings, LargestBatch, PrecisionGain
from touchstone.report.rows import first_rows, sortable_rows
from touchstone.report.sections.columns import Column, has_values, summary_rows
from touchstone.report.text import missing_words
from touchstone.results.flags import FLAGS
from touchstone.results.metrics import METRICS, words
from touchstone.results.planned import FACTORS
from touchstone.results.study import FACET
from touchstone.results.tables import STUDY_FLAGS

COLUMNS = (
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Step time", "ms", "step_time"),
    Column("First step", "s", "first_step_time"),
    Column("Training time", "s", "training_time"),
    Column("Test accuracy", "", "test_accuracy", digits=4),
    Column("Final loss", "", "final_loss"),
    Column("CPU", "cores", "cpu_cores"),
    Column("Host memory", "MiB", "host_memory"),
)
GPU_COLUMNS = (
    Column("GPU utilisation", "%", "gpu_utilization"),
    Column("GPU memory", "MiB", "gpu_memory"),
    Column("GPU memory peak", "MiB", "gpu_memory_peak"),
    Column("GPU power", "W", "gpu_power"),
    Column("GPU energy", "J", "gpu_energy"),
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
    columns = [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]
    further = further_columns(cells)
    rows = summary_rows(cells, columns)
    factors = findings.setup.factors
    known = {sign.kind for found in findings.bottlenecks for sign in found.evidence}
    return {
        "columns": columns,
        "rows": sortable_rows(rows),
        "shares": any(row["share"] for row in rows),
        "no_shares": dict.fromkeys(row["no_share"] for row in rows),
        "further": further,
        "further_rows": first_rows(summary_rows(cells, further)),
        "gpu_reason": None if has_gpu else findings.metrics_without_values.get("gpu_power"),
        "factors": factors,
        "first": (*FACTORS, "epochs", "steps"),
        "facet_shown": not factors.same.keys() >= set(FACET),
        "batch_shown": len({cell.batch_size for cell in findings.cells}) > 1,
        "max_batches": first_rows([_batch_row(findings, o) for o in findings.largest_batches]),
        "gains": sortable_rows([_gain_row(findings, one) for one in findings.precision]),
        "verdicts": sortable_rows([_verdict_row(findings, one) for one in findings.bottlenecks]),
        "verdict_sentences": bottleneck_sentences(findings),
        "sign_columns": {kind: column for kind, column in SIGNS.items() if kind in known},
        "cannot_tell": CANNOT_TELL,
        "flags": {
            name: (text, findings.flags[name]) for name, text in (FLAGS | STUDY_FLAGS).items()
        },
    }


def further_columns(cells: list[CellSummary]) -> list[Column]:
    """A column for every other metric that a run has a value of."""
    shown = {column.metric for column in (*COLUMNS, *GPU_COLUMNS)} | {"cpu_utilization"}
    shown.add("step_rate")  # its reciprocal is shown
    return [
        Column(words(name), "" if metric.unit == "1" else metric.unit, name)
        for name, metric in METRICS.items()
        if name not in shown and has_values(cells, [name])
    ]


def _batch_row(findings: Findings, found: LargestBatch) -> dict[str, Any]:
    return {"cell": findings.cell[found.cell], "search": found}


def _gain_row(findings: Findings, gain: PrecisionGain) -> dict[str, Any]:
    cell, reference = findings.cell[gain.cell], findings.cell[gain.reference]
    return {
        "cell": cell,
        "gain": gain,
        "precision": cell.factors["precision"],
        "reference": reference.factors["precision"],
        "words": ", ".join(missing_words(cell, "throughput")) or "no block has both",
    }


def _verdict_row(findings: Findings, found: Bottleneck) -> dict[str, Any]:
    cell = findings.cell[found.cell]
    return {
        "cell": cell,
        "input": cell.factors["input"],
        "found": found,
        "signs": {sign.kind: sign for sign in found.evidence},
    }


def bottleneck_sentences(findings: Findings) -> list[str]:
    """On each network, data set and device: a sentence for each cell that has a verdict, in order
    of the verdicts, up to `NAMED_CELLS` of each, and how many cells have none."""
    places: dict[tuple[str, str, str], list[Bottleneck]] = {}
    for found in findings.bottlenecks:
        places.setdefault(findings.cell[found.cell].facet, []).append(found)
    return [line for found in places.values() for line in _of_place(findings, found)]


def _of_place(findings: Findings, place: list[Bottleneck]) -> list[str]:
    network, dataset, device = findings.cell[place[0].cell].facet
    where = f"{network} with {dataset} ({device.upper()})"
    sentences = []
    for bound in BOUNDS:
        judged = [found for found in place if found.verdict == bound]
        for found in judged[:NAMED_CELLS]:
            cell = findings.cell[found.cell]
            name = f"{cell.label} at batch size {cell.batch_size}"
            sentences.append(f"{where}: {name} is {bound}. Evidence: {found.why}.")
        if (more := len(judged) - NAMED_CELLS) > 0:
            sentences.append(f"{where}: {more} more are {bound}; see the table.")
    if unknown := sum(found.verdict == CANNOT_TELL for found in place):
        which = f"{unknown} of {len(place)} configurations"
        sentences.append(f"{where}: no verdict on {which}. The table says why.")
    return sentences
