"""Read a published table: the CSV format of `config/published/`, as docs/adding.md explains it.

Comment lines at the head (`# key: value`) say where the figures come from, and may give a
factor that is the same in every row. Then a line of column names, and a row for each figure.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from math import isfinite
from pathlib import Path

from touchstone.errors import TouchstoneError
from touchstone.reading import BYTE_ORDER_MARK, text_of
from touchstone.safe_text import CONTROL

MOST_BYTES = 16 << 20
"""Of a table."""
TEXTS = (
    "table", "framework", "network", "dataset", "task", "device", "hardware", "machine", "system",
    "cpu", "gpu", "precision", "style", "mode", "input", "optimizer",
)  # fmt: skip
NUMBERS = ("batch_size", "learning_rate", "devices", "replicas", "nodes", "threads", "epochs")
FACTORS = (*TEXTS, *NUMBERS)
"""The columns that say of what a figure is; `NUMBERS` hold numbers."""
REQUIRED = ("metric", "unit", "value")
OPTIONAL = ("against", "note")
COLUMNS = (*FACTORS, *REQUIRED, *OPTIONAL)
ABOUT = ("title", "source", "url")
EXAMPLES = "examples_per_epoch"
"""A key of the head: how many examples the source trains on in an epoch."""

UNITS = {
    "images/s": ("speed", 1.0),
    "steps/s": ("step speed", 1.0),
    "s": ("time", 1.0),
    "ms": ("time", 1e-3),
    "min": ("time", 60.0),
    "h": ("time", 3600.0),
    "1": ("share", 1.0),
    "%": ("share", 0.01),
    "MiB": ("memory", 1.0),
    "GiB": ("memory", 1024.0),
    "MB": ("memory", 1e6 / 2**20),
    "GB": ("memory", 1e9 / 2**20),
    "W": ("power", 1.0),
    "J": ("energy", 1.0),
    "kWh": ("energy", 3.6e6),
    "GFLOPS": ("arithmetic", 1.0),
    "TFLOPS": ("arithmetic", 1e3),
    "epochs": ("epochs", 1.0),
    "steps": ("steps", 1.0),
    "x": ("ratio", 1.0),
}
"""By unit: its dimension, and how many of the dimension's first unit it is."""


class PublishedError(TouchstoneError, ValueError):
    """A published table is refused; the message lists every fault: file, line, cause, remedy."""


@dataclass(frozen=True)
class Row:
    """A published figure.

    `value` is None where the source has none; `text` is the value as printed, whose last digit
    says how it was rounded. `against` is the (factor, level) that a ratio divides by.
    """

    line: int
    metric: str
    unit: str
    value: float | None
    text: str
    factors: Mapping[str, str | float]
    against: tuple[str, str | float] | None
    note: str

    @property
    def where(self) -> tuple[tuple[str, str | float], ...]:
        """The factors but the table: two figures of one metric with the same are of one cell."""
        return tuple((name, level) for name, level in self.factors.items() if name != "table")

    @property
    def label(self) -> str:
        """The figure's place in words: `training_speed, mxnet, gpu, batch_size 128`."""
        levels = (
            f"{name} {show(level)}" if isinstance(level, float) or name == "table" else str(level)
            for name, level in self.factors.items()
        )
        return ", ".join([self.metric, *levels])


@dataclass(frozen=True)
class Table:
    """A published table: what its head says, and its figures in order."""

    path: Path
    title: str
    source: str
    url: str | None
    examples_per_epoch: float | None
    rows: list[Row]


def show(level: str | float) -> str:
    """A factor's level or a number as text, without a needless `.0`."""
    return f"{level:.10g}" if isinstance(level, float) else level


def number(value: float) -> str:
    """Three digits, and all of those before the decimal point, thousands set apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def half_of_last_digit(text: str) -> float:
    """Half of the last printed digit of a number."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def convert(value: float, unit: str, wanted: str) -> float | None:
    """`value` in another unit of its dimension; None where they have not the same one."""
    if unit not in UNITS or wanted not in UNITS or UNITS[unit][0] != UNITS[wanted][0]:
        return None
    return value * UNITS[unit][1] / UNITS[wanted][1]


def read_table(path: Path) -> Table:
    """Read a published table strictly.

    Raises:
        PublishedError: with every fault of the file, one a line.
    """
    lines = _lines(path)
    faults: list[tuple[int, str]] = []
    head: dict[str, str] = {}
    comments = list(takewhile(lambda line: line.startswith("#"), lines))
    for number, comment in enumerate(comments, start=1):
        match = re.fullmatch(r"# *(\w+): *(.+)", comment)
        key = match[1] if match else f"line {number}"
        if not match or key in head:
            faults.append((number, "not one more `# key: value`; write it so, each key once"))
        elif key not in (*ABOUT, EXAMPLES, *FACTORS):
            faults.append((number, f"unknown key {key[:60]!r}{_like(key, (*ABOUT, *FACTORS))}"))
        head[key] = match[2].strip() if match else ""
    faults += [
        (1, f"no `# {key}: ...`; say where the figures are from")
        for key in ("title", "source")
        if not head.get(key)
    ]
    (_, columns), *body = _rows(path, lines, len(comments)) or [(0, [])]
    start = len(comments) + 1
    before = len(faults)
    for column in columns:
        if column not in COLUMNS:
            faults.append((start, f"unknown column {column[:60]!r}{_like(column, COLUMNS)}"))
        elif columns.count(column) > 1 or column in head:
            faults.append((start, f"column {column[:60]!r} is there twice; keep one"))
    faults += [(start, f"no column {name!r}; add it") for name in REQUIRED if name not in columns]
    shared = {key: text for key, text in head.items() if key in FACTORS}
    rows = []
    if len(faults) == before:
        for line, fields in body:
            if not fields:
                faults.append((line, "a blank line; delete it"))
            elif len(fields) != len(columns):
                cause = f"{len(fields)} fields for {len(columns)} columns; quote a comma"
                faults.append((line, cause))
            else:
                values = dict(zip(columns, (field.strip() for field in fields), strict=True))
                rows.append(_row(line, {**shared, **values}, faults))
        if not rows:
            faults.append((start, "no row; add the figures"))
    examples = _number(head.get(EXAMPLES, ""), EXAMPLES, 1, faults)
    if faults:
        listed = "\n".join(f"  {path}:{line}: {text}" for line, text in sorted(set(faults)))
        count = f"{len(set(faults))} fault{'s' if len(set(faults)) > 1 else ''}"
        raise PublishedError(f"the table has {count}:\n{listed}")
    return Table(path, head["title"], head["source"], head.get("url"), examples, rows)


def _lines(path: Path) -> list[str]:
    """The lines of a table; raises PublishedError if it is no plain text."""
    try:
        text = text_of(path, MOST_BYTES)
    except OSError as error:
        raise PublishedError(f"{path}: {error.strerror}; check its name") from None
    except UnicodeDecodeError as error:
        message = f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"
        raise PublishedError(message) from None
    except ValueError as error:
        raise PublishedError(f"{path}: {error}; divide it") from None
    if text.startswith(BYTE_ORDER_MARK):
        cause = "it begins with a byte order mark; save it as UTF-8 without one"
        raise PublishedError(f"{path}: {cause}")
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if CONTROL.search(line.replace("\t", " ")):
            cause = "a control character; write plain text"
            raise PublishedError(f"{path}:{number}: {cause}")
    return lines if lines[-1] else lines[:-1]


def _rows(path: Path, lines: list[str], skipped: int) -> list[tuple[int, list[str]]]:
    """The rows of CSV after so many lines, each with its number; raises PublishedError."""
    reader = csv.reader((f"{line}\n" for line in lines[skipped:]), strict=True)
    try:
        return [(skipped + reader.line_num, row) for row in reader]
    except csv.Error as error:
        line = skipped + reader.line_num
        cause = f"{error}; close every quote, and write a quote within quotes twice"
        raise PublishedError(f"{path}:{line}: {cause}") from None


def _row(line: int, values: dict[str, str], faults: list[tuple[int, str]]) -> Row:
    unit = values["unit"]
    if not values["metric"]:
        faults.append((line, "no metric; name what the figure measures"))
    if unit and unit not in UNITS:
        faults.append(
            (line, f"unknown unit {unit[:60]!r}{_like(unit, UNITS)}; empty if not printed")
        )
    factors: dict[str, str | float] = {}
    for name in FACTORS:
        level = _level(name, values.get(name, ""), line, faults)
        if level is not None:
            factors[name] = level
    against = None
    if values.get("against"):
        name, _, text = values["against"].partition("=")
        level = _level(name, text, line, faults) if name in FACTORS else None
        if level is None:
            cause = f"against {values['against']!r} is no `factor=level`; write e.g. device=cpu"
            faults.append((line, cause))
        else:
            against = (name, level)
    value = _number(values["value"], "value", line, faults)
    return Row(
        line, values["metric"], unit, value, values["value"], factors, against,
        values.get("note", ""),
    )  # fmt: skip


def _level(name: str, text: str, line: int, faults: list[tuple[int, str]]) -> str | float | None:
    return _number(text, name, line, faults) if name in NUMBERS else text or None


def _number(text: str, name: str, line: int, faults: list[tuple[int, str]]) -> float | None:
    """The number; None for an empty text. `float` by itself would take `nan`, `1_000` and `１`."""
    if not text:
        return None
    plain = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII)
    if not plain or not isfinite(float(text)):
        cause = f"{name} {text[:60]!r} is no number; write digits with a decimal point, or nothing"
        faults.append((line, cause))
        return None
    return float(text)


def _like(word: str, names: Mapping[str, object] | tuple[str, ...]) -> str:
    near = get_close_matches(word, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
