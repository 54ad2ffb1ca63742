"""How many rows a table of the page has."""

from collections.abc import Sequence
from typing import Any, NamedTuple

ROWS = 400
"""Rows that a table of the page shows at most, so that a study of any size can be read."""


class TableRows(NamedTuple):
    """The first rows of a table or a list, and how many it would have."""

    rows: list[Any]
    total: int


def first_rows(rows: Sequence[Any]) -> TableRows:
    """As many rows as a table of the page has."""
    return TableRows(list(rows[:ROWS]), len(rows))
