"""Judge one finished run and write its record. Exit 1, with one line and no file, if it cannot."""

import argparse
import json
from pathlib import Path

from jsonschema import Draft202012Validator

from touchstone.paths import RECORD_SCHEMA
from touchstone.results.files import InputError, write_json
from touchstone.results.record import build_record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--output", type=Path, required=True, help="the record to write")


def run(arguments: argparse.Namespace) -> None:
    record = build_record(arguments.run)
    validator = Draft202012Validator(json.loads(RECORD_SCHEMA.read_text(encoding="utf-8")))
    for error in validator.iter_errors(record):
        remedy = "Correct the file of the run that this comes from, or report a bug"
        raise InputError(
            arguments.run, f"its record breaks {error.json_path}: {error.message}", remedy
        )
    write_json(arguments.output, record)
