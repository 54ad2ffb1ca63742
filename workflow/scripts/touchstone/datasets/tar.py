"""Members of an uncompressed tar file, found by its headers only (POSIX.1-1988 ustar).

The data of a member lies in one piece in the archive, so it is read with `pread` where it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from touchstone.datasets.errors import DatasetError

_BLOCK = 512
_FILE, _FOLDER = {b"0", b"\0"}, b"5"


class Member(NamedTuple):
    """A file in the archive: its name, where its data begins, and how many bytes they are."""

    name: str
    offset: int
    size: int


def members(file: int, path: Path, begin: int = 0, end: int | None = None) -> Iterator[Member]:
    """The files of the archive in bytes [begin, end) of the open file descriptor `file`.

    `path` is its name for messages. Raises DatasetError for a damaged or truncated archive and
    for members that are no plain files: links, or names that lead out of the archive.
    """
    total = os.fstat(file).st_size
    end = total if end is None else end
    position = begin
    while position < end:
        header = os.pread(file, _BLOCK, position)
        if header.count(0) == _BLOCK:
            return
        member, kind = _parse(header, path, position)
        if cause := unsafe(member.name, is_link=kind not in _FILE and kind != _FOLDER):
            raise DatasetError(path, cause, "use the original archive")
        if member.offset + member.size > end:
            raise DatasetError(
                path,
                f"truncated: {member.name} ends at byte {member.offset + member.size}, "
                f"the archive at {end}",
                "get it again",
            )
        if kind in _FILE:
            yield member
        position = member.offset + -(-member.size // _BLOCK) * _BLOCK
    raise DatasetError(path, "truncated: no end mark", "get it again")


def name_at(file: int, path: Path, offset: int) -> str:
    """The name of the member whose data begins at `offset`."""
    return _parse(os.pread(file, _BLOCK, offset - _BLOCK), path, offset - _BLOCK)[0].name


def unsafe(name: str, is_link: bool) -> str | None:
    """Why a member of an archive is refused, or None if it is harmless."""
    if is_link:
        return f"its member {name!r} is a link or another special file, which is refused"
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        return f"its member {name!r} leads out of the archive, which is refused"
    return None


def _parse(header: bytes, path: Path, position: int) -> tuple[Member, bytes]:
    """The member of a header at byte `position`, and its type flag; raises DatasetError."""
    try:
        recorded = int(header[148:156].rstrip(b"\0 "), 8)
        size = int(header[124:136].rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        recorded = size = -1
    if len(header) != _BLOCK or sum(header) - sum(header[148:156]) + 8 * 32 != recorded:
        raise DatasetError(
            path, f"damaged or truncated: no tar header at byte {position}", "get it again"
        )
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and header[345]:
        name = header[345:500].split(b"\0", 1)[0] + b"/" + name
    return Member(os.fsdecode(name), position + _BLOCK, size), header[156:157]
