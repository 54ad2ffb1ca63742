"""Decoders of archives and IDX files: what they give, and what they refuse."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from fixtures import archives
from fixtures.commands import call
from fixtures.loopback_server import LoopbackServer
from fixtures.toy_dataset import ToyDataset
from touchstone.datasets import catalogue, formats, photos
from touchstone.paths import ROOT

SHARED = Path(os.environ.get("TOUCHSTONE_SHARED", ROOT.parent / "shared" / "datasets"))
FASHION = Path("/usr/share/datasets/fashion-mnist")


def cifar(folder: Path) -> ToyDataset:
    """Six random images in three members."""
    images = np.random.RandomState(1).randint(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    decoder = {"name": "cifar-binary", "archive": "c.tar.gz", "train": ["a", "b"], "test": ["t"]}
    toy = ToyDataset(folder, decoder)
    batches = {"b": ([1, 0], images[2:4]), "t": ([1, 1], images[4:]), "a": ([0, 1], images[:2])}
    archives.cifar(toy.source / "c.tar.gz", batches)
    toy.put_source("c.tar.gz")
    return toy


def test_cifar_is_read_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    toy = cifar(tmp_path)
    assert toy.convert().returncode == 0
    images = np.random.RandomState(1).randint(0, 256, (6, 32, 32, 3))
    read = toy.read("train") + toy.read("test")
    assert [label for label, _ in read] == [0, 1, 1, 0, 1, 1]
    np.testing.assert_array_equal([image for _, image in read], images)
    assert sorted(path.name for path in toy.source.iterdir()) == ["c.tar.gz"]


def test_all_formats_hold_the_same_examples(tmp_path: Path) -> None:
    toy = cifar(tmp_path)
    fingerprints = set()
    for name in formats.names():
        result = toy.convert(name)
        assert result.returncode == 0, result.stderr
        manifest = json.loads((toy.output / "manifest.json").read_text())
        fingerprints.add(tuple(entry["fingerprint"] for entry in manifest["splits"].values()))
    assert len(fingerprints) == 1
    result = call("verify", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    names = [path.name for path in sorted((tmp_path / "out").iterdir())]
    assert names == formats.names()


def special(kind: bytes, name: str = "x") -> Callable[[tarfile.TarFile], None]:
    """Adds a member that must be refused."""

    def change(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)

    return change


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (special(tarfile.SYMTYPE), "its member 'x' is a link or another special file"),
        (special(tarfile.LNKTYPE), "its member 'x' is a link or another special file"),
        (special(tarfile.FIFOTYPE), "its member 'x' is a link or another special file"),
        (special(tarfile.REGTYPE, "/x"), "its member '/x' leads out of the archive"),
        (special(tarfile.REGTYPE, "a/../../x"), "its member 'a/../../x' leads out"),
    ],
)
def test_an_unsafe_archive_is_refused(
    tmp_path: Path, change: Callable[[tarfile.TarFile], None], cause: str
) -> None:
    toy = cifar(tmp_path)
    with tarfile.open(toy.source / "c.tar.gz", "w:gz") as archive:
        change(archive)
    toy.put_source("c.tar.gz")
    (line,) = toy.refused()
    assert line.startswith(f"{toy.source}/c.tar.gz: {cause}") and line.endswith("original archive")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    toy = cifar(tmp_path)
    path = toy.source / "c.tar.gz"
    whole = path.read_bytes()
    for content in (whole[:-2000], b"no archive at all", b""):
        path.write_bytes(content)
        toy.entry["sources"][0] |= {"sha256": hashlib.sha256(content).hexdigest()}
        (line,) = toy.refused()
        assert line.startswith(f"{path}: damaged archive (") and line.endswith("set again")
    path.write_bytes(whole)
    toy.put_source("c.tar.gz")
    toy.entry["decoder"]["test"] = ["t", "u"]
    (line,) = toy.refused()
    assert line.startswith(f"{path}: it has no member u; correct the options")
    toy.entry["decoder"]["test"] = ["t"]
    toy.entry["shape"] = [31, 32, 3]
    (line,) = toy.refused()
    assert "a has 6146 bytes, no multiple of 2977; correct the shape" in line


@pytest.mark.parametrize(("label", "expected"), [("fine", [1, 0, 1]), ("coarse", [0, 1, 1])])
def test_cifar100_is_answered_with_the_option_that_reads_it(
    tmp_path: Path, label: str, expected: list[int]
) -> None:
    toy = cifar(tmp_path)
    images = np.random.RandomState(1).randint(0, 256, (3, 32, 32, 3)).astype(np.uint8)
    batches = {"a": ([(0, 1), (1, 0)], images[:2]), "t": ([(1, 1)], images[2:])}
    archives.cifar(toy.source / "c.tar.gz", batches)
    toy.put_source("c.tar.gz")
    toy.entry["decoder"] |= {"train": ["a"], "test": ["t"]}
    toy.entry["splits"] = {"train": 2, "test": 1}
    (line,) = toy.refused()
    assert "a has 6148 bytes, no multiple of 3073; its records have two labels" in line
    assert "write `label: fine` or `coarse` in the decoder of the catalogue of toy" in line
    toy.entry["decoder"]["label"] = label
    assert toy.convert().returncode == 0
    read = toy.read("train") + toy.read("test")
    assert [found for found, _ in read] == expected
    np.testing.assert_array_equal([image for _, image in read], images)


def test_cifar10_with_the_option_of_cifar100_is_answered(tmp_path: Path) -> None:
    toy = cifar(tmp_path)
    toy.entry["decoder"]["label"] = "fine"
    (line,) = toy.refused()
    assert "its records have one label, as in CIFAR-10: write `label: only`" in line
    toy.entry["decoder"]["label"] = "only"
    assert toy.convert().returncode == 0


@pytest.mark.parametrize("named", [True, False], ids=["its members", "the binary's members"])
def test_the_python_version_of_cifar_is_named_and_never_unpickled(
    tmp_path: Path, named: bool
) -> None:
    toy = cifar(tmp_path)
    batch = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}
    with tarfile.open(toy.source / "c.tar.gz", "w:gz") as archive:
        for name in ("cifar-10-batches-py/data_batch_1", "cifar-10-batches-py/test_batch"):
            archives.add(archive, name, pickle.dumps(batch, 2))
    toy.put_source("c.tar.gz")
    if named:
        members = {"train": ["cifar-10-batches-py/data_batch_1"]}
        toy.entry["decoder"] |= members | {"test": ["cifar-10-batches-py/test_batch"]}
    (line,) = toy.refused()
    assert "the Python version of CIFAR (cifar-10-batches-py/data_batch_1 is a pickle)" in line
    assert line.endswith(
        "use its binary version, cifar-10-binary.tar.gz or cifar-100-binary.tar.gz"
    )


def test_real_images_in_the_layout_of_cifar10(server: LoopbackServer, tmp_path: Path) -> None:
    """600 of the shared images, served over loopback, in six members as the original has."""
    path = SHARED / "cifar10" / "cifar-10-jpeg.tar.xz"
    if not path.is_file():
        pytest.skip(f"no file {path}; set TOUCHSTONE_SHARED")
    published = catalogue.load("cifar10")
    images, labels = [], []
    with tarfile.open(path, "r:xz") as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".jpg"):
                stream = archive.extractfile(member)
                assert stream
                images.append(photos.as_pixels(stream.read(), [32, 32, 3]))
                labels.append(published.classes.index(Path(member.name).parent.name))
            if len(images) == 600:
                break
    decoder = published.decoder.model_dump()
    members = [*decoder["train"], *decoder["test"]]
    splits = {"train": 500, "test": 100}
    toy = ToyDataset(tmp_path, decoder, classes=published.classes, splits=splits)
    batches = {
        name: (labels[100 * i : 100 * i + 100], np.stack(images[100 * i : 100 * i + 100]))
        for i, name in enumerate(members)
    }
    archives.cifar(toy.source / "cifar-10-binary.tar.gz", batches)
    content = (toy.source / "cifar-10-binary.tar.gz").read_bytes()
    server.add("/lab/toy/cifar-10-binary.tar.gz", content)
    toy.put_source("cifar-10-binary.tar.gz", f"{server.url}/gone")
    (toy.source / "cifar-10-binary.tar.gz").unlink()
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(toy.entry))
    options = ["--config-folder", tmp_path, "--output", toy.source, "--mirror", f"{server.url}/lab"]
    result = call("download", "toy", *options)
    assert result.returncode == 0, result.stderr
    assert toy.convert("recordio").returncode == 0
    read = toy.read("train") + toy.read("test")
    assert [label for label, _ in read] == labels
    np.testing.assert_array_equal([image for _, image in read], images)


def test_fashion_mnist_has_the_official_hashes(server: LoopbackServer, tmp_path: Path) -> None:
    """The Debian package's files with the header that their authors' gzip had written."""
    folder = Path(os.environ.get("TOUCHSTONE_FASHION_MNIST", FASHION))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; install the Debian package dataset-fashion-mnist")
    for path in folder.glob("*.gz"):
        time = 1504176606 if path.name.startswith("train") else 1504176627
        header = b"\x1f\x8b\x08\x08" + struct.pack("<I", time) + b"\0\x03"
        official = header + path.name.removesuffix(".gz").encode() + b"\0" + path.read_bytes()[10:]
        server.add(f"/{path.name}", official)
    options = ["--output", tmp_path / "source", "--mirror", server.url]
    result = call("download", "fashion-mnist", *options)
    assert result.returncode == 0, result.stderr
    for source in catalogue.load("fashion-mnist").sources:
        content = (tmp_path / "source" / source.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (source.size, source.sha256)
    options = ["--source", tmp_path / "source", "--format", "tfrecord", "--output", tmp_path / "o"]
    result = call("convert", "fashion-mnist", *options)
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "o/manifest.json").read_text())
    assert manifest["splits"]["train"]["histogram"] == [6000] * 10


@pytest.mark.parametrize("channels", [1, 3])
def test_mnist_is_resized_and_pooled(tmp_path: Path, channels: int) -> None:
    images = np.random.RandomState(2).randint(0, 256, (6, 4, 4)).astype(np.uint8)
    decoder: dict[str, Any] = {"name": "idx", "resize": 8, "pooled": True, "channels": channels}
    half = [0.5] * channels
    toy = ToyDataset(tmp_path, decoder, shape=[8, 8, channels], mean=half, std=half)
    toy.entry["splits"] = {"train": 3, "test": 2}
    toy.entry["sources"] = []
    parts = {"train": (images[:2], [0, 1]), "test": (images[2:], [1, 0, 1, 0])}
    sources = []
    for split, (pixels, labels) in parts.items():
        decoder[split] = {}
        for kind, array in (("images", pixels), ("labels", np.array(labels, np.uint8))):
            name = f"{split}-{kind}.gz"
            head = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
            (toy.source / name).write_bytes(gzip.compress(head + array.tobytes()))
            toy.put_source(name)
            sources += toy.entry["sources"]
            decoder[split][kind] = name
    toy.entry["sources"] = sources
    assert toy.convert().returncode == 0
    read = toy.read("train") + toy.read("test")
    assert [label for label, _ in read] == [0, 1, 1, 0, 1]
    for (_, pixels), original in zip(read, images[:5], strict=True):
        resized = Image.fromarray(original).resize((8, 8), Image.Resampling.BILINEAR)
        for channel in range(channels):
            np.testing.assert_array_equal(pixels[:, :, channel], np.asarray(resized))
