"""Texts out of the files of a zip archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fixtures.toy_dataset import ToyDataset
from touchstone.datasets import formats

FILES = {
    "pack/b/two.py": b"BBBBbb",
    "pack/a/second.py": b"dddee",
    "pack/a/first.py": b"aaaabbbbc",
    "pack/a/notes.txt": b"zzzzzzzz",
    "pack/c/other.py": b"cccccccc",
    "other/a/first.py": b"oooooooo",
}
PIECES = [(0, b"aaaa"), (0, b"bbbb"), (0, b"cddd"), (1, b"BBBB")]
"""By hand: of four bytes each, in the order of files; the ends, `ee` and `bb`, are dropped."""


def archive_text(folder: Path, **keys: Any) -> ToyDataset:
    """Texts of four bytes; the archive has more classes, folders and files than are asked for."""
    decoder = {
        "name": "archive-text", "archive": "toy.whl", "folder": "pack", "suffix": ".py", "seed": 3,
    }  # fmt: skip
    keys = {"shape": [4, 1, 1], "mean": [0.0], "std": [1.0], **keys}
    toy = ToyDataset(folder, decoder, **keys)
    toy.entry["splits"] = {"train": 3, "test": 1}
    with zipfile.ZipFile(toy.source / "toy.whl", "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    toy.put_source("toy.whl")
    return toy


def test_the_files_of_each_class_are_cut_into_texts_and_shuffled(tmp_path: Path) -> None:
    toy = archive_text(tmp_path)
    assert toy.convert().returncode == 0
    read = [
        (label, bytes(formats.content(text)))
        for s in ("train", "test")
        for label, text in toy.read(s)
    ]
    assert read == [PIECES[i] for i in np.random.RandomState(3).permutation(4)]


def test_too_few_texts_are_one_message(tmp_path: Path) -> None:
    toy = archive_text(tmp_path)
    toy.entry["splits"] = {"train": 4, "test": 1}
    (line,) = toy.refused()
    assert "toy.whl: 4 texts of 4 bytes, not 5; correct splits, classes and decoder" in line


def test_a_damaged_archive_is_one_message(tmp_path: Path) -> None:
    toy = archive_text(tmp_path)
    (toy.source / "toy.whl").write_bytes(b"no archive")
    toy.put_source("toy.whl")
    (line,) = toy.refused()
    assert "toy.whl: damaged archive (" in line and "download the data set again" in line
