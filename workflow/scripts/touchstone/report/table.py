"""Tables of the page: each column has its heading, its unit and the cell of a row.

`templates/table.html.j2` draws them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.report.rows import ROWS
from touchstone.report.text import (
    blocks_text,
    counts_text,
    dot,
    facet_text,
    interval_text,
    number,
    ratio_text,
)
from touchstone.results.study import FACET

DASH = "–"
"""The text of a cell without a value."""


class TableCell(NamedTuple):
    """The text of a cell, which is escaped unless it is HTML.

    `css` replaces the class of the column; the table is sorted by `key` where that is not the text.
    """

    text: str | int
    css: str | None = None
    key: str | None = None


class Column(NamedTuple):
    """A column of a table.

    `cell` gives the text of a row, None for a dash. `unit` is a line below the heading, which is
    blank if it is empty; None for no such line. `css` is the class of cells: `text` for words,
    `wrap` for many of them, `name` for long names in the first column.
    """

    heading: str
    cell: Callable[[Any], TableCell | str | int | None]
    unit: str | None = None
    css: str = ""
    unit_css: str = "unit"

    @property
    def has_words(self) -> bool:
        """Whether its cells are words, which begin on the left."""
        return not {"text", "wrap"}.isdisjoint(self.css.split())

    def drawn(self, row: Any) -> TableCell:
        """The cell of a row, with its class."""
        content = self.cell(row)
        if not isinstance(content, TableCell):
            content = TableCell(DASH if content is None else content)
        return content._replace(css=self.css if content.css is None else content.css)


@dataclass(frozen=True)
class Table:
    """A table: `label` names it to a screen reader, and `what` says what its rows are.

    `csv` is the file that a link below it leads to, and `whole` the one that has all rows, if that
    is another one. Of many rows the page shows `ROWS`; of a `sortable` table it has the others too.
    `row_css` is the class of a row, if it has one.
    """

    label: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    what: str = "cells"
    csv: str = ""
    whole: str = ""
    sortable: bool = False
    css: str = ""
    row_css: Callable[[Any], str] = lambda row: ""

    @property
    def shown(self) -> Sequence[Any]:
        """The rows that the page shows at first."""
        return self.rows[:ROWS]

    @property
    def rest(self) -> Sequence[Any]:
        """The other rows that the page has."""
        return self.rows[ROWS:] if self.sortable else ()


def below(text: str, css: str = "range") -> Markup:
    """A second line of a cell."""
    return Markup('<span class="{}">{}</span>').format(css, text)


def word(text: str) -> Markup:
    """A word in place of a number that there is not."""
    return Markup('<span class="word">{}</span>').format(text)


def ratio_cell(ratio: RatioEstimate | None) -> Markup | None:
    """A ratio with its interval below."""
    if ratio is None:
        return None
    return ratio_text(ratio.value) + below(interval_text(ratio) or "no interval")


def verdict_cell(ratio: RatioEstimate, verdict: str = "") -> Markup:
    """The verdict on a ratio, or another one, and how far to trust it."""
    return (verdict or ratio.verdict) + below(blocks_text(ratio))


def detectable(ratio: RatioEstimate | None) -> str | None:
    """The smallest change that the noise of a ratio would show, %."""
    if ratio is None or ratio.detectable is None:
        return None
    return number(ratio.detectable * 100, 2)


def stack_name(cell: CellSummary, name: str = "") -> Markup:
    """The name of a cell, or another one, with the dot of its framework."""
    return Markup("{} {}").format(dot(cell.framework), name or cell.label)


def _place_name(cell: CellSummary, name: str) -> Markup:
    chosen = below(f"chosen: {cell.best_chose}") if cell.best_chose else ""
    return stack_name(cell, name) + chosen


def place_columns(
    findings: Findings,
    cell: Callable[[Any], CellSummary] | None = None,
    heading: str = "Framework",
    name: Callable[[Any], str] = lambda row: "",
) -> list[Column]:
    """The columns that say which cell a row is of: its name, and what varies in the study of
    network, data set, device and batch size.

    Args:
        cell: of a row; without it, the one that the row names in its field `cell`.
        name: of a row, where that is not the label of its cell.
    """
    of = cell or (lambda row: findings.cell[row.cell])
    columns = [Column(heading, lambda row: _place_name(of(row), name(row)))]
    if facets_vary(findings):
        columns.append(facet_column(of))
    if batches_vary(findings):
        columns.append(batch_column(of))
    return columns


def facets_vary(findings: Findings) -> bool:
    """Whether network, data set or device of cells differ."""
    return not findings.setup.factors.same.keys() >= set(FACET)


def batches_vary(findings: Findings) -> bool:
    """Whether the batch size of cells differs."""
    return len({cell.batch_size for cell in findings.cells}) > 1


def facet_column(cell: Callable[[Any], CellSummary]) -> Column:
    """Network, data set and device."""
    return Column("Network · data · device", lambda row: facet_text(cell(row)), css="text")


def batch_column(cell: Callable[[Any], CellSummary]) -> Column:
    """The batch size."""
    return Column("Batch size", lambda row: cell(row).batch_size)


def flags_column(cell: Callable[[Any], CellSummary]) -> Column:
    """The flags of the runs."""
    return Column("Flags", lambda row: counts_text(cell(row).flags) or None, css="wrap")


def itself(row: Any) -> Any:
    """The cell of a row that is one."""
    return row
