"""Compare the parity steps of one network in every framework, and write its certificate."""

import argparse
from pathlib import Path

from touchstone.results import digests
from touchstone.results.files import REMAKE, InputError, write_json
from touchstone.results.parity import compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network")
    parser.add_argument("steps", type=Path, nargs="+", help="FRAMEWORK.npz, the reference first")
    parser.add_argument(
        "--single", type=Path, help="the reference's, for frameworks of single precision only"
    )
    parser.add_argument("--output", type=Path, required=True, help="the certificate to write")


def run(arguments: argparse.Namespace) -> None:
    paths = {path.stem: path for path in arguments.steps}
    for path in filter(None, [*arguments.steps, arguments.single]):
        if digests.is_edited(path):
            raise InputError(path, "not what its parity steps wrote", REMAKE)
    write_json(arguments.output, compare(arguments.network, paths, arguments.single))
    digests.write(digests.own_folder(arguments.output), [arguments.output])
