"""Write the catalogue's file of a user's folder of images, FOLDER/CLASS/IMAGE.

    describe_folder.py FOLDER --test-share 0.2 --output config/datasets/my-images.yaml

All images are read, so that counts, mean, standard deviation and fingerprints are right; the
title, licence and citation are for you to correct.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from touchstone.datasets.describe import folder_entry
from touchstone.datasets.errors import DatasetError, exit_status
from touchstone.errors import UsageError
from touchstone.files import write_atomic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="may have $VARIABLES, which are kept in the file")
    test = parser.add_mutually_exclusive_group(required=True)
    test.add_argument("--test-folder", help="a folder of the same form")
    test.add_argument("--test-share", type=float, help="of each class, between 0 and 1")
    parser.add_argument(
        "--shape", type=int, nargs=3, metavar=("HEIGHT", "WIDTH", "CHANNELS"),
        help="of a network's input (default: that of the images; photos: 224 224 3)",
    )  # fmt: skip
    parser.add_argument("--photos", action="store_true", help="keep JPEG files, not pixels")
    parser.add_argument("--short-side", type=int, help="photos: scale each once to this, pixels")
    parser.add_argument("--quality", type=int, help="photos: of JPEG files that are written")
    parser.add_argument("--seed", type=int, default=2026, help="of the order (default: 2026)")
    parser.add_argument("--output", type=Path, required=True, help="config/datasets/NAME.yaml")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.photos and (arguments.short_side or arguments.quality):
        raise UsageError("--short-side and --quality need --photos")
    if arguments.test_share is not None and not 0 < arguments.test_share < 1:
        raise UsageError("--test-share lies between 0 and 1")
    if arguments.shape and (min(arguments.shape) < 1 or arguments.shape[2] not in (1, 3)):
        raise UsageError("--shape takes a height, a width, and 1 or 3 channels")
    return exit_status(lambda: describe(arguments), arguments.output)


def describe(arguments: argparse.Namespace) -> None:
    """Write the file; raises DatasetError and OSError."""
    if arguments.output.exists():
        raise DatasetError(arguments.output, "it is there already", "remove it first")
    options = {"folder": arguments.folder, "seed": arguments.seed}
    if arguments.test_folder is not None:
        options["test_folder"] = arguments.test_folder
    else:
        options["test_share"] = arguments.test_share
    kept = {"short_side": arguments.short_side, "quality": arguments.quality}
    photos = {key: value for key, value in kept.items() if value is not None}
    entry = folder_entry(options, arguments.shape, photos if arguments.photos else None)
    text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
    write_atomic(arguments.output, text)
