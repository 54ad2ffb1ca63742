"""Join the planned records into tables. Exit 1, with one line, if a record is missing."""

import argparse
from pathlib import Path

from analyse.certificates import read_certificates
from analyse.files import exit_with
from analyse.tables import gather
from plan import frameworks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    parser.add_argument(
        "--certificates", type=Path, nargs="*", default=[], help="of the study's networks"
    )
    arguments = parser.parse_args()
    certificates = read_certificates(arguments.certificates)
    released = {name: frameworks.released(name) for name in frameworks.names()}
    gather(arguments.plan, arguments.records, arguments.output, certificates, released)


if __name__ == "__main__":
    exit_with(main)
