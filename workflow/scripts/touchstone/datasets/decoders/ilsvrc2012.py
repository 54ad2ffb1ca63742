"""ILSVRC2012 in its original archives, which the user places; they are not extracted.

The training archive holds one tar per class, named by its WordNet ID; the validation archive
holds the photos themselves; the devkit has `meta.mat`, which numbers the classes in an order of
its own, and the number of each validation photo (Russakovsky et al., "ImageNet Large Scale
Visual Recognition Challenge", IJCV 115(3), 2015, and the devkit's readme). The label of a class
is its place among the sorted WordNet IDs.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, NonNegativeInt, PositiveInt, StringConstraints

from touchstone.datasets.decoders import Decoder, Lazy, place
from touchstone.datasets.errors import DatasetError, DatasetErrors
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example

_AGAIN = "get it again from image-net.org"


class Placed(BaseModel, extra="forbid", frozen=True, strict=True):
    """A file that the user places; size (bytes) and MD5 are checked where they are given."""

    file: str
    size: PositiveInt | None = None
    md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None


class Ilsvrc2012(Decoder, frozen=True):
    """The three archives in `folder`; either split is permuted with `seed`."""

    PHOTOS: ClassVar[bool] = True

    name: Literal["ilsvrc2012"]
    folder: str
    train: Placed
    validation: Placed
    devkit: Placed
    seed: NonNegativeInt

    def check(self) -> None:
        """See `Decoder`. The MD5 of the whole training archive takes some minutes."""
        faults = []
        for placed in (self.train, self.validation, self.devkit):
            path = place(self.folder) / placed.file
            if not path.is_file():
                remedy = f"place it there; {_AGAIN}, after a login"
                faults.append(DatasetError(path, "the file is missing", remedy))
            elif placed.size not in (None, path.stat().st_size):
                cause = f"{path.stat().st_size} bytes, not {placed.size}"
                faults.append(DatasetError(path, cause, _AGAIN))
            elif placed.md5 is not None:
                size = path.stat().st_size / 1e9
                print(f"{path}: MD5 of {size:.1f} GB", file=sys.stderr, flush=True)
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "md5").hexdigest()
                if digest != placed.md5:
                    faults.append(DatasetError(path, f"MD5 {digest}, not {placed.md5}", _AGAIN))
        if faults:
            raise DatasetErrors(faults)

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`."""
        import numpy as np

        placed = self.train if split == "train" else self.validation
        path = place(self.folder) / placed.file
        if not path.is_file():
            raise DatasetError(path, "the file is missing", "place it there")
        file = os.open(path, os.O_RDONLY)
        if split == "train":
            rows = _train_index(file, path, dataset)
        else:
            rows = _validation_index(file, path, place(self.folder) / self.devkit.file, dataset)
        index = np.array(rows, np.int64).reshape(-1, 3)
        random = np.random.RandomState([self.seed, int(split == "test")])
        return _Photos(file, path, index[random.permutation(len(index))], dataset)


class _Photos(Lazy["Example"]):
    """Photos that are read where they lie in the archive.

    `index` has a row (label, offset, size) for each. The descriptor stays open with it.
    """

    def __init__(self, file: int, path: Path, index: Any, dataset: DatasetFacts) -> None:
        self._file, self._path, self._index, self._dataset = file, path, index, dataset

    def __len__(self) -> int:
        return len(self._index)

    def __del__(self) -> None:
        os.close(self._file)

    def item(self, index: int) -> Example:
        """See `Lazy`."""
        from touchstone.datasets import photos, tar

        label, offset, size = self._index[index].tolist()
        content = os.pread(self._file, size, offset)
        kept = self._dataset.photos
        try:
            if kept is not None:
                return label, photos.as_jpeg(content, kept.short_side, kept.quality)
            return label, photos.as_pixels(content, self._dataset.shape)
        except ValueError as error:
            name = tar.name_at(self._file, self._path, offset)
            raise DatasetError(self._path, f"{name}: {error}", _AGAIN) from error


Row = tuple[int, int, int]
"""Label, offset and size of a photo."""


def _train_index(file: int, path: Path, dataset: DatasetFacts) -> list[Row]:
    """Rows in the order of class and name, from the headers of the nested archives."""
    from touchstone.datasets import tar

    classes = sorted(tar.members(file, path))
    wnids = [Path(member.name).stem for member in classes]
    if wnids != dataset.classes:
        raise DatasetError(
            path,
            f"its {len(wnids)} classes are not the {len(dataset.classes)} of the catalogue",
            f"correct classes in the catalogue of {dataset.name}: the sorted WordNet IDs",
        )
    return [
        (label, photo.offset, photo.size)
        for label, member in enumerate(classes)
        for photo in sorted(tar.members(file, path, member.offset, member.offset + member.size))
    ]


def _validation_index(file: int, path: Path, devkit: Path, dataset: DatasetFacts) -> list[Row]:
    """Rows in the order of the photos' names, which is that of the devkit's lines."""
    from touchstone.datasets import tar

    labels = _validation_labels(devkit, dataset)
    photos = sorted(tar.members(file, path))
    if len(photos) != len(labels):
        raise DatasetError(
            devkit, f"{len(labels)} labels for {len(photos)} photos in {path.name}", _AGAIN
        )
    pairs = zip(labels, photos, strict=True)
    return [(label, photo.offset, photo.size) for label, photo in pairs]


def _validation_labels(path: Path, dataset: DatasetFacts) -> list[int]:
    """Labels of the validation photos in the order of their names; raises DatasetError."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    from touchstone.datasets import tar

    contents = {}
    wanted = ("meta.mat", "ILSVRC2012_validation_ground_truth.txt")
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = Path(member.name).name
                if cause := tar.unsafe(member.name, not (member.isfile() or member.isdir())):
                    raise DatasetError(path, cause, _AGAIN)
                if name in wanted and (stream := archive.extractfile(member)):
                    contents[name] = stream.read()
        synsets = loadmat(io.BytesIO(contents["meta.mat"]), squeeze_me=True)["synsets"].ravel()
        wnid_of = {int(synset["ILSVRC2012_ID"]): str(synset["WNID"]) for synset in synsets}
        numbers = [int(line) for line in contents[wanted[1]].split()]
        wnids = [wnid_of[number] for number in numbers]
    except (
        *(tarfile.TarError, EOFError, OSError, zlib.error, MatReadError),
        *(LookupError, ValueError, TypeError, NotImplementedError),
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the operating system; SciPy's and gzip's own have no number
        raise DatasetError(path, f"damaged, or not the devkit ({error})", _AGAIN) from error
    label_of = {wnid: label for label, wnid in enumerate(dataset.classes)}
    if outside := sorted(set(wnids) - set(label_of)):
        raise DatasetError(
            path,
            f"labels outside the classes: {', '.join(outside[:5])}",
            f"correct classes in the catalogue of {dataset.name}",
        )
    return [label_of[wnid] for wnid in wnids]
