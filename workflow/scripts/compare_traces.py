"""Compare the traces of one network in every framework, and write its certificate."""

import argparse
from pathlib import Path

from analyse.files import exit_with, write_json
from analyse.parity import compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("traces", type=Path, nargs="+", help="FRAMEWORK.npz, the reference first")
    parser.add_argument(
        "--single", type=Path, help="the reference's, for frameworks of single precision alone"
    )
    parser.add_argument("--output", type=Path, required=True, help="the certificate to write")
    arguments = parser.parse_args()
    paths = {path.stem: path for path in arguments.traces}
    write_json(arguments.output, compare(arguments.network, paths, arguments.single))


if __name__ == "__main__":
    exit_with(main)
