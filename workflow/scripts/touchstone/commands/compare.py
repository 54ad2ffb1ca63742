"""Compare two results folders. Exit 0: no cell is slower; 1: one is; 2: one cannot be compared.

The exit status judges all cells together: it is 1 by chance in at most 5 % of unchanged reruns.
"""

import argparse
import sys
from pathlib import Path

from touchstone.analysis.compare_results import (
    as_table,
    as_text,
    compare,
    exit_code,
    judged_together,
    read_results,
)
from touchstone.errors import UsageError
from touchstone.results.files import InputError, write_atomic
from touchstone.statistics.intervals import SESSION_SD, SPEEDS, TIMES


def folder(text: str) -> Path:
    """A results folder given on the command line."""
    if not text or not Path(text).is_dir():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no folder; give a results folder"
            " (in the workflow: snakemake compare --config against=FOLDER)"
        )
    return Path(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=folder, help="the results folder to compare with")
    parser.add_argument("new", type=folder, help="the results folder in question")
    parser.add_argument("--metric", choices=SPEEDS + TIMES, default="throughput")
    parser.add_argument(
        "--session-sd",
        type=float,
        default=SESSION_SD,
        help="standard deviation of the logarithm between sittings (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, help="the table to write, CSV")


def run(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.session_sd < 1:
        raise UsageError("--session-sd must be a share from 0 to 1, such as 0.03")
    try:
        old = read_results(arguments.old, arguments.metric)
        new = read_results(arguments.new, arguments.metric)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    changes = compare(old, new, arguments.metric, arguments.session_sd)
    gate = judged_together(changes, arguments.metric, arguments.session_sd)
    print(as_text(gate, arguments.metric))
    if arguments.output:
        write_atomic(arguments.output, as_table(gate.changes, arguments.metric))
        print(f"The table: {arguments.output}")
    return exit_code(gate)
