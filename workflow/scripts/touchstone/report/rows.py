"""How many rows a table of the page has."""

from collections.abc import Sequence
from typing import Any, NamedTuple

ROWS = 400
"""Rows that a table of the page shows at most, so that a study of any size can be read."""


class TableRows(NamedTuple):
    """The first rows of a table, and how many it would have.

    `rest` are the others, if the table can be sorted: the page has them, but shows `ROWS`.
    """

    rows: list[Any]
    total: int
    rest: Sequence[Any] = ()


def first_rows(rows: Sequence[Any]) -> TableRows:
    """As many rows as a table of the page has."""
    return TableRows(list(rows[:ROWS]), len(rows))


def sortable_rows(rows: Sequence[Any]) -> TableRows:
    """All rows of a table that can be sorted."""
    return TableRows(list(rows[:ROWS]), len(rows), rows[ROWS:])
