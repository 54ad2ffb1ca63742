"""The text files of a zip archive, a Python wheel for example, as texts of equal length.

The class is the folder that a file is in. The files of a folder, in the order of their names, are
one text, which is cut into pieces; what is left at its end is dropped. The pieces of all folders
are shuffled before they are split.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import NonNegativeInt

from touchstone.datasets.decoders import Decoder
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


class ArchiveText(Decoder, frozen=True):
    """The files `folder/CLASS/...suffix` of a zip archive."""

    TOKENS: ClassVar[bool] = True

    name: Literal["archive-text"]
    archive: str
    folder: str
    suffix: str
    seed: NonNegativeInt

    def sources(self) -> list[str]:
        """See `Decoder`."""
        return [self.archive]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`; the order is that of the shuffle.

        The shuffle is NumPy's RandomState(seed).permutation, whose stream is frozen for good.
        Raises DatasetError for a damaged archive or too few texts.
        """
        import numpy as np

        path = folder / self.archive
        train, total = dataset.splits.train, dataset.splits.train + dataset.splits.test
        try:
            with zipfile.ZipFile(path) as archive:
                texts = [self._text(archive, name) for name in dataset.classes]
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise DatasetError(
                path, f"damaged archive ({error})", "delete it and download the data set again"
            ) from error
        steps = dataset.shape[0]
        pieces = [
            (label, np.frombuffer(text, np.uint8, steps, start).reshape(dataset.shape))
            for label, text in enumerate(texts)
            for start in range(0, len(text) - steps + 1, steps)
        ]
        if len(pieces) < total:
            raise DatasetError(
                path,
                f"{len(pieces)} texts of {steps} bytes, not {total}",
                f"correct splits, classes and decoder in the catalogue of {dataset.name}",
            )
        order = np.random.RandomState(self.seed).permutation(len(pieces))
        chosen = order[:train] if split == "train" else order[train:total]
        return [pieces[place] for place in chosen]

    def _text(self, archive: zipfile.ZipFile, name: str) -> bytes:
        """All that the files of a class hold."""
        inside = f"{self.folder}/{name}/"
        members = [
            member
            for member in sorted(archive.namelist())
            if member.startswith(inside) and member.endswith(self.suffix)
        ]
        return b"".join(archive.read(member) for member in members)
