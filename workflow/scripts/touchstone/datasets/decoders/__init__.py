"""Decoders: one file per kind of source, with one pydantic model, found by its file.

The model's fields are the decoder's options in the catalogue; `name` is a literal. The catalogue
is read whenever the Snakefile loads, so a decoder imports NumPy and Pillow inside its methods, not
at the top of the file.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from pydantic import BaseModel

from touchstone.datasets.errors import DatasetError
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example

Item = TypeVar("Item")


class Decoder(BaseModel, extra="forbid", frozen=True, strict=True):
    """What every decoder offers."""

    PHOTOS: ClassVar[bool] = False
    """Whether it can give photos as JPEG files."""

    TOKENS: ClassVar[bool] = False
    """Whether its examples are texts: bytes in the shape steps, 1, 1."""

    def sources(self) -> list[str]:
        """Names of the sources that it reads; those of a user's own files are none."""
        return []

    def check(self) -> None:
        """Look at the files that the user places; raises DatasetError with all faults."""

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """The examples of `split` in the order in which they are stored.

        `folder` has the sources. Taking an example may read and decode it. Both raise
        DatasetError for a damaged file.
        """
        raise NotImplementedError


def kinds() -> list[type[Decoder]]:
    """The decoder of every file of this folder."""
    classes = []
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        module = importlib.import_module(f"{__name__}.{path.stem}")
        classes += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Decoder)
            and value.__module__ == module.__name__
        ]
    return classes


class Lazy(Sequence[Item], Generic[Item]):
    """A sequence whose items are made when they are asked for, by a method `item(index)`."""

    def item(self, index: int) -> Item:
        """The item at `index`, from 0 to the length."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self.item(i) for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.item(index)


def place(folder: str) -> Path:
    """The folder that a catalogue names: `~` and `$VARIABLES` replaced; raises DatasetError."""
    expanded = os.path.expandvars(folder)
    if "$" in expanded:
        raise DatasetError(
            folder,
            "the environment variable is not set",
            "set it to the folder with your files, as docs/datasets.md tells",
        )
    return Path(expanded).expanduser()
