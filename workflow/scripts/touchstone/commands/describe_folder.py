"""Write the catalogue's file of a user's folder of images, FOLDER/CLASS/IMAGE.

    cli.py describe-folder FOLDER --test-share 0.2 --output config/datasets/my-images.yaml

All images are read, so that counts, mean, standard deviation and fingerprints are right; the
title, licence and citation are for you to correct. A report on the images is printed, and written
beside the file: what they are, what becomes of them, and which are there twice.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import yaml

from touchstone.datasets import catalogue, data_report, photos
from touchstone.datasets.catalogue import FILE_NAME, Fingerprints
from touchstone.datasets.decoders.image_folder import ImageFolder
from touchstone.datasets.describe import folder_entry, inspect
from touchstone.datasets.errors import DatasetError, exit_status
from touchstone.datasets.facts import Photos
from touchstone.errors import UsageError
from touchstone.files import write_atomic

GROUP = "Data"


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
    parser.add_argument(
        "--bits", type=int, help="how many bits the values of 16-bit images use: 9 to 16"
    )
    parser.add_argument("--seed", type=int, default=2026, help="of the order (default: 2026)")
    parser.add_argument("--output", type=Path, required=True, help="config/datasets/NAME.yaml")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.photos and (arguments.short_side or arguments.quality):
        raise UsageError("--short-side and --quality need --photos")
    if arguments.test_share is not None and not 0 < arguments.test_share < 1:
        raise UsageError("--test-share lies between 0 and 1")
    if arguments.shape and (min(arguments.shape) < 1 or arguments.shape[2] not in (1, 3)):
        raise UsageError("--shape takes a height, a width, and 1 or 3 channels")
    if arguments.bits is not None and not 9 <= arguments.bits <= photos.MOST_BITS:
        raise UsageError(f"--bits lies between 9 and {photos.MOST_BITS}")
    if not re.fullmatch(FILE_NAME, arguments.output.stem) or arguments.output.suffix != ".yaml":
        raise UsageError(
            f"--output {arguments.output}: a data set's file is NAME.yaml, and its name has only "
            "letters, digits, _, ., + and -"
        )
    return exit_status(lambda: describe(arguments), arguments.output)


def describe(arguments: argparse.Namespace) -> None:
    """Write the file and the report; raises DatasetError and OSError."""
    report_file = data_report.path_of(arguments.output)
    if arguments.output.exists():
        raise DatasetError(arguments.output, "it is there already", "remove it first")
    names = ("folder", "test_folder", "test_share", "seed", "bits")
    options = {name: getattr(arguments, name) for name in names}
    decoder = ImageFolder.model_validate({"name": "image-folder", **options})
    kept = {"short_side": arguments.short_side, "quality": arguments.quality}
    given = {key: value for key, value in kept.items() if value is not None}
    inspection = inspect(decoder, Photos.model_validate(given) if arguments.photos else None)
    if inspection.seen:
        print("\n".join([f"{arguments.folder}:", *inspection.report.lines]), flush=True)
    entry = folder_entry(inspection, arguments.shape, given if arguments.photos else None)
    report = inspection.report.model_copy(
        update={"fingerprints": Fingerprints.model_validate(entry["fingerprints"])}
    )
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(report_file, data_report.text(report))
    try:
        text = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
        write_atomic(arguments.output, text)
    except OSError:
        report_file.unlink()
        raise
    found_by_name = catalogue.path_of(arguments.output.stem)
    if not (found_by_name.exists() and found_by_name.samefile(arguments.output)):
        where = f"{catalogue.OWN}/, in the folder in which it is run"
        print(f"note: a study finds it in {where}", file=sys.stderr)
