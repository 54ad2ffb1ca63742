"""The columns of numbers, and the rows that they make of cells."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from touchstone.analysis.findings_model import CellSummary
from touchstone.report.text import counts_text, missing_words, number, optional_number
from touchstone.schema.status import STATUSES


class Column(NamedTuple):
    """A column of a table: heading, unit, metric and digits of the number shown."""

    heading: str
    unit: str
    metric: str
    digits: int = 3


def summary_rows(cells: Iterable[CellSummary], columns: Sequence[Column]) -> list[dict[str, Any]]:
    """A row for each cell: for each column the median, the range and what is missing."""
    return [_row(cell, columns) for cell in cells]


def _row(cell: CellSummary, columns: Sequence[Column]) -> dict[str, Any]:
    throughput = cell.metrics.get("throughput")
    cv = throughput.cv if throughput else None
    entries = [_entry(cell, column) for column in columns]
    for entry in entries[1:]:
        # The first entry says why all are missing.
        if entry["median"] is None and entry["words"] == entries[0]["words"]:
            entry["words"] = ""
    return {
        "cell": cell,
        "entries": entries,
        "cv": None if cv is None else number(cv * 100, 2),
        "flags": counts_text(cell.flags),
        "status": counts_text(cell.outcomes, STATUSES),
        "share": optional_number(cell.share_of_peak, 3),
        "no_share": cell.share_of_peak_missing,
    }


def _entry(cell: CellSummary, column: Column) -> dict[str, Any]:
    metric = cell.metrics.get(column.metric)
    entry = {"median": None, "range": None, "words": ", ".join(missing_words(cell, column.metric))}
    if metric:
        entry["median"] = optional_number(metric.median, column.digits)
        if metric.n > 1 and metric.max is not None:
            low, high = (number(value, column.digits) for value in (metric.min, metric.max))
            entry["range"] = f"{low} – {high}" if low != high else low
    return entry


def has_values(cells: Iterable[CellSummary], metrics: Iterable[str]) -> bool:
    """Whether a cell has a value of one of the metrics."""
    names = set(metrics)
    return any(names & cell.metrics.keys() for cell in cells)
