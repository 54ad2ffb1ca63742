"""Texts of seeded Markov chains, for text classifiers: the class is the chain.

Bytes are lower-case letters. After every letter a chain has its own favourites: it takes one of
them with the probability `share`, and else any letter. So the chains differ a little in how
frequent their letters are, as languages do, and more in which letters follow one another.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from touchstone.datasets.decoders import Decoder, Lazy
from touchstone.datasets.facts import DatasetFacts

if TYPE_CHECKING:
    from touchstone.datasets.formats import Example


class MarkovText(Decoder, frozen=True):
    """As many chains as classes, over the first `letters` of the alphabet."""

    TOKENS: ClassVar[bool] = True

    name: Literal["markov-text"]
    seed: NonNegativeInt
    letters: Annotated[int, Field(ge=2, le=26)]
    favourites: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(gt=0, le=1)]

    def examples(self, dataset: DatasetFacts, split: str, folder: Path) -> Sequence[Example]:
        """See `Decoder`; every example has its own stream of `seed`."""
        count = dataset.splits.train if split == "train" else dataset.splits.test
        return _Texts(self, split, count, dataset.shape, len(dataset.classes))

    def chains(self, classes: int) -> Any:
        """The favourites, int64 (classes, favourites, letters): what may follow each letter."""
        import numpy as np

        random = np.random.RandomState([self.seed, 2])
        return random.randint(0, self.letters, (classes, self.favourites, self.letters))


class _Texts(Lazy["Example"]):
    def __init__(
        self, source: MarkovText, split: str, count: int, shape: list[int], classes: int
    ) -> None:
        self._source, self._key = source, [source.seed, int(split == "test")]
        self._count, self._shape, self._chains = count, shape, source.chains(classes)

    def __len__(self) -> int:
        return self._count

    def item(self, index: int) -> Example:
        """See `Lazy`. NumPy freezes the stream of RandomState (NEP 19)."""
        import numpy as np

        source, steps = self._source, self._shape[0]
        random = np.random.RandomState([*self._key, index])
        label = int(random.randint(len(self._chains)))
        chain = self._chains[label]
        liked = random.random_sample(steps) < source.share
        which = random.randint(0, source.favourites, steps)
        text = random.randint(0, source.letters, steps)
        for step in range(1, steps):
            if liked[step]:
                text[step] = chain[which[step], text[step - 1]]
        alphabet = np.frombuffer(string.ascii_lowercase.encode(), np.uint8)
        return label, alphabet[text].reshape(self._shape)
