"""Read published tables and say what arithmetic finds in them.

Exit 0: nothing contradicts itself; 1: something does; 2: a table cannot be read.
"""

import argparse
import csv
import io
import sys
from collections import Counter
from pathlib import Path

from touchstone.published.arithmetic import CONTRADICTION, examine
from touchstone.published.table import PublishedError, read_table
from touchstone.results.files import write_atomic

COLUMNS = ("file", "grade", "check", "lines", "finding")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", help="CSV files as docs/studies.md says")
    parser.add_argument("--output", type=Path, help="the findings as CSV")


def run(arguments: argparse.Namespace) -> int:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    faults, contradictions = [], 0
    for path in arguments.tables:
        try:
            table = read_table(path)
        except PublishedError as error:
            faults.append(str(error))
            continue
        findings = examine(table)
        counts = Counter(f"{one.grade}: {one.check}" for one in findings)
        print(f"{path}: {len(table.rows)} figures of {table.title}; {len(findings)} findings")
        for kind, count in counts.items():
            print(f"  {kind} ({count})")
            first = next(one for one in findings if f"{one.grade}: {one.check}" == kind)
            print(f"    line {first.lines[0]}: {first.text}")
        for grade, check, lines, why in findings:
            writer.writerow([path.name, grade, check, " ".join(map(str, lines)), why])
        contradictions += sum(one.grade == CONTRADICTION for one in findings)
    if faults:
        print("error: " + "\n".join(faults), file=sys.stderr)
        return 2
    if arguments.output:
        write_atomic(arguments.output, text.getvalue())
    return int(contradictions > 0)
