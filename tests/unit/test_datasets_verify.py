"""`verify`: a line for every data set and format, every damaged file by name, and its repair."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from fixtures.commands import call
from touchstone.datasets import formats, manifest_file
from touchstone.datasets.catalogue import Dataset
from touchstone.datasets.convert import convert
from touchstone.datasets.errors import repair
from touchstone.paths import snakemake


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
    remedy = f"; {repair()}"
    size = json.loads((toy / "datum/manifest.json").read_text())["splits"]["train"]["files"]
    assert errors == [
        f"error: {toy}/datum/train/data.mdb: 5 bytes, not {size[0]['bytes']}" + remedy,
        f"{toy}/lmdb/manifest.json: not a manifest of this version (format: Field required)"
        + remedy,
        f"{toy}/png/test/00000003.png: its SHA-256 is not the manifest's" + remedy,
        f"{toy}/recordio/test.idx: the file is missing" + remedy,
        f"{toy}/tfrecord/train-00001-of-00003.tfrecord: its SHA-256 is not the manifest's" + remedy,
    ]


def test_records_are_counted_and_fingerprinted_again(data: Path) -> None:
    """Where files and hashes fit, but not what the manifest says of the examples."""
    path = data / "toy/lmdb/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["splits"]["train"] |= {"examples": 31, "fingerprint": "0" * 64}
    manifest["digest"] = manifest_file.digest_of(manifest)
    path.write_text(json.dumps(manifest))
    status, lines, errors = verify(data)
    assert status == 1 and "toy lmdb: 2 faults" in lines
    assert errors[0].startswith(f"error: {path}: train: examples is 30, not 31; `make verify")
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
    assert status == 1 and "toy tfrecord: 4 faults" in lines
    first = data / "toy/datum/manifest.json"
    assert len(errors) == 4
    for lines, split in zip((errors[:2], errors[2:]), ("train", "test"), strict=True):
        second = folder / "manifest.json"
        for line, one, another in zip(lines, (second, first), (first, second), strict=True):
            assert f"{one}: its {split} examples are not those of {another}" in line
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["manifest.json", "test.tfrecord", "train.tfrecord"]
    read = formats.load("tfrecord").read(folder / "train", [8, 8, 3])
    assert np.stack([image for _, image in read]).shape == (30, 8, 8, 3)


@pytest.fixture
def downloads(data: Path) -> Path:
    """The downloads of the data set `fetched`, which is in a catalogue of its own."""
    folder = data.parent / "downloads"
    (folder / "fetched").mkdir(parents=True)
    (folder / "fetched.done").touch()
    sources = []
    for name in ("one.gz", "two.gz"):
        (folder / "fetched" / name).write_bytes(name.encode())
        digest = hashlib.sha256(name.encode()).hexdigest()
        urls = [f"http://localhost/{name}"]
        sources.append({"name": name, "size": len(name), "sha256": digest, "urls": urls})
    decoder = {"name": "noise", "seed": 1}
    entry = {
        **{"title": "Toy", "licence": "CC0", "citation": "nobody", "decoder": decoder},
        **{"shape": [8, 8, 3], "classes": 3, "mean": [0.5] * 3, "std": [0.5] * 3},
        **{"splits": {"train": 30, "test": 9}, "sources": sources},
    }
    (data.parent / "fetched.yaml").write_text(yaml.safe_dump(entry))
    return folder


def test_downloads_are_verified_too(data: Path, downloads: Path) -> None:
    def verified() -> tuple[int, str, list[str]]:
        result = call("verify", data, "--config-folder", data.parent)
        return result.returncode, result.stdout.splitlines()[0], result.stderr.splitlines()

    assert verified() == (0, "fetched downloads: ok", [])
    (downloads / "fetched/one.gz").write_bytes(b"one_gz")
    (downloads / "fetched/two.gz").unlink()
    status, line, (first, second) = verified()
    assert (status, line) == (1, "fetched downloads: 2 faults")
    assert first.startswith(f"error: {downloads}/fetched/one.gz: 6 bytes with SHA-256 ")
    assert first.endswith(repair())
    assert second == f"{downloads}/fetched/two.gz: the file is missing; {repair()}"
    (data.parent / "fetched.yaml").unlink()  # nothing says any more what is right
    assert verified()[1] == "toy datum: ok"


def test_a_repair_deletes_what_is_damaged_and_nothing_else(
    data: Path, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(data.parent))  # no run of this machine counts
    everything = {path for path in data.parent.rglob("*") if path.is_file()}
    (downloads / "fetched/one.gz").write_bytes(b"one_gz")
    for name in ("tfrecord/test.tfrecord", "png/train.map"):
        (data / "toy" / name).write_bytes(b"short")
    (data / "toy/recordio/manifest.json").write_text("{")
    (data / "toy/datum/test/data.mdb").unlink()
    folder = ["--config-folder", data.parent]
    done = call("verify", data, *folder, "--repair")
    assert (done.returncode, done.stderr) == (0, "")
    names = [
        *("downloads/fetched/one.gz", "downloads/fetched.done"),
        *("data/toy/datum/test/data.mdb", "data/toy/datum/manifest.json"),
        *("data/toy/png/train.map", "data/toy/png/manifest.json"),
        "data/toy/recordio/manifest.json",
        *("data/toy/tfrecord/test.tfrecord", "data/toy/tfrecord/manifest.json"),
    ]
    gone = everything - {path for path in data.parent.rglob("*") if path.is_file()}
    assert gone == {data.parent / name for name in names}
    said = [line for line in done.stdout.splitlines() if line.startswith("deleted ")]
    assert len(said) == len(names) - 1  # one was gone before
    assert f"deleted {data}/toy/png/train.map: 5 bytes, not " in done.stdout
    wanted = sorted(name for name in names if name.endswith((".done", "manifest.json")))
    command = " ".join(
        [f"{snakemake()} --cores all", *(str(data.parent / name) for name in wanted)]
    )
    assert f"keep all finished runs, type: {command}\n" in done.stdout
    done = call("verify", data, *folder)
    assert (done.returncode, done.stdout) == (0, "toy lmdb: ok\n")
    assert call("verify", data, *folder, "--repair").stdout == "toy lmdb: ok\n"
