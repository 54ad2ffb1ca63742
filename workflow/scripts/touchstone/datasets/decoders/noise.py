"""Seeded noise, for studies that need no real images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import NonNegativeInt

from touchstone.datasets.decoders import Decoder, Lazy
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


class Noise(Decoder, frozen=True):
    """Uniform pixels and labels; every example has its own stream of `seed`."""

    name: Literal["noise"]
    seed: NonNegativeInt

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`."""
        count = dataset.splits.train if split == "train" else dataset.splits.test
        return _Noise(self.seed, split, count, dataset.shape, len(dataset.classes))


class _Noise(Lazy["Example"]):
    def __init__(self, seed: int, split: str, count: int, shape: list[int], classes: int) -> None:
        self._key = [seed, int(split == "test")]
        self._count, self._shape, self._classes = count, shape, classes

    def __len__(self) -> int:
        return self._count

    def item(self, index: int) -> Example:
        """See `Lazy`. NumPy freezes the stream of RandomState (NEP 19)."""
        import numpy as np

        random = np.random.RandomState([*self._key, index])
        label = int(random.randint(self._classes))
        return label, random.randint(0, 256, self._shape, np.uint8)
