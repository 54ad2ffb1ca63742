"""verify_datasets: a line for every data set and format, and every damaged file by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fixtures.commands import call
from touchstone.datasets import formats
from touchstone.datasets.catalogue import Dataset
from touchstone.datasets.convert import convert


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the noise `toy` in every format, in several shards where there can be."""
    dataset = Dataset.model_validate(
        {
            **{"name": "toy", "title": "Toy", "licence": "CC0", "citation": "nobody"},
            **{"shape": [8, 8, 3], "classes": 3, "mean": [0.5] * 3, "std": [0.5] * 3},
            **{"splits": {"train": 30, "test": 9}, "shards": {"train": 3}},
            "decoder": {"name": "noise", "seed": 1},
        }
    )
    for name in formats.names():
        convert(dataset, tmp_path, name, tmp_path / "data/toy" / name)
    return tmp_path / "data"


def verify(folder: Path) -> tuple[int, list[str], list[str]]:
    """Exit status, lines on stdout, lines of the error."""
    result = call("verify", folder)
    return result.returncode, result.stdout.splitlines(), result.stderr.splitlines()


def test_good_data_sets_have_a_line_each(data: Path) -> None:
    lines = [f"toy {name}: ok" for name in formats.names()]
    assert verify(data) == (0, lines, [])
    assert verify(data / "toy") == (0, [f"{data / 'toy'}: no converted data set"], [])


def test_every_damaged_file_is_named(data: Path) -> None:
    toy = data / "toy"
    for name in ("tfrecord/train-00001-of-00003.tfrecord", "png/test/00000003.png"):
        content = bytearray((toy / name).read_bytes())
        content[-10] ^= 1
        (toy / name).write_bytes(content)
    (toy / "recordio/test.idx").unlink()
    (toy / "datum/train/data.mdb").write_bytes(b"short")
    (toy / "lmdb/manifest.json").write_text("{}")
    status, lines, errors = verify(data)
    assert status == 1
    assert lines == [f"toy {name}: 1 faults" for name in formats.names()]
    remedy = "; remove {} and run the study again"
    size = json.loads((toy / "datum/manifest.json").read_text())["splits"]["train"]["files"]
    assert errors == [
        f"error: {toy}/datum/train/data.mdb: 5 bytes, not {size[0]['bytes']}"
        + remedy.format(toy / "datum"),
        f"{toy}/lmdb/manifest.json: not a manifest of this version (KeyError('encoding'))"
        + remedy.format(toy / "lmdb"),
        f"{toy}/png/test/00000003.png: its SHA-256 is not the manifest's"
        + remedy.format(toy / "png"),
        f"{toy}/recordio/test.idx: the file is missing" + remedy.format(toy / "recordio"),
        f"{toy}/tfrecord/train-00001-of-00003.tfrecord: its SHA-256 is not the manifest's"
        + remedy.format(toy / "tfrecord"),
    ]


def test_records_are_counted_and_fingerprinted_again(data: Path) -> None:
    """Where files and hashes fit, but not what the manifest says of the examples."""
    path = data / "toy/lmdb/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["splits"]["train"] |= {"examples": 31, "fingerprint": "0" * 64}
    path.write_text(json.dumps(manifest))
    status, lines, errors = verify(data)
    assert status == 1 and "toy lmdb: 2 faults" in lines
    assert errors[0].startswith(f"error: {path}: train: examples is 30, not 31; remove")
    assert f"{path}: train: fingerprint is " in errors[1]


def test_formats_must_hold_the_same_examples(data: Path) -> None:
    folder = data / "toy/tfrecord"
    other = Dataset.model_validate(
        {
            **{"name": "toy", "title": "Toy", "licence": "CC0", "citation": "nobody"},
            **{"shape": [8, 8, 3], "classes": 3, "mean": [0.5] * 3, "std": [0.5] * 3},
            **{"splits": {"train": 30, "test": 9}, "decoder": {"name": "noise", "seed": 2}},
        }
    )
    convert(other, data, "tfrecord", folder)
    status, lines, errors = verify(data)
    assert status == 1 and "toy tfrecord: ok" in lines
    first = data / "toy/datum/manifest.json"
    for line, split in zip(errors, ("train", "test"), strict=True):
        assert f"tfrecord/manifest.json: its {split} examples are not those of {first}" in line
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["manifest.json", "test.tfrecord", "train.tfrecord"]
    read = formats.load("tfrecord").read(folder / "train", [8, 8, 3])
    assert np.stack([image for _, image in read]).shape == (30, 8, 8, 3)
