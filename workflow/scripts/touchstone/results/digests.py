"""The digests of what each stage wrote, by which a file that was changed afterwards is noticed.

A stage lists its files in `SHA256SUMS`, as `sha256sum` does: a run and its record in the folder of
the run, tables and findings in `results/tables`, the plan in `results`; a job that writes one file,
`NAME.json`, in the folder `NAME` beside it (`own_folder`), so that jobs at the same time share no
list. No rule of the workflow knows these lists, so they make nothing run again. They show damage
and edits by hand, and no forgery: a user who changes a file can change its digest too.

What a stage reads it compares by content: a file may be changed and keep its time. A run that was
changed is no cell's turn, profile or weights; a set of turns is measured again; parity steps are
refused. What gathers, draws and reports goes on, and the page and the terminal name the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from touchstone.files import write_atomic
from touchstone.measure import attempts

NAME = "SHA256SUMS"
EDITED = "edited"
"""The flag of a run with a file that is not what its stage wrote."""
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
CHECKED_ELSE = ("data", "downloads", "logs")
"""Folders of the results without lists: a manifest and the catalogue have the digests of data."""
OF_CELLS = ("runs", "records", "profiles")
"""Folders of the results with a folder or a file for each cell."""
SHARED = ("interleaved", "max_batch", "parity")
"""Folders of the results with files of several studies, and beside each file its own folder."""
OF_STUDIES = ("report", "studies")
"""Folders of the results with a folder for each study."""
BY_FOLDER = ("runs", "studies")
"""Folders of the results with folders that the workflow makes again as a whole."""
MERGED = "merged"
"""The folder of the results in which bundles are compared, which no study reads."""


def write(folder: Path, paths: Iterable[Path]) -> None:
    """List these files in the `folder`; those that do not exist are left out.

    Raises:
        OSError: one cannot be read, or the list cannot be written.
    """
    _write(folder, {path: _digest(path) for path in paths if path.is_file()})


def add(folder: Path, *paths: Path) -> None:
    """List more files in a `folder` that has a list already; else do nothing."""
    if listed(folder):
        note(folder, *paths)


def note(folder: Path, *paths: Path) -> None:
    """List these files in the `folder` beside those that its list has already."""
    _write(folder, listed(folder) | {path: _digest(path) for path in paths})


def own_folder(output: Path) -> Path:
    """The folder with the list of a job that writes this one file."""
    return output.with_suffix("")


def forget(folder: Path) -> None:
    """Delete the list in a folder whose files are about to be written again."""
    (folder / NAME).unlink(missing_ok=True)


def listed(folder: Path) -> dict[Path, str]:
    """The digest of every listed file; of a list that is missing or damaged, what can be read."""
    matches = (LINE.fullmatch(line) for line in _lines(folder))
    return {_joined(folder, match[2]): match[1] for match in matches if match}


def changed(folder: Path) -> list[Path]:
    """The listed files that are not what was written; one that is gone is not among them, for the
    workflow writes it again."""
    return [
        path
        for path, digest in sorted(listed(folder).items())
        if path.is_file() and _digest(path) != digest
    ]


def is_changed(folder: Path, path: Path, text: str) -> bool | None:
    """Whether a file with this text is another one than the `folder` lists; None: not listed."""
    ending = f"  {os.path.relpath(path, folder)}"
    line = next((line for line in _lines(folder) if line.endswith(ending)), "")
    match = LINE.fullmatch(line)
    return None if match is None else match[1] != hashlib.sha256(text.encode()).hexdigest()


def is_edited(path: Path) -> bool:
    """Whether a file that a job wrote (`own_folder`) is another one than was written."""
    return path in changed(own_folder(path))


def why_edited(run: Path) -> str:
    """Why a run is of no use for another job: files that are not what it wrote; else empty."""
    names = ", ".join(path.name for path in changed(run))
    return f"{run}: not what the run wrote: {names}; delete it and run again" if names else ""


def changed_in(results: Path) -> Iterator[Path]:
    """The changed files of a results folder, by all of its lists; with them each list with a line
    that is none, and each account of faults that holds anything else."""
    for place, folders, names in os.walk(results):
        folder = Path(place)
        if folder == results:
            folders[:] = [name for name in folders if name not in CHECKED_ELSE]
        folders.sort()
        if NAME in names:
            yield from changed(folder)
            if not all(map(LINE.fullmatch, _lines(folder))):
                yield folder / NAME
        if attempts.NAME in names and attempts.is_damaged(folder):
            yield folder / attempts.NAME


class Sources(NamedTuple):
    """What a study's numbers are from: its name, its cells, and the files in folders that it shares
    with other studies."""

    study: str
    cells: Collection[str]
    shared: Collection[Path]

    def has(self, name: Path) -> bool:
        """Whether a file of the results, by its path below their folder, is of the study."""
        kind, *rest = name.parts
        first = rest[0].removesuffix(".json") if rest else ""
        if kind in OF_CELLS:
            return first in self.cells
        if kind in SHARED:
            return f"{kind}/{first}" in {"/".join(own_folder(p).parts[-2:]) for p in self.shared}
        if kind in OF_STUDIES:
            return first in (self.study, "index.html")
        return kind != MERGED

    def changed(self, results: Path) -> list[str]:
        """The changed files of the study, by their names below `results`."""
        names = dict.fromkeys(path.relative_to(results) for path in changed_in(results))
        return [name.as_posix() for name in names if self.has(name)]


def warn_of(paths: Iterable[Path]) -> None:
    """Name on the terminal those of the files that jobs wrote (`own_folder`) which were changed."""
    for path in paths:
        if is_edited(path):
            print(f"warning: {path}: not what Touchstone wrote", file=sys.stderr)


def _lines(folder: Path) -> list[str]:
    try:
        content = (folder / NAME).read_bytes()
    except OSError:
        return []
    return content.decode(errors="replace").splitlines()


def _write(folder: Path, digests: dict[Path, str]) -> None:
    lines = [
        f"{digest}  {os.path.relpath(path, folder)}\n" for path, digest in sorted(digests.items())
    ]
    write_atomic(folder / NAME, "".join(lines))


def _joined(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
