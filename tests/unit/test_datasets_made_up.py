"""Decoders that make their examples up: noise, and texts of Markov chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fixtures.toy_dataset import ToyDataset
from touchstone.datasets import formats


def test_noise_is_seeded_and_labels_are_in_range(tmp_path: Path) -> None:
    toy = ToyDataset(tmp_path, {"name": "noise", "seed": 7}, classes=3)
    toy.entry |= {"splits": {"train": 200, "test": 100}, "shape": [4, 5, 3]}
    assert toy.convert().returncode == 0
    train, test = toy.read("train"), toy.read("test")
    assert {label for label, _ in train} == {0, 1, 2}
    state = np.random.RandomState([7, 1, 3])
    label = int(state.randint(3))
    assert test[3][0] == label
    np.testing.assert_array_equal(test[3][1], state.randint(0, 256, [4, 5, 3], np.uint8))
    assert len({formats.content(image) for _, image in train + test}) == 300


def markov(folder: Path, **keys: Any) -> ToyDataset:
    """Texts of three chains that take nothing but their favourites."""
    decoder = {"name": "markov-text", "seed": 7, "letters": 12, "favourites": 3, "share": 1.0}
    keys = {"classes": 3, "shape": [40, 1, 1], "mean": [0.0], "std": [1.0], **keys}
    toy = ToyDataset(folder, decoder, **keys)
    toy.entry["splits"] = {"train": 300, "test": 60}
    return toy


def test_a_text_follows_the_chain_of_its_class(tmp_path: Path) -> None:
    toy = markov(tmp_path)
    assert toy.convert().returncode == 0
    train, test = toy.read("train"), toy.read("test")
    assert {label for label, _ in train} == {0, 1, 2}
    assert len({formats.content(text) for _, text in train + test}) == 360
    followers: dict[int, dict[int, set[int]]] = {}
    counts = np.zeros(256, int)
    for label, text in train:
        letters = [int(byte) for byte in formats.content(text)]
        counts += np.bincount(letters, minlength=256)
        for before, after in zip(letters, letters[1:], strict=False):
            followers.setdefault(label, {}).setdefault(before, set()).add(after)
    assert set(np.flatnonzero(counts)) == set(b"abcdefghijkl")
    assert all(len(after) <= 3 for known in followers.values() for after in known.values())
    assert len({str(sorted(known.items())) for known in followers.values()}) == 3


def test_a_text_is_not_scaled_and_has_one_column(tmp_path: Path) -> None:
    for keys in ({"mean": [0.5]}, {"std": [0.25]}, {"shape": [40, 2, 1]}):
        (line,) = markov(tmp_path, **keys).refused()
        assert "a text wants a shape of steps, 1, 1, a mean of [0.0], a std of [1.0]" in line
