"""Write the report of a gathered study: one page of HTML that needs no network."""

import argparse
from pathlib import Path

import yaml

from touchstone.report.page import make_report
from touchstone.results.certificates import read_certificates
from touchstone.results.files import InputError, read_text, write_atomic
from touchstone.results.max_batch import read_max_batches
from touchstone.results.study import read_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    parser.add_argument(
        "--certificates", type=Path, nargs="*", default=[], help="of the study's networks"
    )
    parser.add_argument(
        "--max-batches", type=Path, help="folder of the searches for the largest batch"
    )
    parser.add_argument("--machines", type=Path, help="HTML of the comparison of machines")


def run(arguments: argparse.Namespace) -> None:
    remedy = "Plan the study again"
    try:
        config = yaml.safe_load(read_text(arguments.config, remedy))
    except yaml.YAMLError as error:
        cause = f"not valid YAML ({' '.join(str(error).split())})"
        raise InputError(arguments.config, cause, remedy) from None
    if not isinstance(config, dict):
        raise InputError(arguments.config, "not a mapping of settings", remedy)
    study = read_study(arguments.plan, arguments.tables, arguments.records)
    certificates = read_certificates(arguments.certificates)
    max_batches = read_max_batches(arguments.max_batches)
    section = read_text(arguments.machines, "Run the workflow again") if arguments.machines else ""
    folder = arguments.output.parent
    pages = sorted(page.name for page in folder.glob("*.html") if page != arguments.output)
    page = make_report(
        study, certificates, arguments.figures, arguments.config, config, max_batches, section,
        pages,
    )  # fmt: skip
    write_atomic(arguments.output, page)
