"""Check every converted data set again: files, counts, histograms, fingerprints.

One line for each data set and format; one message for everything that is wrong.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from touchstone.datasets import manifest
from touchstone.datasets.errors import DatasetError, DatasetErrors, exit_status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder with DATASET/FORMAT/manifest.json")


def run(arguments: argparse.Namespace) -> int:
    return exit_status(lambda: check(arguments.folder), arguments.folder)


def check(folder: Path) -> None:
    """Check all that lies under `folder`; raises DatasetErrors with every fault."""
    faults: list[DatasetError] = []
    fingerprints: dict[tuple[str, str], tuple[str, Path]] = {}
    paths = sorted(folder.glob("*/*/manifest.json"))
    for path in paths:
        found = manifest.faults(path)
        verdict = f"{len(found)} faults" if found else "ok"
        print(f"{path.parent.parent.name} {path.parent.name}: {verdict}", flush=True)
        faults += found
        if found:
            continue
        for split, entry in json.loads(path.read_text(encoding="utf-8"))["splits"].items():
            told = (entry["fingerprint"], path)
            first = fingerprints.setdefault((path.parent.parent.name, split), told)
            if first[0] != told[0]:
                cause = f"its {split} examples are not those of {first[1]}"
                faults.append(DatasetError(path, cause, f"remove {path.parent} and convert again"))
    if not paths:
        print(f"{folder}: no converted data set")
    if faults:
        raise DatasetErrors(faults)
