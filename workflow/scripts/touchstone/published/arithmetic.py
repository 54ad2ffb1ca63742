"""What arithmetic finds in a published table: nothing here knows any table or its notes.

Each check takes a table and yields findings. A finding is a `contradiction` where the figures
cannot all be true, `doubtful` where they can but want an explanation, and `no data` where a
figure is missing, or printed in place of one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise
from math import isclose, log10
from typing import NamedTuple

from touchstone.published.table import (
    NUMBERS,
    UNITS,
    Row,
    Table,
    convert,
    half_of_last_digit,
    number,
    show,
)

CONTRADICTION, DOUBTFUL, NO_DATA = "contradiction", "doubtful", "no data"
SLACK = 0.05
"""A rise or fall that noise may make, as a share."""
APART = 3.0
"""Two ways to one figure that differ by more than this ratio contradict each other."""
COPIED_DIGITS = 3
"""Neighbours that agree in at least so many digits are likely one figure copied."""

Level = str | float
Key = tuple[tuple[str, Level], ...]


class Finding(NamedTuple):
    """What a check found: how grave, which check, on which lines, and why in words."""

    grade: str
    check: str
    lines: tuple[int, ...]
    text: str


def examine(table: Table) -> list[Finding]:
    """All findings in a table, the gravest first, then in order of lines."""
    grades = (CONTRADICTION, DOUBTFUL, NO_DATA)
    findings = [finding for check in CHECKS for finding in check(table)]
    return sorted(findings, key=lambda f: (grades.index(f.grade), f.lines, f.check))


def missing_values(table: Table) -> Iterator[Finding]:
    """Figures that are blank, and sweeps that leave out a level which the others have."""
    for row in table.rows:
        if row.value is None:
            yield Finding(NO_DATA, "blank", (row.line,), f"{row.label}: no figure")
    for name in NUMBERS:
        sweeps: dict[tuple[str, Key], dict[Level, Row]] = defaultdict(dict)
        for row in table.rows:
            if name in row.factors:
                sweeps[row.metric, _others(row, name, keep_table=True)][row.factors[name]] = row
        levels = {level for rows in sweeps.values() if len(rows) > 2 for level in rows}
        for rows in sweeps.values():
            low, high = min(rows), max(rows)
            for level in sorted(levels - rows.keys()):
                if len(rows) > 2 and low < level < high:  # type: ignore[operator]
                    first = next(iter(rows.values()))
                    text = f"{first.metric}, {name}: {show(level)} is left out, others have it"
                    if "table" in first.factors:
                        text = f"table {first.factors['table']}, {text}"
                    yield Finding(NO_DATA, "left out", tuple(r.line for r in rows.values()), text)


def missing_units(table: Table) -> Iterator[Finding]:
    """Figures without a unit: whatever they are compared with is a guess."""
    for row in table.rows:
        if row.value is not None and not row.unit:
            text = f"{row.label}: {row.text} of no unit"
            yield Finding(DOUBTFUL, "no unit", (row.line,), text)


def zeros(table: Table) -> Iterator[Finding]:
    """Zeros where no run can have measured one, and negative figures."""
    for row in table.rows:
        kind = UNITS[row.unit][0] if row.unit else ""
        if row.value is None or kind in ("", "share", "epochs"):
            continue
        if row.value < 0:
            text = f"{row.label}: {row.text} {row.unit} is below 0"
            yield Finding(CONTRADICTION, "negative", (row.line,), text)
        elif row.value == 0:
            text = f"{row.label}: 0 {row.unit} stands for no data, or for a device not in use"
            yield Finding(NO_DATA, "zero", (row.line,), text)


def shares(table: Table) -> Iterator[Finding]:
    """Shares below 0, or above all there is."""
    for row in table.rows:
        share = None if row.value is None else convert(row.value, row.unit, "1")
        if share is not None and not 0 <= share <= 1:
            all_of_it = f"{1 / UNITS[row.unit][1]:g}"
            text = f"{row.label}: {row.text} {row.unit} is no share from 0 to {all_of_it}"
            yield Finding(CONTRADICTION, "no share", (row.line,), text)


def repeated_cells(table: Table) -> Iterator[Finding]:
    """One cell's figure printed in several places must be one figure."""
    places: dict[tuple[str, Key, object], list[Row]] = defaultdict(list)
    for row in table.rows:
        if row.value is not None:
            places[row.metric, row.where, row.against].append(row)
    for rows in places.values():
        for row, other in combinations(rows, 2):
            lines = (row.line, other.line)
            first, second = _value(row), convert(_value(other), other.unit, row.unit or "1")
            same_table = row.factors.get("table") == other.factors.get("table")
            if second is None or not _rounds_to(row, other):
                text = f"{row.label}: {row.text} here, {other.text} in line {other.line}"
                if second and first and _power_of_ten(first / second):
                    text += ": a decimal point has slipped in one of them"
                yield Finding(CONTRADICTION, "two values", lines, text)
            elif same_table:
                text = f"{row.label}: printed twice in one table"
                yield Finding(DOUBTFUL, "duplicate", lines, text)


def copied_values(table: Table) -> Iterator[Finding]:
    """The same digits for two neighbours of a sweep: one may have been copied."""
    for name, rows in _sweeps(table):
        for row, other in pairwise(rows):
            digits = len(re.sub(r"[eE].*|\D", "", row.text).lstrip("0"))
            if row.value and row.value == other.value and digits >= COPIED_DIGITS:
                text = (
                    f"{row.label}: {row.text} to the last digit for {name}"
                    f" {show(other.factors[name])} too"
                )
                yield Finding(DOUBTFUL, "copied", (row.line, other.line), text)


def step_speeds(table: Table) -> Iterator[Finding]:
    """A step of more examples takes longer, so steps/s cannot rise with the batch size."""
    for name, rows in _sweeps(table):
        if name != "batch_size" or rows[0].unit != "steps/s":
            continue
        low = min(rows, key=_value)
        later = [row for row in rows if row.factors[name] > low.factors[name]]  # type: ignore[operator]
        high = max(later, key=_value, default=low)
        if _value(high) > _value(low) * (1 + SLACK):
            at_low, at_high = low.factors[name], high.factors[name]
            text = (
                f"{low.label}: {low.text} steps/s, but {high.text} for batch size {show(at_high)}:"
                f" a step of {_level(high) / _level(low):g} times the examples cannot be"
                f" {number(_value(high) / _value(low))} times as fast, so the unit is another one"
                f" (images/s, say; as steps/s batch {show(at_low)} would train"
                f" {number(_value(low) * _level(low))} images/s and batch {show(at_high)}"
                f" {number(_value(high) * _level(high))})"
            )
            yield Finding(CONTRADICTION, "unit", tuple(row.line for row in rows), text)


def epoch_times(table: Table) -> Iterator[Finding]:
    """Time / epochs to one goal is the time of an epoch, which speeds tell as well."""
    if not table.examples_per_epoch:
        return
    by_key = {(row.metric, row.where): row for row in table.rows if row.value}
    speeds: dict[Key, list[Row]] = defaultdict(list)
    for row in table.rows:
        if row.value and row.unit in ("images/s", "steps/s") and not row.metric.endswith("_ratio"):
            speeds[_setting(row)].append(row)
    by_setting: dict[Key, list[tuple[float, Row, Row]]] = defaultdict(list)
    for (metric, where), row in by_key.items():
        epochs = by_key.get((metric.replace("time_to_", "epochs_to_"), where))
        seconds = convert(_value(row), row.unit, "s")
        if metric.startswith("time_to_") and epochs and seconds:
            rate = table.examples_per_epoch * _value(epochs) / seconds
            by_setting[_setting(row)].append((rate, row, epochs))
    for setting, rates in by_setting.items():
        for unit in ("images/s", "steps/s"):
            rows = [row for row in speeds[setting] if row.unit == unit]
            if unit == "steps/s":
                rows = [row for row in rows if "batch_size" in row.factors]
            if not rows:
                continue
            yield from _against_epochs(rates, rows, "as printed", unit)
            if unit == "steps/s":
                yield from _against_epochs(rates, rows, "read as images/s", "images/s")


def _against_epochs(
    rates: list[tuple[float, Row, Row]], rows: list[Row], reading: str, unit: str
) -> Iterator[Finding]:
    """Speeds of epochs against printed ones, over all batch sizes, since the former tell none."""
    low, high = min(rate for rate, *_ in rates), max(rate for rate, *_ in rates)
    speeds = [_value(row) * (_level(row) if unit == "steps/s" else 1) for row in rows]
    if max(speeds) < low / APART or min(speeds) > high * APART:
        lines = sorted({row.line for _, *pair in rates for row in pair} | {r.line for r in rows})
        text = (
            f"{rates[0][1].label}: times / epochs give {number(low)} to {number(high)} images/s,"
            f" but {rows[0].metric} {reading} {number(min(speeds))} to {number(max(speeds))},"
            " whatever the batch"
        )
        yield Finding(CONTRADICTION, "epoch time", tuple(lines), text)


def step_totals(table: Table) -> Iterator[Finding]:
    """Steps x the time of a step is the run time, in some units of time where none are printed."""
    units = [unit for unit, (kind, _) in UNITS.items() if kind == "time"]
    times = {row.where: row for row in table.rows if row.metric == "step_time" and row.value}
    counts = [row for row in table.rows if row.metric == "steps" and row.value]
    for total in table.rows:
        step = times.get(total.where)
        count = next((row for row in counts if {*row.where} <= {*total.where}), None)
        if total.metric != "runtime" or not total.value or not step or not count:
            continue
        product = _value(count) * _value(step)
        slack = _rounding(step) / _value(step) + _rounding(total) / total.value
        factors = (
            UNITS[of_step][1] / UNITS[of_total][1]
            for of_step in ([step.unit] if step.unit else units)
            for of_total in ([total.unit] if total.unit else units)
        )
        if not any(isclose(product * factor, total.value, rel_tol=slack) for factor in factors):
            text = (
                f"{total.label}: {total.text} {total.unit} printed, but {count.text} steps of"
                f" {step.text} {step.unit} are {number(product)}"
            )
            lines = (total.line, step.line, count.line)
            yield Finding(CONTRADICTION, "step total", lines, " ".join(text.split()))


def more_devices(table: Table) -> Iterator[Finding]:
    """More devices of one kind: less speed, or less memory and power in all, wants a reason."""
    groups: dict[tuple[str, Key, str], list[tuple[float, Row]]] = defaultdict(list)
    for row in table.rows:
        if count := _devices(row):
            rest = tuple(pair for pair in row.where if pair[0] not in ("hardware", "devices"))
            groups[row.metric, rest, count[1]].append((count[0], row))
    for rows in groups.values():
        rows.sort(key=lambda pair: pair[0])
        for (few, row), (many, other) in pairwise(rows):
            if not row.value or not other.value or few == many or row.unit != other.unit:
                continue
            kind = UNITS[row.unit][0] if row.unit else ""
            if kind in ("speed", "memory", "power") and other.value < row.value * (1 - SLACK):
                text = (
                    f"{row.label}: {row.text} {row.unit} with {few:g}, {other.text} with {many:g}:"
                    f" less {kind} from more devices"
                )
                yield Finding(DOUBTFUL, "more devices", (row.line, other.line), text)


def memory_by_batch(table: Table) -> Iterator[Finding]:
    """A larger batch has larger activations, so its memory on the device cannot be much less."""
    for name, rows in _sweeps(table):
        if name == "batch_size" and rows[0].metric.startswith("gpu_memory"):
            for row, other in pairwise(rows):
                if _value(other) < _value(row) * (1 - SLACK):
                    text = (
                        f"{row.label}: {row.text} {row.unit}, but {other.text} for batch size"
                        f" {show(other.factors[name])}"
                    )
                    yield Finding(DOUBTFUL, "memory falls", (row.line, other.line), text)


def idle_devices(table: Table) -> Iterator[Finding]:
    """A GPU's figure in a row that used the CPU says nothing of the run."""
    for row in table.rows:
        where = str(row.factors.get("device") or row.factors.get("hardware") or "")
        if row.metric.startswith("gpu_") and where.startswith("cpu") and row.value:
            text = f"{row.label}: {row.text} {row.unit} of a GPU that the run did not use"
            yield Finding(DOUBTFUL, "idle device", (row.line,), text)


def ratios(table: Table) -> Iterator[Finding]:
    """A ratio or speed-up must be that of its own columns, as far as they are rounded."""
    figures = {(row.metric, row.where): row for row in table.rows if row.value is not None}
    for row in table.rows:
        if row.unit != "x" or row.value is None or row.against is None:
            continue
        base = row.metric.removesuffix("_ratio")
        name, level = row.against
        there = tuple((n, level if n == name else own) for n, own in row.where)
        above, below = figures.get((base, row.where)), figures.get((base, there))
        if above is None or below is None or not above.value or not below.value:
            text = f"{row.label}: {row.text} x, but the figures it divides are not in the table"
            yield Finding(NO_DATA, "unchecked ratio", (row.line,), text)
            continue
        slower = convert(1, above.unit, "s") is not None  # of times, a speed-up is the inverse
        pair = (below, above) if slower else (above, below)
        low = (_value(pair[0]) - _rounding(pair[0])) / (_value(pair[1]) + _rounding(pair[1]))
        high = (_value(pair[0]) + _rounding(pair[0])) / (_value(pair[1]) - _rounding(pair[1]))
        # Cut off instead of rounded is no contradiction: the whole last digit is allowed.
        slack = 2 * _rounding(row)
        if not low - slack <= row.value <= high + slack:
            text = (
                f"{row.label}: {row.text} x printed, {_value(pair[0]) / _value(pair[1]):.4g}"
                f" computed from {pair[0].text} and {pair[1].text} {above.unit}"
            )
            lines = (row.line, above.line, below.line)
            yield Finding(CONTRADICTION, "ratio", lines, text)


def _sweeps(table: Table) -> Iterator[tuple[str, list[Row]]]:
    """Rows that differ in only one number, in its order: the number's name, two rows or more."""
    for name in NUMBERS:
        groups: dict[tuple[str, str, Key], list[Row]] = defaultdict(list)
        for row in table.rows:
            if name in row.factors and row.value is not None:
                key = (row.metric, row.unit, _others(row, name, keep_table=True))
                groups[key].append(row)
        for rows in groups.values():
            rows.sort(key=_by(name))
            if len({row.factors[name] for row in rows}) > 1:
                yield name, rows


def _by(name: str) -> Callable[[Row], float]:
    return lambda row: float(row.factors[name])


def _others(row: Row, name: str, keep_table: bool = False) -> Key:
    factors = row.factors.items() if keep_table else row.where
    return tuple(pair for pair in factors if pair[0] != name)


def _setting(row: Row) -> Key:
    """What a speed must share with a time: all factors but the table and the numbers."""
    return tuple(pair for pair in row.where if pair[0] not in NUMBERS)


def _value(row: Row) -> float:
    assert row.value is not None
    return row.value


def _level(row: Row) -> float:
    return float(row.factors["batch_size"])


def _devices(row: Row) -> tuple[float, str] | None:
    """How many devices of which kind: the factor `devices`, or a hardware such as `2xP100`."""
    if match := re.fullmatch(r"(\d+) ?x ?(.+)", str(row.factors.get("hardware", ""))):
        return float(match[1]), match[2]
    count = row.factors.get("devices")
    return (float(count), "") if count else None


def _rounding(row: Row) -> float:
    """How far the figure may be from what was rounded to it."""
    return half_of_last_digit(row.text)


def _rounds_to(row: Row, other: Row) -> bool:
    """Whether two printed values may be roundings of one."""
    second = convert(_value(other), other.unit, row.unit) if row.unit else _value(other)
    slack = max(_rounding(row), _rounding(other))
    return second is not None and abs(_value(row) - second) <= slack * (1 + 1e-9)


def _power_of_ten(ratio: float) -> bool:
    place = log10(abs(ratio))
    return round(place) != 0 and isclose(place, round(place), abs_tol=2e-3)


CHECKS: tuple[Callable[[Table], Iterable[Finding]], ...] = (
    missing_values, missing_units, zeros, shares, repeated_cells, copied_values, step_speeds,
    epoch_times, step_totals, more_devices, memory_by_batch, idle_devices, ratios,
)  # fmt: skip
