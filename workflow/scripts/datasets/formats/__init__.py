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

from datasets.errors import DatasetError

Pixels = NDArray[np.uint8]
"""An image: height x width x channels; three channels are red, green, blue."""

Example = tuple[int, Pixels]
"""A label (index of the class) and its image."""

DAMAGED = (ValueError, LookupError, struct.error)
"""What reading a damaged file may raise."""


class Format(Protocol):
    """What a module of this folder offers."""

    def write(self, stem: Path, examples: Iterable[Example]) -> list[Path]:
        """Write the examples to `stem` plus the format's suffixes; return the files.

        The same examples give the same bytes. Raises OSError where the disk refuses.
        """

    def read(self, stem: Path, shape: list[int]) -> Iterator[Example]:
        """Yield the examples in the order in which they were written.

        Raises one of `DAMAGED` for a damaged file or an image of another shape.
        """


def names() -> list[str]:
    """Names of the record formats, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Format:
    """The record format `name`; raises DatasetError for an unknown one."""
    if name not in names():
        raise DatasetError(name, "unknown record format", f"use one of: {', '.join(names())}")
    return cast(Format, importlib.import_module(f"{__name__}.{name}"))
