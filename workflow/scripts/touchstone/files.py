"""Files that are written whole or not at all."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

LEAST_FREE = 16
"""MiB that a disk must have free for an execution to begin."""


def why_not_writable(folder: Path) -> str | None:
    """Why an execution cannot begin in a folder that is read-only or on a full disk, or None."""
    if not os.access(folder, os.W_OK):
        return (
            f"{folder}: this folder is read-only; check that you may write there, or give another "
            "one with `snakemake --directory`"
        )
    free = shutil.disk_usage(folder).free // 2**20
    if free < LEAST_FREE:
        return (
            f"{folder}: the disk is full ({free} MiB are free, {LEAST_FREE} are needed); make room "
            "and start again: finished runs are kept"
        )
    return None


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """The path of a new file, which gets the name `path` at the end; an error deletes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write all of a file or nothing: a reader never sees a half-written one."""
    with replacement(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def own_file(path: Path, mode: Literal["r", "w"]) -> TextIO:
    """Open a file of this user in a folder where others may have put something under its name.

    Raises:
        OSError: what is there is a link, no plain file, or another user's; or there is nothing.
    """
    access = os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_nlink != 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, "not a plain file of this user", str(path))
    if mode == "w":
        os.ftruncate(descriptor, 0)
    return open(descriptor, mode, encoding="utf-8")


def with_section(page: str, name: str, text: str) -> str:
    """A page of Markdown with `text` between its marks `<!-- name begin -->` and `name end`.

    Raises:
        ValueError: the page lacks one of the marks, or has one twice.
    """
    begin, end = (f"<!-- {name} {edge} -->\n" for edge in ("begin", "end"))
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{text}\n{end}{after}"
