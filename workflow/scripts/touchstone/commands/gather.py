"""Join the planned records into tables. Exit 1, with one line, if a record is missing."""

import argparse
from pathlib import Path

from touchstone.analysis import findings, scaling
from touchstone.plan import frameworks
from touchstone.results.certificates import read_certificates
from touchstone.results.files import write_atomic
from touchstone.results.max_batch import read_max_batches
from touchstone.results.study import read_study
from touchstone.results.tables import gather


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    parser.add_argument(
        "--certificates", type=Path, nargs="*", default=[], help="of the study's networks"
    )
    parser.add_argument(
        "--max-batches", type=Path, help="folder of the searches for the largest batch"
    )
    parser.add_argument(
        "--scaling", action="store_true", help="write scaling.csv too: speed-up by replicas"
    )


def run(arguments: argparse.Namespace) -> None:
    certificates = read_certificates(arguments.certificates)
    max_batches = read_max_batches(arguments.max_batches)
    released = {name: frameworks.released(name) for name in frameworks.adapters()}
    gather(arguments.plan, arguments.records, arguments.output, certificates, max_batches, released)
    study = read_study(arguments.plan, arguments.output, arguments.records)
    if arguments.scaling:
        table = scaling.table(scaling.scaled(study.trained))
        write_atomic(arguments.output / "scaling.csv", table)
    findings.write(study, arguments.output)
