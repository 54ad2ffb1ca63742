"""The binary version of CIFAR-10, a gzipped tar archive that is read without extraction.

A record is the label, one byte, and the pixels: 32 x 32 red, then green, then blue, row by row
(Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", and the archive's
readme). No member is unpickled or written to the disk.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from touchstone.datasets.decoders import Decoder
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example

Members = Annotated[list[str], Field(min_length=1)]


class CifarBinary(Decoder, frozen=True):
    """Members of one archive for each split, in this order."""

    name: Literal["cifar-binary"]
    archive: str
    train: Members
    test: Members

    def sources(self) -> list[str]:
        """See `Decoder`."""
        return [self.archive]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`. Raises DatasetError too for unsafe or missing members."""
        import numpy as np

        height, width, channels = dataset.shape
        names: list[str] = getattr(self, split)
        contents = self._contents(folder / self.archive, set(names), dataset.name)
        records = np.frombuffer(b"".join(contents[name] for name in names), np.uint8)
        size = 1 + height * width * channels
        for name in names:
            if len(contents[name]) % size:
                raise DatasetError(
                    folder / self.archive,
                    f"{name} has {len(contents[name])} bytes, no multiple of {size}",
                    f"correct the shape in the catalogue of {dataset.name}",
                )
        records = records.reshape(-1, size)
        planes = records[:, 1:].reshape(-1, channels, height, width)
        images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        return list(zip(records[:, 0].tolist(), images, strict=True))

    def _contents(self, path: Path, names: set[str], dataset: str) -> dict[str, bytes]:
        """The members `names` of the archive; every member that stands in it is checked."""
        from touchstone.datasets import tar

        found = {}
        try:
            with tarfile.open(path, "r|gz") as archive:
                for member in archive:
                    is_special = not (member.isfile() or member.isdir())
                    if cause := tar.unsafe(member.name, is_special):
                        raise DatasetError(path, cause, "use the original archive")
                    if member.name in names:
                        file = archive.extractfile(member)
                        found[member.name] = file.read() if file else b""
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise DatasetError(
                path, f"damaged archive ({error})", "delete it and download the data set again"
            ) from error
        if missing := sorted(names - set(found)):
            raise DatasetError(
                path,
                f"it has no member {', '.join(missing)}",
                f"correct the options of the decoder in the catalogue of {dataset}",
            )
        return found
