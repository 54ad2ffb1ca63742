"""Files that may hold anything, read within limits: what is not as it should be is a ValueError.

`yaml_file.py` has the same for YAML.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

MOST_BYTES = 1 << 30
"""Of a file; as much as a runner may write."""
PART = 1 << 20
"""Bytes that are read at once."""
DEEPEST = 40
"""Levels of lists and objects of JSON."""
LONGEST_INTEGER = 20
"""Characters; a larger one has no place in any of our files, and may be no float."""
BYTE_ORDER_MARK = "\ufeff"


def text_of(path: Path, most: int = MOST_BYTES) -> str:
    """The UTF-8 text of a file of at most `most` bytes.

    Raises:
        OSError: the file is missing or cannot be read.
        ValueError: it is longer, or not UTF-8.
    """
    with path.open("rb") as file:
        # A buffer for `most` bytes takes longer than reading a record.
        size = os.fstat(file.fileno()).st_size
        content = file.read(min(size, most) + 1)
        if len(content) > size:  # it has no size, as a pipe has none, or grows
            content += file.read(most + 1 - len(content))
    if len(content) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return content.decode()


def read_at_most(read: Callable[[int], bytes], most: int) -> bytes:
    """What `read` gives, up to so many bytes, in memory for no more than there are."""
    parts = []
    while most > 0 and (part := read(min(most, PART))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def share_of(text: str) -> float:
    """`5%` or `0.05`: a share from 0 to less than 1.

    Raises:
        ValueError: it is none.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1 or rest:
        raise ValueError(
            f"{text!r} is no share from 0 to less than 1; write 5% or 0.05 for five hundredths"
        )
    return value


def parse_json(text: str | bytes) -> Any:
    """Strict JSON: `NaN`, `Infinity`, numbers out of range and repeated keys are refused too.

    Raises:
        ValueError: it is no such JSON, or beyond the limits.
    """
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_number,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError(f"it is more than {DEEPEST} levels deep") from None
    _check_depth(value)
    return value


def rows_of(text: str, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """The rows of a table (CSV), each with the number of its last line; the first has the columns.

    Raises:
        ValueError: it is empty, quotes are not closed, it has NUL, a byte order mark, or a column
            twice.
    """
    if not text.strip():
        raise ValueError("it is empty")
    if text.startswith(BYTE_ORDER_MARK):
        raise ValueError("it begins with a byte order mark; save it as UTF-8 without one")
    if "\0" in text:
        raise ValueError(f"line {text.count(chr(10), 0, text.index(chr(0))) + 1} contains NUL")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for number, row in enumerate(rows):
            if not number and (twice := sorted({name for name in row if row.count(name) > 1})):
                raise ValueError(f"the column {twice[0][:100]!r} is there twice")
            yield rows.line_num, row
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:100]!r} is there twice in one object")
    return mapping


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                inner += part.values()
            elif isinstance(part, list):
                inner += part
        if not inner:
            return
        level = inner
    raise ValueError(f"it is more than {DEEPEST} levels deep")
