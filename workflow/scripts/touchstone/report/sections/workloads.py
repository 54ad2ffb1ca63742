"""The tables of basic operations and of inference."""

from typing import Any

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.report.rows import sortable_rows
from touchstone.report.sections.columns import Column, has_values, summary_rows

OPERATION_COLUMNS = (
    Column("Time", "ms", "step_time"),
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


def view(findings: Findings) -> dict[str, Any]:
    """The two tables and their columns."""
    operations = findings.cells_of("operation")
    exchange = EXCHANGE_COLUMNS if has_values(operations, ["bus_bandwidth"]) else ()
    columns = [*OPERATION_COLUMNS, *exchange]
    rows = summary_rows(operations, columns)
    for row in rows:
        row["shape"] = _shape(row["cell"])
    return {
        "operations": sortable_rows(rows),
        "operation_columns": columns,
        "inference": sortable_rows(summary_rows(findings.cells_of("inference"), INFERENCE_COLUMNS)),
        "inference_columns": INFERENCE_COLUMNS,
    }


def _shape(cell: CellSummary) -> str:
    replicas = cell.factors.get("replicas")
    return cell.dataset + (f", {replicas} replicas" if replicas else "")
