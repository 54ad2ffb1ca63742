"""The tables of numbers."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from touchstone.analysis.peaks import Peak, peaks, place_of, share_of_peak, why_no_share
from touchstone.analysis.scaling import middle, scaled
from touchstone.report.text import interval_text, number, ratio_text
from touchstone.results.max_batch import MaxBatch, of_cell
from touchstone.results.metrics import CENSORED, METRICS, STATUSES
from touchstone.results.study import Cell, Study
from touchstone.results.tables import counted
from touchstone.statistics.intervals import summarise


class Column(NamedTuple):
    """A column of the summary: heading, unit, metric and how to turn it into the number shown."""

    heading: str
    unit: str
    metric: str
    convert: Callable[[float], float] = float
    digits: int = 3


COLUMNS = (
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Step time", "ms", "step_rate", lambda rate: 1000 / rate),
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
OPERATION_COLUMNS = (
    Column("Time", "ms", "step_rate", lambda rate: 1000 / rate),
    Column("Arithmetic", "GFLOP/s", "flop_rate"),
    Column("Memory", "GB/s", "memory_rate"),
    Column("First call", "s", "first_step_time"),
    Column("CPU", "cores", "cpu_cores"),
    Column("Deviation", "", "deviation", digits=2),
)
EXCHANGE_COLUMNS = (
    Column("Array / time", "GB/s", "algorithm_bandwidth"),
    Column("Bus", "GB/s", "bus_bandwidth"),
)
"""Of operations between replicas; shown where the study has one."""
INFERENCE_COLUMNS = (
    Column("Model load", "s", "model_load_time"),
    Column("First prediction", "s", "first_step_time"),
    Column("Latency, median", "ms", "latency_p50"),
    Column("Latency, 95 %", "ms", "latency_p95"),
    Column("Latency, 99 %", "ms", "latency_p99"),
    Column("Throughput", "images/s", "throughput", digits=4),
    Column("Load and predict all", "s", "total_inference_time"),
    Column("Test accuracy", "", "test_accuracy", digits=4),
    Column("Deviation", "", "deviation", digits=2),
    Column("CPU", "cores", "cpu_cores"),
    Column("Host memory", "MiB", "host_memory"),
)


def operation_columns(study: Study) -> list[Column]:
    """The columns of the basic operations."""
    exchanged = any(cell.values("bus_bandwidth") for cell in study.cells)
    return [*OPERATION_COLUMNS, *(EXCHANGE_COLUMNS if exchanged else ())]


def operation_rows(study: Study, columns: list[Column]) -> list[dict[str, Any]]:
    """The rows of the basic operations, with what they reach of the measured peak."""
    most = peaks(study)
    rows = summary_rows(study.cells, columns)
    for row in rows:
        row["at"] = place_of(row["cell"])
        replicas = row["cell"].plan.factors.get("replicas")
        row["shape"] = row["cell"].facet[1] + (f", {replicas} replicas" if replicas else "")
        share = share_of_peak(row["cell"], most[row["at"]])
        row["share"] = None if share is None else number(share, 3)
    return rows


def scaling_rows(study: Study) -> list[dict[str, Any]]:
    """The rows of the cells of several replicas, as text."""
    return [
        {
            "scaled": row,
            "medians": [number(middle(cell)) for cell in (row.cell, row.alone)],
            "speedup": ratio_text(row.speedup.value) if row.speedup else None,
            "interval": interval_text(row.speedup) if row.speedup else "",
            "label": row.speedup.label if row.speedup else "",
            "efficiency": None if row.efficiency is None else number(row.efficiency * 100, 3),
            "flags": counted([*row.cell.flags, *row.alone.flags]),
        }
        for row in scaled(study)
    ]


def trained_rows(study: Study, measured: dict[Any, Peak], columns: list[Column]) -> list[Any]:
    """The rows of the networks, with what they reach of the measured peak, or why nobody knows."""
    rows = summary_rows(study.cells, columns)
    for row in rows:
        peak = measured.get(place_of(row["cell"]), Peak(None, None))
        share = share_of_peak(row["cell"], peak)
        row["share"] = None if share is None else number(share, 3)
        row["no_share"] = why_no_share(row["cell"], peak) if share is None else ""
    return rows


def further_columns(study: Study) -> list[Column]:
    """A column for every other metric that a run has a value of."""
    shown = {column.metric for column in (*COLUMNS, *GPU_COLUMNS)} | {"cpu_utilization"}
    return [
        Column(name.replace("_", " "), "" if metric.unit == "1" else metric.unit, name)
        for name, metric in METRICS.items()
        if name not in shown and any(cell.values(name) for cell in study.cells)
    ]


def summary_rows(cells: Iterable[Cell], columns: list[Column]) -> list[dict[str, Any]]:
    rows = []
    for cell in cells:
        entries = []
        for column in columns:
            values = [column.convert(value) for value in cell.values(column.metric)]
            beyond = len(cell.runs) - len(values) if column.metric in CENSORED else 0
            middle = summarise(values, beyond).median
            entries.append(
                {
                    "median": None if middle is None else number(middle, column.digits),
                    "range": f"{number(min(values), column.digits)} – "
                    f"{number(max(values), column.digits)}"
                    if len(values) > 1 and not beyond
                    else None,
                    "words": ", ".join(cell.words(column.metric)),
                }
            )
        cv = summarise(cell.values("throughput")).cv
        rows.append(
            {
                "cell": cell,
                "entries": entries,
                "cv": None if cv is None else number(cv * 100, 2),
                "flags": counted(cell.flags),
                "status": counted((run.status for run in cell.runs), STATUSES),
            }
        )
    return rows


def max_batch_rows(study: Study, found: Sequence[MaxBatch]) -> list[tuple[Cell, MaxBatch]]:
    """Each search that holds for a cell of the study, with the first such cell."""
    rows: dict[int, tuple[Cell, MaxBatch]] = {}
    for cell in study.cells if found else []:
        if one := of_cell(found, cell.plan.factors):
            rows.setdefault(id(one), (cell, one))
    return list(rows.values())
