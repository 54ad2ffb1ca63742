"""Judge one finished run and write its record.

A run whose events are damaged, or contradict themselves, is an `error`, which the next execution
tries again. Exit 1, with one line and no file, if another file is missing or damaged.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from touchstone.measure.attempts import note
from touchstone.paths import RECORD_SCHEMA
from touchstone.results import digests
from touchstone.results.files import RERUN, InputError, write_json
from touchstone.results.record import build_record
from touchstone.results.run_files import EventsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--output", type=Path, required=True, help="the record to write")


def run(arguments: argparse.Namespace) -> None:
    changed = digests.changed(arguments.run)
    try:
        record = judged(arguments.run)
    except EventsError as fault:
        record = judged(arguments.run, str(fault))
        note(arguments.run, str(fault))
        print(f"warning: {fault}", file=sys.stderr)
    if names := ", ".join(path.name for path in changed if path != arguments.output):
        record["flags"].append(digests.EDITED)
        print(f"warning: {arguments.run}: not what the run wrote: {names}", file=sys.stderr)
    write_json(arguments.output, record)
    digests.add(arguments.run, arguments.output)


def judged(folder: Path, why: str | None = None) -> dict[str, Any]:
    """The record of a run, by its schema; see `build_record`."""
    try:
        record = build_record(folder, why)
        json.dumps(record, allow_nan=False)
    except (ArithmeticError, ValueError) as fault:
        raise InputError(folder, f"its numbers are no run's ({fault})", RERUN) from None
    validator = Draft202012Validator(json.loads(RECORD_SCHEMA.read_text(encoding="utf-8")))
    for error in validator.iter_errors(record):
        remedy = "Correct the file of the run that this comes from, or report a bug"
        cause = f"its record breaks {error.json_path}: {error.message}"
        raise InputError(folder, cause, remedy)
    return record
