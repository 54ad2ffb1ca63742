"""The binary versions of CIFAR-10 and CIFAR-100, a gzipped tar archive that is not extracted.

A record is the label, one byte, and the pixels: 32 x 32 red, then green, then blue, row by row.
A record of CIFAR-100 has two labels, the coarse and the fine one (Krizhevsky, "Learning Multiple
Layers of Features from Tiny Images", and the archives' readme). No member is unpickled or written
to the disk.
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
    """Members of one archive for each split, in this order.

    `label` says which label of a record counts: the only one of CIFAR-10, the coarse or the fine
    one of CIFAR-100.
    """

    name: Literal["cifar-binary"]
    archive: str
    train: Members
    test: Members
    label: Literal["only", "coarse", "fine"] = "only"

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
        labels, pixels = self._labels, height * width * channels
        for name in names:
            if cause := self._wrong_length(len(contents[name]), pixels):
                if _is_pickle(contents[name][:2]):
                    raise _pickled(folder / self.archive, name)
                remedy = self._remedy(len(contents[name]), pixels, dataset.name)
                raise DatasetError(folder / self.archive, f"{name} has {cause}", remedy)
        records = records.reshape(-1, labels + pixels)
        planes = records[:, labels:].reshape(-1, channels, height, width)
        images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
        chosen = records[:, 0 if self.label == "coarse" else labels - 1]
        return list(zip(chosen.tolist(), images, strict=True))

    @property
    def _labels(self) -> int:
        """Labels of a record, a byte each."""
        return 1 if self.label == "only" else 2

    def _wrong_length(self, length: int, pixels: int) -> str:
        """Why a member of `length` bytes holds no records, or nothing."""
        size = self._labels + pixels
        return f"{length} bytes, no multiple of {size}" if length % size else ""

    def _remedy(self, length: int, pixels: int, dataset: str) -> str:
        """What to do about a member of another length."""
        other = 3 - self._labels
        if length % (other + pixels):
            return f"correct the shape in the catalogue of {dataset}"
        value = "fine` or `coarse" if other == 2 else "only"
        kind = {1: "one label, as in CIFAR-10", 2: "two labels, as in CIFAR-100"}[other]
        where = f"in the decoder of the catalogue of {dataset}"
        return f"its records have {kind}: write `label: {value}` {where}"

    def _contents(self, path: Path, names: set[str], dataset: str) -> dict[str, bytes]:
        """The members `names` of the archive; every member that it has is checked."""
        from touchstone.datasets import tar

        contents = {}
        pickles = []
        try:
            with tarfile.open(path, "r|gz") as archive:
                for member in archive:
                    is_special = not (member.isfile() or member.isdir())
                    if cause := tar.unsafe(member.name, is_special):
                        raise DatasetError(path, cause, "use the original archive")
                    if member.name in names:
                        file = archive.extractfile(member)
                        contents[member.name] = file.read() if file else b""
                    elif member.isfile() and (file := archive.extractfile(member)):
                        pickles += [member.name] if _is_pickle(file.read(2)) else []
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise DatasetError(
                path, f"damaged archive ({error})", "delete it and download the data set again"
            ) from error
        if pickles and len(contents) < len(names):
            raise _pickled(path, pickles[0])
        if missing := sorted(names - set(contents)):
            raise DatasetError(
                path,
                f"it has no member {', '.join(missing)}",
                f"correct the options of the decoder in the catalogue of {dataset}",
            )
        return contents


def _is_pickle(start: bytes) -> bool:
    """Whether a file begins as a pickle of protocol 2 to 5 does."""
    return len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def _pickled(path: Path, name: str) -> DatasetError:
    return DatasetError(
        path,
        f"the Python version of CIFAR ({name} is a pickle), and nothing is unpickled",
        "use its binary version, cifar-10-binary.tar.gz or cifar-100-binary.tar.gz",
    )
