"""All numbers of the cells that train, what precision changes, and what limits the cells."""

from typing import Any

from touchstone.analysis.findings_model import (
    Bottleneck,
    CellSummary,
    Findings,
    LargestBatch,
    PrecisionGain,
)
from touchstone.report.rows import first_rows, sortable_rows
from touchstone.report.sections.columns import Column, has_values, summary_rows
from touchstone.report.text import missing_words
from touchstone.results.metrics import FLAGS, METRICS
from touchstone.results.study import FACET
from touchstone.results.tables import FACTORS, STUDY_FLAGS

COLUMNS = (
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Step time", "ms", "step_time"),
    Column("First step", "s", "first_step_time"),
    Column("Training time", "s", "training_time"),
    Column("Test accuracy", "", "test_accuracy", digits=4),
    Column("Final loss", "", "final_loss"),
    Column("CPU", "cores", "cpu_cores"),
    Column("Busy threads", "", "busy_threads"),
    Column("Host memory", "MiB", "host_memory"),
    Column("Memory peak", "MiB", "host_memory_peak"),
)
GPU_COLUMNS = (
    Column("GPU utilisation", "%", "gpu_utilization"),
    Column("GPU memory", "MiB", "gpu_memory"),
    Column("GPU memory peak", "MiB", "gpu_memory_peak"),
    Column("GPU power", "W", "gpu_power"),
    Column("GPU energy", "J", "gpu_energy"),
)
CANNOT_TELL = "cannot tell"
BOUNDS = ("input-bound", "copy-bound", "launch-bound", "compute-bound")
"""The verdicts that have a sentence, in its order."""
NAMED_CELLS = 4
"""Cells that a sentence names."""


def view(findings: Findings) -> dict[str, Any]:
    """The tables of numbers, with what says how to read them."""
    cells = findings.cells_of("training")
    has_gpu = has_values(cells, [column.metric for column in GPU_COLUMNS])
    columns = [*COLUMNS, *(GPU_COLUMNS if has_gpu else ())]
    further = further_columns(cells)
    rows = summary_rows(cells, columns)
    factors = findings.setup.factors
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
        "max_batches": first_rows([_batch_row(findings, o) for o in findings.largest_batches]),
        "gains": sortable_rows([_gain_row(findings, one) for one in findings.precision]),
        "verdicts": sortable_rows([_verdict_row(findings, one) for one in findings.bottlenecks]),
        "verdict_sentences": bottleneck_sentences(findings),
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
        Column(name.replace("_", " "), "" if metric.unit == "1" else metric.unit, name)
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
    return {"cell": cell, "input": cell.factors["input"], "found": found}


def bottleneck_sentences(findings: Findings) -> list[str]:
    """One sentence for every verdict that there is on a network, data set and device."""
    groups: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for found in findings.bottlenecks:
        cell = findings.cell[found.cell]
        groups.setdefault(cell.facet, {}).setdefault(found.verdict, []).append(
            f"{cell.label} at batch size {cell.batch_size} ({found.why})"
        )
    return [
        f"On {network} with {dataset} ({device}), {bound}: {_first_cells(bounds[bound])}."
        for (network, dataset, device), bounds in groups.items()
        for bound in BOUNDS
        if bound in bounds
    ]


def _first_cells(cells: list[str]) -> str:
    """The first `NAMED_CELLS` of them, and how many more there are."""
    more = len(cells) - NAMED_CELLS
    return "; ".join(cells[:NAMED_CELLS] + ([f"{more} more in the table"] if more > 0 else []))
