"""Download the sources of a data set into a folder, checked; look at files that a user places."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from touchstone.datasets import catalogue, fetch
from touchstone.datasets.errors import DatasetError, exit_status
from touchstone.schema.variables import MIRROR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", help="name of a file in the folder of the catalogue")
    parser.add_argument("--config-folder", type=Path, default=catalogue.FOLDER)
    parser.add_argument("--output", type=Path, required=True, help="folder for the files")
    parser.add_argument(
        "--mirror", default="", help=f"base URL that is tried first (default: ${MIRROR})"
    )


def run(arguments: argparse.Namespace) -> int:

    def download() -> None:
        mirror = arguments.mirror or os.environ.get(MIRROR, "")
        if mirror and not catalogue.is_url(mirror):
            raise DatasetError(mirror, "not a base URL", "give a mirror as http://host/folder")
        dataset = catalogue.load(arguments.dataset, arguments.config_folder)
        for source in dataset.sources:
            first = fetch.mirror_urls(mirror, dataset.name, source.name)
            fetch.fetch(source, arguments.output, first)
        dataset.decoder.check()

    return exit_status(download, arguments.output)
