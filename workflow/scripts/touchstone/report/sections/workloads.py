"""The tables of basic operations, of inference and of programs."""

from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.plan.names import framework_name
from touchstone.report.sections.columns import MetricColumn, has_values, metric_columns
from touchstone.report.table import (
    Column,
    Table,
    batch_column,
    facet_column,
    flags_column,
    itself,
    stack_name,
)
from touchstone.report.text import optional_number

OPERATION_COLUMNS = (
    MetricColumn("Time", "ms", "step_time"),
    MetricColumn("Arithmetic", "GFLOP/s", "flop_rate"),
    MetricColumn("Memory", "GB/s", "memory_rate"),
    MetricColumn("First call", "s", "first_step_time"),
    MetricColumn("CPU", "cores", "cpu_cores"),
    MetricColumn("Deviation", "", "deviation", digits=2),
)
EXCHANGE_COLUMNS = (
    MetricColumn("Array / time", "GB/s", "algorithm_bandwidth"),
    MetricColumn("Bus", "GB/s", "bus_bandwidth"),
)
"""Of operations between replicas; shown where the study has one."""
INFERENCE_COLUMNS = (
    MetricColumn("Model load", "s", "model_load_time"),
    MetricColumn("First prediction", "s", "first_step_time"),
    MetricColumn("Latency, median", "ms", "latency_p50"),
    MetricColumn("Latency, 95 %", "ms", "latency_p95"),
    MetricColumn("Latency, 99 %", "ms", "latency_p99"),
    MetricColumn("Throughput", "images/s", "throughput", digits=4),
    MetricColumn("Load and predict all", "s", "total_inference_time"),
    MetricColumn("Test accuracy", "", "test_accuracy", digits=4),
    MetricColumn("Deviation", "", "deviation", digits=2),
    MetricColumn("CPU", "cores", "cpu_cores"),
    MetricColumn("Host memory", "MiB", "host_memory"),
)


PROGRAM_COLUMNS = (
    MetricColumn("Speed", "examples/s", "throughput", digits=4),
    MetricColumn("Steps", "steps/s", "step_rate"),
    MetricColumn("First step", "s", "first_step_time"),
    MetricColumn("Whole script", "s", "program_time"),
    MetricColumn("CPU", "cores", "cpu_cores"),
    MetricColumn("Memory, peak", "MiB", "host_memory_peak"),
    MetricColumn("Energy of the CPU", "J", "cpu_energy"),
    MetricColumn("GPU utilisation", "%", "gpu_utilization"),
    MetricColumn("GPU memory, peak", "MiB", "gpu_memory_peak"),
    MetricColumn("Energy of the GPU", "J", "gpu_energy"),
)


def view(findings: Findings) -> dict[str, Any]:
    """The tables."""
    return {
        "operations": _operations(findings.cells_of("operation")),
        "inference": _inference(findings.cells_of("inference")),
        "programs": _programs(findings.cells_of("program")),
    }


def _operations(cells: Sequence[CellSummary]) -> Table:
    exchange = EXCHANGE_COLUMNS if has_values(cells, ["bus_bandwidth"]) else ()
    time, arithmetic, *others = metric_columns([*OPERATION_COLUMNS, *exchange])
    columns = (
        Column("Framework", lambda cell: stack_name(cell, framework_name(cell.stack))),
        Column("Operation", lambda cell: cell.network.replace("_", " "), css="text"),
        Column("Shape", _shape, css="text"),
        Column("Device", lambda cell: cell.peak_place, css="text"),
        time,
        arithmetic,
        Column("Of the peak", lambda cell: optional_number(cell.share_of_peak, 3), "%"),
        *others,
        flags_column(itself),
    )
    return Table("Basic operations", columns, cells, csv="tables/summary.csv", sortable=True)


def _programs(cells: Sequence[CellSummary]) -> Table:
    measured = [column for column in PROGRAM_COLUMNS if has_values(cells, [column.metric])]
    columns = (
        Column("Program", lambda cell: stack_name(cell, cell.factors["program"])),
        Column("Framework", lambda cell: framework_name(cell.stack), css="text"),
        batch_column(itself),
        *metric_columns(measured),
        flags_column(itself),
    )
    return Table("Programs", columns, cells, csv="tables/summary.csv", sortable=True)


def _inference(cells: Sequence[CellSummary]) -> Table:
    columns = (
        Column("Framework", stack_name),
        facet_column(itself),
        batch_column(itself),
        Column("Weights", lambda cell: cell.factors["weights"], css="text"),
        *metric_columns(INFERENCE_COLUMNS),
        flags_column(itself),
    )
    return Table("Inference", columns, cells, csv="tables/summary.csv", sortable=True)


def _shape(cell: CellSummary) -> str:
    replicas = cell.factors.get("replicas")
    return cell.dataset + (f", {replicas} replicas" if replicas else "")
