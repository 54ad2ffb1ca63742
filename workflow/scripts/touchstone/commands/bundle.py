"""Pack a machine's results (plan, records, environments, certificates; no data) into one file."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from touchstone.analysis.doubts import DISTURBING
from touchstone.results.bundle import PLAN, pack
from touchstone.results.planned import read_plan, read_records
from touchstone.schema.status import OK

GROUP = "Machines"


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
    if doubt := doubt_of(arguments.results):
        print(f"warning: {doubt}", file=sys.stderr)


def doubt_of(results: Path) -> str:
    """What is wrong with the runs in a bundle of these results, as a sentence; empty if nothing."""
    cells = read_records(read_plan(results / PLAN), results / "records")
    records = [record for _, cell in cells for record in cell]
    ended = Counter(record["status"] for record in records if record["status"] != OK)
    disturbed = sum(not DISTURBING.isdisjoint(record["flags"]) for record in records)
    doubts = [f"{count} ended as {status}" for status, count in sorted(ended.items())]
    doubts += [f"{disturbed} {'was' if disturbed == 1 else 'were'} disturbed"] * bool(disturbed)
    return f"of the bundle's {len(records)} runs {', '.join(doubts)}" if doubts else ""
