"""Remove the lock of an execution in this folder that was killed on this machine, if there is one.

`make run` does so; Snakemake itself leaves that to `snakemake --unlock`.
"""

import argparse
import sys

from touchstone.measure import folder_lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(arguments: argparse.Namespace) -> None:
    if line := folder_lock.release():
        print(line, file=sys.stderr)
