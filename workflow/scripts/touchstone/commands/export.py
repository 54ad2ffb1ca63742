"""Write the results of a study for other tools.

    touchstone export pyperf results --output today.json
    touchstone export parquet results --output FOLDER

pyperf compares two such files: `pyperf compare_to yesterday.json today.json`. The folder gets
measurements.parquet and summary.parquet. docs/exports.md describes what is in them.
"""

import argparse
from pathlib import Path

from touchstone.errors import TouchstoneError
from touchstone.results.exports import TABLES, pyperf_suite, typed_table
from touchstone.results.files import write_atomic
from touchstone.results.study import read_study

GROUP = "Results"

NO_WRITER = (
    "Parquet needs the package fastparquet, which is not in the base environment; install it with"
    " `.venv/bin/python -m pip install fastparquet`"
)


class ExportError(TouchstoneError):
    """A file cannot be written in this format."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=("pyperf", "parquet"))
    parser.add_argument("results", type=Path, help="the results folder")
    parser.add_argument(
        "--output", type=Path, required=True, help="a file for pyperf, a folder for Parquet"
    )


def run(arguments: argparse.Namespace) -> None:
    results, output = arguments.results, arguments.output
    tables = results / "tables"
    if arguments.format == "pyperf":
        study = read_study(results / "plan.tsv", tables, results / "records")
        write_atomic(output, pyperf_suite(study))
        return
    try:
        from fastparquet import write
    except ImportError:
        raise ExportError(NO_WRITER) from None
    output.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        table = typed_table(tables / f"{name}.csv")
        write(str(output / f"{name}.parquet"), table, compression="GZIP")
