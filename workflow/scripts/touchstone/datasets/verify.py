"""Whether a file is the one that the catalogue means."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from touchstone.datasets.catalogue import Source
from touchstone.datasets.errors import DatasetError, repair, unreadable
from touchstone.reading import PART

MOST_RATIO = 1032
"""Bytes that one byte of a gzip file stands for at most (zlib's Technical Details); the content of
the right file, whose size is known, has no more."""


def fault(path: Path, source: Source) -> str | None:
    """Why the file at `path` is not `source` (see there for the rule), or None if it is.

    Raises OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest == source.sha256:
        return None
    if digest == source.content_sha256:  # without the gzip around it
        return None
    if source.content_sha256 is None:
        size = path.stat().st_size
        return f"{size} bytes with SHA-256 {digest}, not {source.size} with {source.sha256}"
    try:
        content = _content_digest(path, source.size * MOST_RATIO)
    except (EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
        return f"SHA-256 {digest}, not {source.sha256}, and not a whole gzip file ({error})"
    if content == source.content_sha256:
        return None
    return (
        f"SHA-256 {digest} (content {content}), not {source.sha256} "
        f"(content {source.content_sha256})"
    )


def _content_digest(path: Path, most: int) -> str:
    """The SHA-256 of what is in a gzip file. Raises ValueError beyond so many bytes."""
    digest, size = hashlib.sha256(), 0
    with gzip.open(path) as file:
        while part := file.read(PART):
            digest.update(part)
            size += len(part)
            if size > most:
                raise ValueError(f"its content is more than {most:,} bytes")
    return digest.hexdigest()


def damage(path: Path, source: Source) -> str | None:
    """Why the file at `path` is not `source`, or is missing or unreadable; None if it is right."""
    try:
        return fault(path, source)
    except OSError as error:
        return unreadable(error)


def require(path: Path, source: Source) -> None:
    """Raise DatasetError unless the file at `path` is there and is `source`."""
    if cause := damage(path, source):
        raise DatasetError(path, cause, repair())
