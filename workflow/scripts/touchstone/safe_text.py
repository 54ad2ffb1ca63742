"""Text that may come from others: harmless in a table, on a terminal and in a page."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Control characters, escape sequences' first among them, those that turn a line around, and halves
of characters, which no file can hold."""
FORMULA = ("=", "+", "-", "@")
"""With these a spreadsheet begins a formula."""


def one_line(text: str) -> str:
    """The text without control characters; a blank is in the place of each group of them."""
    return CONTROL.sub(" ", text).strip() if CONTROL.search(text) else text


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON in which every text is changed; the keys of objects stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [mapped(part, change) for part in value]
    return value


def has_control(value: Any) -> bool:
    """Whether a text or a key in a value of JSON has a control character."""
    if isinstance(value, str):
        return CONTROL.search(value) is not None
    if isinstance(value, dict):
        return any(has_control(key) or has_control(part) for key, part in value.items())
    return isinstance(value, list) and any(map(has_control, value))


def cell(value: Any) -> Any:
    """A cell of a table for people: a spreadsheet takes no text for a formula.

    Text that begins like a formula gets an apostrophe before it, as spreadsheets mark text; that of
    a number stays.
    """
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def csv_of(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV for people; None is an empty cell."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(map(cell, row) for row in rows)
    return text.getvalue()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
