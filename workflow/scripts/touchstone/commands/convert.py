"""Convert the downloaded sources of a data set into a record format, with a manifest."""

from __future__ import annotations

import argparse
from pathlib import Path

from touchstone.datasets import catalogue, formats
from touchstone.datasets.convert import convert
from touchstone.datasets.errors import exit_status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", help="name of a file in the folder of the catalogue")
    parser.add_argument("--config-folder", type=Path, default=catalogue.FOLDER)
    parser.add_argument("--source", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--format", required=True, choices=formats.names())
    parser.add_argument("--output", type=Path, required=True, help="folder for the records")
    parser.add_argument("--processes", type=int, default=1, help="that write shards (default: 1)")


def run(arguments: argparse.Namespace) -> int:

    def run() -> None:
        dataset = catalogue.load(arguments.dataset, arguments.config_folder)
        convert(dataset, arguments.source, arguments.format, arguments.output, arguments.processes)

    return exit_status(run, arguments.output)
