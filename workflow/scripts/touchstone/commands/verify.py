"""Check downloads and converted data sets again: files, counts, histograms, fingerprints.

One line for each data set and format; one message for everything that is wrong. With `--repair`,
what is damaged is deleted, so that the next execution makes it again; the exit status is then 0.

Then every file of the results is named that is not what its stage wrote (`results/digests.py`).
None of these is deleted: they may be edits that somebody wants to keep.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from touchstone import started
from touchstone.datasets import catalogue, manifest, verify
from touchstone.datasets.errors import DatasetErrors, exit_status
from touchstone.datasets.manifest_file import NAME, Damage, read_or_damage
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.results import digests

GROUP = "Results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("results/data"),
        help="folder with DATASET/FORMAT/manifest.json; ../downloads has the downloads",
    )  # fmt: skip
    parser.add_argument("--config-folder", type=Path, default=catalogue.FOLDER)
    parser.add_argument("--repair", action="store_true", help="delete what is damaged")


def run(arguments: argparse.Namespace) -> int:
    folder, catalogued = arguments.folder, arguments.config_folder

    def work() -> None:
        if not arguments.repair:
            if damages := check(folder, catalogued):
                raise DatasetErrors([damage.error for damage in damages])
            return
        with machine_to_itself("verify"):  # no measured run reads the files meanwhile
            repair(check(folder, catalogued), folder)

    return max(exit_status(work, folder), check_results(folder.parent))


def check_results(results: Path) -> int:
    """Name every file of the results that is not what its stage wrote; 1 if there is one."""
    changed = list(digests.changed_in(results))
    for path in changed:
        kind = path.relative_to(results).parts[0]
        made = f"the folder {path.parent}" if kind in digests.BY_FOLDER else "it"
        print(
            f"error: {path}: not what Touchstone wrote; put the file back, or delete {made} and run"
            " the workflow again",
            file=sys.stderr,
        )
    return int(bool(changed))


def check(folder: Path, catalogued: Path) -> list[Damage]:
    """Print a verdict on each download and each data set in `folder`; returns every damage."""
    damages = []
    places = 0
    for name, faults in [*_downloads(folder.parent / "downloads", catalogued), *_converted(folder)]:
        print(f"{name}: {f'{len(faults)} faults' if faults else 'ok'}", flush=True)
        damages += faults
        places += 1
    if not places:
        print(f"{folder}: no converted data set")
    return damages


def repair(damages: list[Damage], folder: Path) -> None:
    """Delete the damaged files and what says that they are whole; print what and why."""
    promises = {path: _promise(path, folder) for path, _ in damages}
    for path, cause in damages:
        for file in (path, promises[path]):
            if file.is_file():
                file.unlink()
                print(f"deleted {file}: {cause if file == path else f'it names {path}'}")
    if damages:
        wanted = sorted({str(promise) for promise in promises.values()})
        again = started.again(*wanted)
        print(
            f"To make it again and keep all finished runs, type: {again}\n"
            "A study that is started without this repeats the runs that read these data sets."
        )


def _promise(path: Path, folder: Path) -> Path:
    """The file without which the workflow makes a damaged file again: the mark of a download, or
    the manifest of a data set."""
    downloads = folder.parent / "downloads"
    if path.is_relative_to(downloads):
        return downloads / f"{path.relative_to(downloads).parts[0]}.done"
    return folder.joinpath(*path.relative_to(folder).parts[:2]) / NAME


def _downloads(folder: Path, catalogued: Path) -> Iterator[tuple[str, list[Damage]]]:
    """Each data set that was downloaded, and what is wrong with its files."""
    for done in sorted(folder.glob("*.done")):
        if not (catalogued / f"{done.stem}.yaml").is_file():
            continue  # a user's own that is no more in the catalogue: nothing says what is right
        sources = catalogue.load(done.stem, catalogued).sources
        paths = [(folder / done.stem / source.name, source) for source in sources]
        causes = ((path, verify.damage(path, source)) for path, source in paths)
        yield f"{done.stem} downloads", [Damage(path, cause) for path, cause in causes if cause]


def _converted(folder: Path) -> Iterator[tuple[str, list[Damage]]]:
    """Each converted data set, and what is wrong with it; their formats must have one content."""
    fingerprints: dict[tuple[str, str], tuple[str, Path]] = {}
    for path in sorted(folder.glob("[!.]*/[!.]*/manifest.json")):
        dataset = path.parent.parent.name
        read = read_or_damage(path)
        if isinstance(read, Damage):
            yield f"{dataset} {path.parent.name}", [read]
            continue
        damages = manifest.faults(path, read)
        for split, entry in read.splits.items() if not damages else ():
            first, other = fingerprints.setdefault((dataset, split), (entry.fingerprint, path))
            if first != entry.fingerprint:
                for file, against in ((path, other), (other, path)):
                    damages.append(Damage(file, f"its {split} examples are not those of {against}"))
        yield f"{dataset} {path.parent.name}", damages
