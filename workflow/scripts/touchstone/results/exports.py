"""A study's results in formats that other tools read: pyperf's JSON, and tables with types."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchstone.plan.setting import OPERATION
from touchstone.results.files import REMAKE, InputError
from touchstone.results.metrics import SPEED_OF
from touchstone.results.study import Cell, Result, Study

if TYPE_CHECKING:
    import pandas as pd

PYPERF_FORMAT = "1.0"
TABLES = ("measurements", "summary")
INTEGERS = {"batch_size", "repeat", "n", "censored"}
NUMBERS = {"learning_rate", "value", "censored_at", "median", "mean", "min", "max", "sd", "cv"}
"""The columns of numbers; all others are text."""


def pyperf_suite(study: Study) -> str:
    """The study as a suite of benchmarks of pyperf: one a configuration, one run a repeat.

    A value is the time of one example (or of one call of an operation) in seconds, over a run's
    measured phase. Configurations without a number are left out.
    """
    benchmarks = [_benchmark(cell) for cell in study.cells if _values(cell)]
    return json.dumps({"version": PYPERF_FORMAT, "benchmarks": benchmarks}, indent=1)


def _values(cell: Cell) -> list[tuple[Result, float]]:
    metric = SPEED_OF[cell.kind]
    rates = [(run, run.values[metric]) for run in cell.runs]
    return [(run, 1 / rate) for run, rate in rates if rate]


def _benchmark(cell: Cell) -> dict[str, Any]:
    runs = [{"metadata": _metadata(run), "values": [value]} for run, value in _values(cell)]
    description = "seconds per call" if cell.kind == OPERATION else "seconds per example"
    about = {"name": cell.plan.name, "unit": "second", "description": description}
    return {"metadata": about, "runs": runs}


def _metadata(run: Result) -> dict[str, Any]:
    """What pyperf shows of a run, in its own names where it has some."""
    machine, software = run.provenance["machine"], run.provenance["software"]
    metadata = {
        "date": datetime.fromisoformat(run.provenance["started"]).strftime("%Y-%m-%d %H:%M:%S.%f"),
        "cpu_model_name": machine.get("cpu_model"),
        "cpu_count": machine.get("logical_cores"),
        "framework_version": software.get("version"),
        "flags": " ".join(run.flags),
    }
    return {name: value for name, value in metadata.items() if value}


def typed_table(path: Path) -> "pd.DataFrame":
    """One of our tables (CSV) with integers, numbers and texts as its columns are.

    Raises:
        InputError: the file is no such table.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype="string", encoding="utf-8")
        for name in table.columns:
            if name in INTEGERS:
                table[name] = pd.to_numeric(table[name]).astype("Int64")
            elif name in NUMBERS:
                table[name] = pd.to_numeric(table[name]).astype("float64")
    except ValueError as fault:
        raise InputError(path, str(fault), REMAKE) from None
    return table
