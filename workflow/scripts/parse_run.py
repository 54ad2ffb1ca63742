"""Judge one finished run and write its record. Exit 1, with one line and no file, if it cannot."""

import argparse
import json
from pathlib import Path

from jsonschema import Draft202012Validator

from analyse.files import InputError, exit_with, write_json
from analyse.record import build_record

SCHEMA = Path(__file__).resolve().parents[1] / "schemas" / "record.schema.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--output", type=Path, required=True, help="the record to write")
    arguments = parser.parse_args()
    record = build_record(arguments.run)
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for error in validator.iter_errors(record):
        remedy = "Correct the file of the run that this comes from, or report a bug"
        raise InputError(
            arguments.run, f"its record breaks {error.json_path}: {error.message}", remedy
        )
    write_json(arguments.output, record)


if __name__ == "__main__":
    exit_with(main)
