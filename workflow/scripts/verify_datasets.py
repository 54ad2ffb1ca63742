"""Check every converted data set again: files, counts, histograms, fingerprints.

One line for each data set and format; one message for everything that is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from datasets import manifest
from datasets.errors import DatasetError, DatasetErrors, exit_status


def main() -> int:
    """Read the command line and check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder with DATASET/FORMAT/manifest.json")
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    sys.exit(main())
