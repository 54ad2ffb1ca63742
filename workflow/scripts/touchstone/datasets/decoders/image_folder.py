"""A user's folder with one folder of images per class.

`workflow/scripts/describe_folder.py` writes the catalogue's file of such a data set, with its
classes, counts, mean, standard deviation and fingerprints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, field_validator
from pydantic import ValidationInfo as Info

from touchstone.datasets.decoders import Decoder, Lazy, place
from touchstone.datasets.errors import DatasetError, DatasetErrors
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


class ImageFolder(Decoder, frozen=True):
    """`folder`/CLASS/IMAGE, and either `test_folder` of the same form or a `test_share`.

    The test share is drawn class by class. The examples of either split are permuted, all with
    `seed`. Without `photos` in the catalogue images become pixels of its shape: scaled
    bilinearly until they cover it, and cut to their middle.
    """

    PHOTOS: ClassVar[bool] = True

    name: Literal["image-folder"]
    folder: str
    test_folder: str | None = None
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(None, validate_default=True)
    seed: NonNegativeInt

    @field_validator("test_share")
    @classmethod
    def _one_test(cls, share: float | None, info: Info) -> float | None:
        if "test_folder" in info.data and (share is None) == (info.data["test_folder"] is None):
            raise ValueError("give either test_folder or test_share")
        return share

    def check(self) -> None:
        """See `Decoder`."""
        scan(place(self.folder))
        if self.test_folder is not None:
            scan(place(self.test_folder))

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`."""
        import numpy as np

        root = place(self.folder)
        if split == "test" and self.test_folder is not None:
            root = place(self.test_folder)
        files = scan(root)
        if list(files) != dataset.classes:
            raise DatasetError(
                root,
                f"its {len(files)} classes are not those of the catalogue of {dataset.name}",
                "describe the folder again with describe_folder.py",
            )
        chosen: list[tuple[int, Path]] = []
        for label, paths in enumerate(files.values()):
            kept = paths
            if self.test_share is not None:
                order = np.random.RandomState([self.seed, label]).permutation(len(paths))
                cut = round(len(paths) * self.test_share)
                part = order[:cut] if split == "test" else order[cut:]
                kept = [paths[i] for i in sorted(part.tolist())]
            chosen += [(label, path) for path in kept]
        random = np.random.RandomState([self.seed, len(files), int(split == "test")])
        order = random.permutation(len(chosen))
        return _Files([chosen[i] for i in order.tolist()], dataset)


class _Files(Lazy["Example"]):
    def __init__(self, files: list[tuple[int, Path]], dataset: DatasetFacts) -> None:
        self._files, self._dataset = files, dataset

    def __len__(self) -> int:
        return len(self._files)

    def item(self, index: int) -> Example:
        """See `Lazy`."""
        from touchstone.datasets import photos

        label, path = self._files[index]
        kept = self._dataset.photos
        try:
            if kept is not None:
                return label, photos.as_jpeg(path.read_bytes(), kept.short_side, kept.quality)
            return label, photos.as_pixels(path.read_bytes(), self._dataset.shape)
        except ValueError as error:
            raise DatasetError(path, str(error), "replace or remove the file") from error


def scan(root: Path) -> dict[str, list[Path]]:
    """The images of each class, both sorted by name; files that begin with a dot do not count.

    Raises DatasetErrors with every empty class and every file that is no image.
    """
    from touchstone.datasets import photos

    if not root.is_dir():
        raise DatasetError(root, "there is no such folder", "correct its name in the catalogue")
    faults = []
    files: dict[str, list[Path]] = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.startswith("."):
            continue
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        if not paths:
            faults.append(
                DatasetError(folder, "the class has no image", "remove the folder or fill it")
            )
        for path in paths:
            if not path.is_file():
                cause = "not a file"
            else:
                with path.open("rb") as file:
                    start = file.read(16)
                cause = "" if start.startswith(photos.SIGNATURES) else "not an image"
            if cause:
                faults.append(DatasetError(path, cause, "remove it from the folder of the class"))
        files[folder.name] = paths
    if len(files) < 2:
        faults.append(
            DatasetError(
                root, f"{len(files)} folders of classes", "put each class into a folder of its own"
            )
        )
    if faults:
        raise DatasetErrors(faults)
    return files
