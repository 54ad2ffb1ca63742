"""Convert the downloaded sources of a data set into a record format, with a manifest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from datasets import catalogue, formats
from datasets.convert import convert
from datasets.errors import exit_status


def main() -> int:
    """Read the command line and convert; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="name of a file in the folder of the catalogue")
    parser.add_argument("--config-folder", type=Path, default=catalogue.FOLDER)
    parser.add_argument("--source", type=Path, required=True, help="folder of the sources")
    parser.add_argument("--format", required=True, choices=formats.names())
    parser.add_argument("--output", type=Path, required=True, help="folder for the records")
    parser.add_argument("--processes", type=int, default=1, help="that write shards (default: 1)")
    arguments = parser.parse_args()

    def run() -> None:
        dataset = catalogue.load(arguments.dataset, arguments.config_folder)
        convert(dataset, arguments.source, arguments.format, arguments.output, arguments.processes)

    return exit_status(run, arguments.output)


if __name__ == "__main__":
    sys.exit(main())
