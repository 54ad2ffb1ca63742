"""The plan, and the two tables that are made from the planned records."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from analyse.files import FORMAT, InputError, parse_json, read_text, write_atomic
from analyse.metrics import METRICS, STATUSES

FACTORS = (
    "framework",
    "network",
    "dataset",
    "device",
    "precision",
    "mode",
    "input",
    "batch_size",
    "learning_rate",
)
MEASUREMENTS = (
    *FACTORS,
    *("cell", "repeat", "status", "metric", "unit", "value", "flags", "reason"),
)
SUMMARY = (
    *FACTORS,
    *("cell", "metric", "unit", "status", "n", "median", "mean", "min", "max", "sd", "flags"),
)


class PlannedCell(NamedTuple):
    """A row of `plan.tsv`; factors are kept as the text that stands there."""

    name: str
    factors: dict[str, str]
    repeats: int


def read_plan(path: Path) -> list[PlannedCell]:
    """The planned cells in order; every column but `cell` and `repeats` is a factor.

    Raises:
        InputError: the file is missing, lacks a column, has no cell or one cell twice.
    """
    remedy = "Plan the study again"
    rows = csv.reader(io.StringIO(read_text(path, remedy)), delimiter="\t")
    header = next(rows, [])
    if missing := {"cell", "repeats", *FACTORS} - set(header):
        raise InputError(path, f"columns are missing: {', '.join(sorted(missing))}", remedy)
    cells: dict[str, PlannedCell] = {}
    for row in rows:
        values = dict(zip(header, row, strict=False))
        if len(row) != len(header):
            cause = f"line {rows.line_num} has {len(row)} fields, not {len(header)}"
            raise InputError(path, cause, remedy)
        name, repeats = values.pop("cell"), values.pop("repeats")
        if name in cells:
            raise InputError(path, f"line {rows.line_num} plans {name} again", remedy)
        for key, number in (("repeats", repeats), ("batch_size", values["batch_size"])):
            if not number.isdecimal() or int(number) < 1:
                cause = f"line {rows.line_num}: '{key}' is {number!r}, not a positive integer"
                raise InputError(path, cause, remedy)
        cells[name] = PlannedCell(name, values, int(repeats))
    if not cells:
        raise InputError(path, "it plans no cell", remedy)
    return list(cells.values())


def read_records(
    plan: Iterable[PlannedCell], folder: Path
) -> Iterator[tuple[PlannedCell, list[dict[str, Any]]]]:
    """Each planned cell with its records in order of repeats; other files are left alone.

    Raises:
        InputError: a record is missing, damaged or not that of its place.
    """
    remedy = "Make it with parse_run, or run the workflow again"
    for cell in plan:
        records = []
        for repeat in range(1, cell.repeats + 1):
            path = folder / cell.name / f"rep{repeat}.json"
            try:
                record = parse_json(read_text(path, remedy))
            except ValueError as error:
                raise InputError(path, f"not valid JSON ({error})", remedy) from None
            if (
                not isinstance(record, dict)
                or record.get("format") != FORMAT
                or (record.get("cell"), record.get("repeat")) != (cell.name, repeat)
                or record.get("metrics", {}).keys() != METRICS.keys()
            ):
                cause = f"not a record of format {FORMAT} of {cell.name}, repeat {repeat}"
                raise InputError(path, cause, remedy)
            records.append(record)
        yield cell, records


def counted(words: Iterable[str], order: Iterable[str] = ()) -> str:
    """Words with their counts, `ok 2, timeout 1`, in the given order, then alphabetical."""
    counts = Counter(words)
    first = [word for word in order if word in counts]
    rest = sorted(counts.keys() - set(first))
    return ", ".join(f"{word} {counts[word]}" for word in first + rest)


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _statistics(values: list[float]) -> tuple[float | None, ...]:
    """Median, mean, min, max and standard deviation (n - 1) of a cell's values."""
    if not values:
        return (None,) * 5
    spread = stdev(values) if len(values) > 1 else None
    return median(values), fmean(values), min(values), max(values), spread


def gather(plan_path: Path, records_folder: Path, output: Path) -> None:
    """Write `measurements.csv` and `summary.csv` of the planned records.

    A row of measurements is one metric of one run; a row of the summary is one metric of one
    cell over all values that there are: `n` counts them, `status` counts the runs.
    """
    measurements, summary = io.StringIO(newline=""), io.StringIO(newline="")
    long, short = (csv.writer(f, lineterminator="\n") for f in (measurements, summary))
    long.writerow(MEASUREMENTS)
    short.writerow(SUMMARY)
    for cell, records in read_records(read_plan(plan_path), records_folder):
        factors = [cell.factors[name] for name in FACTORS]
        for record in records:
            head = [*factors, cell.name, record["repeat"], record["status"]]
            flags = ", ".join(record["flags"])
            for name, metric in record["metrics"].items():
                tail = (_number(metric["value"]), flags, metric.get("reason"))
                long.writerow([*head, name, metric["unit"], *tail])
        status = counted((record["status"] for record in records), STATUSES)
        flags = counted(flag for record in records for flag in record["flags"])
        for name, metric in METRICS.items():
            found = [record["metrics"][name]["value"] for record in records]
            values = [value for value in found if value is not None]
            numbers = map(_number, _statistics(values))
            row = [*factors, cell.name, name, metric.unit, status, len(values), *numbers, flags]
            short.writerow(row)
    write_atomic(output / "measurements.csv", measurements.getvalue())
    write_atomic(output / "summary.csv", summary.getvalue())
