"""Join the planned records into tables. Exit 1, with one line, if a record is missing."""

import argparse
from pathlib import Path

from analyse.files import exit_with
from analyse.tables import gather


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    arguments = parser.parse_args()
    gather(arguments.plan, arguments.records, arguments.output)


if __name__ == "__main__":
    exit_with(main)
