"""IDX files, gzipped or not: the form of MNIST and its descendants.

An IDX file is two zero bytes, the element type (8: uint8), the number of dimensions, each
dimension as a big-endian uint32, then the elements in row-major order
(LeCun, Cortes, Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, PositiveInt

from touchstone.datasets.decoders import Decoder, Lazy
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.facts import DatasetFacts
from touchstone.reading import read_at_most

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example, Pixels


class Files(BaseModel, extra="forbid", frozen=True, strict=True):
    """The two sources of one split."""

    images: str
    labels: str


class Idx(Decoder, frozen=True):
    """Two IDX files a split: images (N x H x W or N x H x W x C) and labels (N).

    `resize` scales each image bilinearly to a square of that side. `channels: 3` then repeats a
    grey image in three channels. `pooled` takes the training
    images and then the test images as one sequence, of which the first are for training and the
    next ones for testing, as many as the catalogue's splits say.
    """

    name: Literal["idx"]
    train: Files
    test: Files
    resize: PositiveInt | None = None
    channels: Literal[1, 3] = 1
    pooled: bool = False

    def sources(self) -> list[str]:
        """See `Decoder`."""
        return [name for split in (self.train, self.test) for _, name in split]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`. Raises DatasetError too where the two files differ in length."""
        if not self.pooled:
            return _Images(*self._read(dataset, split, folder), self.resize, self.channels)
        train, test = (self._read(dataset, part, folder) for part in ("train", "test"))
        labels, images = train[0] + test[0], [*train[1], *test[1]]
        first, last = dataset.splits.train, dataset.splits.train + dataset.splits.test
        cut = slice(0, first) if split == "train" else slice(first, last)
        return _Images(labels[cut], images[cut], self.resize, self.channels)

    def _read(self, dataset: DatasetFacts, split: str, folder: Path) -> tuple[list[int], Pixels]:
        """Labels, and images as N x H x W x C, of one split's files."""
        files: Files = getattr(self, split)
        images = _array(folder / files.images)
        labels = _array(folder / files.labels)
        if images.ndim not in (3, 4) or labels.ndim != 1 or len(images) != len(labels):
            raise DatasetError(
                folder / files.labels,
                f"labels of shape {labels.shape} for images of shape {images.shape}",
                f"correct the options of the decoder in the catalogue of {dataset.name}",
            )
        return labels.tolist(), images if images.ndim == 4 else images[..., None]


class _Images(Lazy["Example"]):
    """Labels and images that are in memory."""

    def __init__(
        self,
        labels: list[int],
        images: Sequence[Pixels] | Pixels,
        side: int | None,
        channels: int,
    ) -> None:
        self._labels, self._images = labels, images
        self._side, self._channels = side, channels

    def __len__(self) -> int:
        return len(self._labels)

    def item(self, index: int) -> Example:
        """See `Lazy`."""
        pixels = self._images[index]
        if self._side is not None:
            from touchstone.datasets import photos

            pixels = photos.resized(pixels, self._side)
        if self._channels > pixels.shape[2]:
            pixels = pixels.repeat(self._channels, axis=2)
        return self._labels[index], pixels


_TYPES = {0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
"""Other element types than unsigned bytes."""


def _parts(path: Path) -> tuple[bytes, tuple[int, ...] | None, bytes]:
    """How an IDX file begins, which may be gzipped, its shape, and its elements: one more than the
    shape has at most, whatever a file of a few bytes would unpack to."""
    with path.open("rb") as plain:
        zipped = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        begin = file.read(4)
        sides = file.read(4 * begin[3]) if len(begin) == 4 else b""
        if len(begin) < 4 or len(sides) < 4 * begin[3]:
            return begin, None, b""
        shape = struct.unpack(f">{begin[3]}I", sides)
        return begin, shape, read_at_most(file.read, prod(shape) + 1)


def _array(path: Path) -> Pixels:
    """The array of an IDX file of uint8, which may be gzipped; raises DatasetError."""
    import numpy as np

    remedy = "replace it by a whole copy, or download it again"
    try:
        begin, shape, content = _parts(path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(path, f"not a whole gzip file ({error})", remedy) from error
    if begin[:2] == b"\0\0" and begin[2:3] and begin[2] in _TYPES:
        cause = f"its elements are {_TYPES[begin[2]]}, not unsigned bytes"
        raise DatasetError(path, cause, "write them as unsigned bytes (type 8)")
    if begin[:3] != b"\0\0\x08" or shape is None:
        cause = "neither an IDX file of unsigned bytes nor a gzip file of one"
        raise DatasetError(path, cause, "use a file in that form, or another decoder")
    elements = np.frombuffer(content, np.uint8)
    if elements.size != prod(shape):
        many = elements.size if elements.size < prod(shape) else f"more than {prod(shape)}"
        raise DatasetError(path, f"{many} elements for the shape {shape}", remedy)
    return elements.reshape(shape)
