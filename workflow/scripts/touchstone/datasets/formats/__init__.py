"""Record formats, found by file name: each module here has one `write` and one `read`."""

from __future__ import annotations

import importlib
import pkgutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from touchstone.datasets.errors import DatasetError

Pixels = NDArray[np.uint8]
"""An image: height x width x channels; three channels are red, green, blue."""

Image = Pixels | bytes
"""What a record holds: pixels or, in a data set of photos, a JPEG file."""

Example = tuple[int, Image]
"""A label (index of the class) and its image."""

DAMAGED = (ValueError, LookupError, struct.error)
"""What reading a damaged file may raise."""


class Format(Protocol):
    """What a module of this folder offers."""

    SHARDED: bool
    """Whether its readers take a split that lies in several files."""

    PHOTOS: bool
    """Whether a record can hold a JPEG file."""

    def write(self, stem: Path, examples: Iterable[Example]) -> list[Path]:
        """Write the examples to `stem` plus the format's suffixes; return the files.

        All images are pixels of one shape, or all are JPEG files. The same examples give the
        same bytes. Raises OSError where the disk refuses.
        """

    def read(self, stem: Path, shape: list[int] | None) -> Iterator[Example]:
        """Yield the examples in the order in which they were written.

        `shape` is that of the pixels; None says that the images are JPEG files. Raises one of
        `DAMAGED` for a damaged file or an image of another shape.
        """

    def record_size(self, image: int) -> int:
        """Bytes on disk, at most, of a record whose image has `image` bytes."""


def content(image: Image) -> bytes:
    """The bytes of an image: its pixels row by row, or the JPEG file."""
    return image if isinstance(image, bytes) else image.tobytes()


def restore(stored: bytes, shape: list[int] | None) -> Image:
    """The image whose `content` is `stored`; raises ValueError if it is not of the shape."""
    return stored if shape is None else np.frombuffer(stored, np.uint8).reshape(shape)


def names() -> list[str]:
    """Names of the record formats, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Format:
    """The record format `name`; raises DatasetError for an unknown one."""
    if name not in names():
        raise DatasetError(name, "unknown record format", f"use one of: {', '.join(names())}")
    return cast(Format, importlib.import_module(f"{__name__}.{name}"))
