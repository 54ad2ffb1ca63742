"""IDX files, gzipped: the form of MNIST and its descendants.

An IDX file is two zero bytes, the element type (8: uint8), the number of dimensions, each
dimension as a big-endian uint32, then the elements in row-major order
(LeCun, Cortes, Burges, "The MNIST database of handwritten digits").
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from datasets.errors import DatasetError

if TYPE_CHECKING:
    from datasets.catalogue import Dataset
    from datasets.formats import Example, Pixels


class Files(BaseModel, extra="forbid", frozen=True, strict=True):
    """The two sources of one split."""

    images: str
    labels: str


class Idx(BaseModel, extra="forbid", frozen=True, strict=True):
    """Two gzipped IDX files a split: images (N x H x W or N x H x W x C) and labels (N)."""

    name: Literal["idx"]
    train: Files
    test: Files

    def sources(self) -> list[str]:
        """Names of the sources that it reads."""
        return [name for split in (self.train, self.test) for _, name in split]

    def decode(self, dataset: Dataset, split: str, folder: Path) -> Iterator[Example]:
        """Yield (label, H x W x C uint8 pixels) in the order of the files in `folder`.

        Raises DatasetError for a damaged file and where the two files differ in length.
        """
        files: Files = getattr(self, split)
        images = _read(folder / files.images)
        labels = _read(folder / files.labels)
        if images.ndim not in (3, 4) or labels.ndim != 1 or len(images) != len(labels):
            raise DatasetError(
                folder / files.labels,
                f"labels of shape {labels.shape} for images of shape {images.shape}",
                f"correct the options of the decoder in the catalogue of {dataset.name}",
            )
        if images.ndim == 3:
            images = images[..., None]
        yield from zip(labels.tolist(), images, strict=True)


def _read(path: Path) -> Pixels:
    """The array of a gzipped IDX file of uint8; raises DatasetError."""
    import numpy as np

    remedy = "delete it and download the data set again"
    try:
        content = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(path, f"not a whole gzip file ({error})", remedy) from error
    begin = 4 + 4 * content[3] if len(content) >= 4 else 4
    if content[:3] != b"\0\0\x08" or len(content) < begin:
        raise DatasetError(path, "not an IDX file of unsigned bytes", remedy)
    shape = struct.unpack(f">{content[3]}I", content[4:begin])
    elements = np.frombuffer(content, np.uint8, offset=begin)
    if elements.size != np.prod(shape, dtype=np.int64):
        raise DatasetError(path, f"{elements.size} elements for the shape {shape}", remedy)
    return elements.reshape(shape)
