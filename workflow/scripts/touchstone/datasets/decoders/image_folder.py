"""A user's folder with one folder of images per class.

`describe-folder` writes the catalogue's file of such a data set, with its
classes, counts, mean, standard deviation and fingerprints.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, field_validator
from pydantic import ValidationInfo as Info

from touchstone.datasets.decoders import Decoder, Lazy, place
from touchstone.datasets.errors import DatasetError, DatasetErrors, unreadable
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "test", "testing"), "test"),
}
"""Names of folders that hold a split, and not a class."""
INNER = "images"
"""A folder in the folder of a class that holds its images, as in Tiny ImageNet."""


class ImageFolder(Decoder, frozen=True):
    """`folder`/CLASS/IMAGE or `folder`/CLASS/images/IMAGE, and `test_folder` or `test_share`.

    `test_folder` has the same form. The test share is drawn class by class. The examples of either
    split are permuted, all with `seed`. Without `photos` in the catalogue images become pixels of
    its shape: scaled bilinearly until they cover it, and cut to their middle. Of images with more
    than 8 bits the values use `bits` bits, and the 8 highest are kept.
    """

    PHOTOS: ClassVar[bool] = True

    name: Literal["image-folder"]
    folder: str
    test_folder: str | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, validate_default=True)
    seed: NonNegativeInt
    bits: Annotated[int, Field(ge=9, le=16)] | None = None

    @field_validator("test_share")
    @classmethod
    def _one_test(cls, share: float | None, info: Info) -> float | None:
        if "test_folder" in info.data and (share is None) == (info.data["test_folder"] is None):
            raise ValueError("give either test_folder or test_share")
        return share

    def check(self) -> None:
        """See `Decoder`."""
        for root in self.roots:
            scan(root)

    @property
    def roots(self) -> list[Path]:
        """The folders of classes: one, or the training and the test folder."""
        return [place(folder) for folder in (self.folder, self.test_folder) if folder is not None]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`."""
        import numpy as np

        root = self.roots[-1 if split == "test" else 0]
        files = scan(root)
        if fault := class_fault(root, list(files), dataset.classes):
            raise fault
        chosen = self.chosen(files, split)
        random = np.random.RandomState([self.seed, len(files), int(split == "test")])
        order = random.permutation(len(chosen))
        return _Files([chosen[i] for i in order.tolist()], dataset, self.bits)

    def chosen(self, files: dict[str, list[Path]], split: str) -> list[tuple[int, Path]]:
        """Label and path of the images of a split, class by class; `files` are those of its root,
        by class."""
        import numpy as np

        chosen: list[tuple[int, Path]] = []
        for label, paths in enumerate(files.values()):
            kept = paths
            if self.test_share is not None:
                order = np.random.RandomState([self.seed, label]).permutation(len(paths))
                cut = round(len(paths) * self.test_share)
                part = order[:cut] if split == "test" else order[cut:]
                kept = [paths[i] for i in sorted(part.tolist())]
            chosen += [(label, path) for path in kept]
        return chosen


def class_fault(root: Path, names: list[str], wanted: list[str]) -> DatasetError | None:
    """What is wrong where a folder's classes are not the `wanted` ones, in their order."""
    if names == wanted:
        return None
    missing, unknown = sorted(set(wanted) - set(names)), sorted(set(names) - set(wanted))
    parts = [f"no folder {', '.join(missing[:5])}"] if missing else []
    parts += [f"and a class more: {', '.join(unknown[:5])}"] if unknown else []
    return DatasetError(
        root,
        f"its classes are not those of the training images: {' '.join(parts) or 'another order'}",
        "give both the same classes, and describe them again with describe-folder",
    )


class _Files(Lazy["Example"]):
    def __init__(
        self, files: list[tuple[int, Path]], dataset: DatasetFacts, bits: int | None
    ) -> None:
        self._files, self._dataset, self._bits = files, dataset, bits

    def __len__(self) -> int:
        return len(self._files)

    def item(self, index: int) -> Example:
        """See `Lazy`."""
        from touchstone.datasets import photos

        label, path = self._files[index]
        kept = self._dataset.photos
        content = path.read_bytes()
        try:
            if kept is not None:
                return label, photos.as_jpeg(content, kept.short_side, kept.quality, self._bits)
            return label, photos.as_pixels(content, self._dataset.shape, self._bits)
        except photos.UnfitImage as error:
            raise DatasetError(path, str(error), error.remedy) from error


def scan(root: Path) -> dict[str, list[Path]]:
    """The images of each class, both sorted by name; raises DatasetErrors with all faults."""
    files, faults = listing(root)
    if faults:
        raise DatasetErrors(faults)
    return files


def listing(root: Path) -> tuple[dict[str, list[Path]], list[DatasetError]]:
    """The images of each class, both sorted by name, and every fault of the folder.

    Files whose names begin with a dot do not count. Faults are empty classes, files that are no
    image, and folders where none is expected.
    """
    if not root.is_dir():
        remedy = "correct its name in the catalogue"
        return {}, [DatasetError(root, "there is no such folder", remedy)]
    folders = [path for path in _visible(root) if path.is_dir()]
    if splits := _splits_for_classes(root, folders):
        return {}, [splits]
    faults: list[DatasetError] = []
    files = {folder.name: _images(folder, faults) for folder in folders}
    if len(files) < 2:
        cause = f"{len(files)} folders of classes"
        faults.append(DatasetError(root, cause, "put each class into a folder of its own"))
    return files, faults


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _splits_for_classes(root: Path, folders: list[Path]) -> DatasetError | None:
    """A root whose folders are splits, with the command that reads it."""
    named = {SPLITS.get(path.name.lower(), ""): path for path in folders}
    if "" in named or "train" not in named:
        return None
    train, test = named["train"], named.get("test")
    has_classes = test is not None and any(
        path.is_dir() and path.name != INNER for path in _visible(test)
    )
    choice = f"--test-folder {shlex.quote(str(test))}" if has_classes else "--test-share 0.2"
    names = ", ".join(path.name for path in folders)
    return DatasetError(
        root,
        f"its folders are splits and not classes ({names})",
        f"give `describe-folder {shlex.quote(str(train))} {choice}` and the other options",
    )


def _images(folder: Path, faults: list[DatasetError]) -> list[Path]:
    """The images of a class; what is wrong with its folder is added to `faults`."""
    inner = folder / INNER
    entries = _visible(inner if inner.is_dir() else folder)
    if inner.is_dir():
        strays = [path for path in _visible(folder) if path != inner and not _cause(path)]
        strays += [path for path in _visible(folder) if path != inner and path.is_dir()]
        remedy = f"move it into {inner}, or the images of {inner} into {folder}"
        faults += [DatasetError(path, f"beside the folder {INNER}", remedy) for path in strays]
    if not entries:
        faults.append(
            DatasetError(folder, "the class has no image", "remove the folder or fill it")
        )
    causes = {path: cause for path in entries if (cause := _cause(path))}
    faults += [DatasetError(path, cause, _remedy(path, folder)) for path, cause in causes.items()]
    return [path for path in entries if path not in causes]


def _cause(path: Path) -> str:
    """Why a path is no image, or nothing."""
    from touchstone.datasets import photos

    if path.is_dir():
        return "a folder in the folder of a class"
    if not path.exists():
        return "a link that leads nowhere"
    if not path.is_file():
        return "not a file"
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        return unreadable(error)
    return "" if start.startswith(photos.SIGNATURES) else "not an image"


def _remedy(path: Path, folder: Path) -> str:
    if path.is_dir():
        return f"move its images into {folder}, or the folder to another place"
    return "move it out of the folder of the class"
