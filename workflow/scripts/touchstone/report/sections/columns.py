"""The columns of metrics: the median of a cell's runs, with the range and what is missing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from touchstone.analysis.findings_model import CellSummary
from touchstone.report.table import Column, below, word
from touchstone.report.text import missing_words, number, optional_number


class MetricColumn(NamedTuple):
    """A column of a metric: heading, unit, metric and digits of the number shown."""

    heading: str
    unit: str
    metric: str
    digits: int = 3


def metric_columns(metrics: Sequence[MetricColumn]) -> list[Column]:
    """A column for each metric, of rows that are cells: the median, and below it the range of the
    runs and the words for those that have no value.

    Where all are missing for the reason that the first column gives, the others do not repeat it.
    """
    return [_column(metric, metrics[0]) for metric in metrics]


def _column(metric: MetricColumn, first: MetricColumn) -> Column:
    def text(cell: CellSummary) -> str | None:
        median, spread = _median_and_range(cell, metric)
        words = ", ".join(missing_words(cell, metric.metric))
        if median is None:
            of_first = ", ".join(missing_words(cell, first.metric))
            repeats = metric is not first and words == of_first
            return word(words) if words and not repeats else None
        lines = [below(spread)] * bool(spread) + [below(words, "range word")] * bool(words)
        return median + Markup("").join(lines)

    return Column(metric.heading, text, metric.unit)


def _median_and_range(cell: CellSummary, metric: MetricColumn) -> tuple[str | None, str]:
    summary = cell.metrics.get(metric.metric)
    if summary is None:
        return None, ""
    median = optional_number(summary.median, metric.digits)
    if summary.n < 2 or summary.max is None:
        return median, ""
    low, high = (number(value, metric.digits) for value in (summary.min, summary.max))
    return median, f"{low} – {high}" if low != high else low


def has_values(cells: Iterable[CellSummary], metrics: Iterable[str]) -> bool:
    """Whether a cell has a value of one of the metrics."""
    names = set(metrics)
    return any(names & cell.metrics.keys() for cell in cells)
