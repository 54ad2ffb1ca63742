"""The digests of what each stage wrote, by which a file that was changed afterwards is noticed.

A stage lists its files in `SHA256SUMS`, as `sha256sum` does: a run and its record in the folder of
the run, tables and findings in `results/tables`, a certificate in `results/parity/NETWORK`, the
plan in `results`. No rule of the workflow knows these lists, so they make nothing run again. They
show damage and edits by hand, and no forgery: a user who changes a file can change its digest too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from touchstone.files import write_atomic

NAME = "SHA256SUMS"
EDITED = "edited"
"""The flag of a run with a file that is not what its stage wrote."""
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
SMALL_STAGES = ("", "tables", "parity/*")
OF_STAGES = (*SMALL_STAGES, "runs/*/rep*")
"""Where lists may be, below the results folder; the files of runs may be gigabytes."""


def write(folder: Path, paths: Iterable[Path]) -> None:
    """List these files in the `folder`; those that do not exist are left out.

    Raises:
        OSError: one cannot be read, or the list cannot be written.
    """
    found = {path: _digest(path) for path in paths if path.is_file()}
    _write(folder, found)


def add(folder: Path, path: Path) -> None:
    """List one more file in a `folder` that has a list already; else do nothing."""
    if known := listed(folder):
        _write(folder, {**known, path: _digest(path)})


def forget(folder: Path) -> None:
    """Delete the list in a folder whose files are about to be written again."""
    (folder / NAME).unlink(missing_ok=True)


def listed(folder: Path) -> dict[Path, str]:
    """The digest of every listed file; of a list that is missing or damaged, what can be read."""
    found = (LINE.fullmatch(line) for line in _lines(folder))
    return {_joined(folder, line[2]): line[1] for line in found if line}


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
    found = LINE.fullmatch(line)
    return None if found is None else found[1] != hashlib.sha256(text.encode()).hexdigest()


def changed_in(results: Path, stages: Iterable[str] = OF_STAGES) -> Iterator[Path]:
    """The changed files of a results folder, by the lists of these stages."""
    for stage in stages:
        folders = [results] if not stage else sorted(results.glob(stage))
        for folder in folders:
            yield from changed(folder)


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
