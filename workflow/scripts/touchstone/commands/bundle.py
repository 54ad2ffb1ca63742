"""Pack a machine's results (plan, records, environments, certificates; no data) into one file."""

import argparse
from pathlib import Path

from touchstone.results.bundle import pack


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="the results folder")
    parser.add_argument("--output", type=Path, required=True, help="the bundle to write")
    parser.add_argument("--machine", help="a name for the machine; else it is made from its parts")
    parser.add_argument(
        "--hostname",
        action="store_true",
        help="leave names of hosts, of the user and of folders in",
    )


def run(arguments: argparse.Namespace) -> None:
    name = pack(arguments.results, arguments.output, arguments.machine, arguments.hostname)
    print(f"The bundle of {name}: {arguments.output}")
