"""Read published tables and say what arithmetic finds in them.

Exit 0: nothing contradicts itself; 1: something does; 2: a table cannot be read.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from touchstone.published.arithmetic import CONTRADICTION, examine
from touchstone.published.table import PublishedError, read_table
from touchstone.results.files import write_atomic
from touchstone.safe_text import csv_of

GROUP = "Data"

COLUMNS = ("file", "grade", "check", "lines", "finding")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", help="CSV files as docs/adding.md says")
    parser.add_argument("--output", type=Path, help="the findings as CSV")


def run(arguments: argparse.Namespace) -> int:
    lines: list[Sequence[object]] = [COLUMNS]
    faults, contradictions = [], 0
    for path in arguments.tables:
        try:
            table = read_table(path)
        except PublishedError as error:
            faults.append(str(error))
            continue
        findings = examine(table)
        kinds = [f"{finding.grade}: {finding.check}" for finding in findings]
        print(f"{path}: {len(table.rows)} figures of {table.title}; {len(findings)} findings")
        for kind, count in Counter(kinds).items():
            print(f"  {kind} ({count})")
            first = findings[kinds.index(kind)]
            print(f"    line {first.lines[0]}: {first.text}")
        for grade, check, rows, why in findings:
            lines.append([path.name, grade, check, " ".join(map(str, rows)), why])
        contradictions += sum(finding.grade == CONTRADICTION for finding in findings)
    if faults:
        print("error: " + "\n".join(faults), file=sys.stderr)
        return 2
    if arguments.output:
        write_atomic(arguments.output, csv_of(lines))
    return int(contradictions > 0)
