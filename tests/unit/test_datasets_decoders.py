"""Decoders of archives, folders and noise: what they give, and what they refuse."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from fixtures import archives
from fixtures.loopback_server import LoopbackServer
from touchstone.datasets import catalogue, formats, photos
from touchstone.paths import CLI, ROOT

SHARED = Path(os.environ.get("TOUCHSTONE_SHARED", ROOT.parent / "shared" / "datasets"))
FASHION = Path("/usr/share/datasets/fashion-mnist")


def run(main: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a main as the rules do."""
    command = [sys.executable, str(CLI), main, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


def lines_of(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of the error message of a main that failed without a traceback."""
    assert result.returncode == 1 and "Traceback" not in result.stderr
    lines = result.stderr.splitlines()
    (begin,) = [i for i, line in enumerate(lines) if line.startswith("error: ")]
    return [lines[begin].removeprefix("error: "), *lines[begin + 1 :]]


class Set:
    """A catalogue with one entry `toy`, its sources and its output."""

    def __init__(self, folder: Path, decoder: dict[str, Any], **keys: Any) -> None:
        self.folder, self.source, self.output = folder, folder / "source", folder / "out/lmdb"
        self.source.mkdir(exist_ok=True)
        self.entry = {
            "title": "Toy",
            "licence": "CC0",
            "citation": "nobody",
            "shape": [32, 32, 3],
            "classes": ["a", "b"],
            "mean": [0.5] * 3,
            "std": [0.5] * 3,
            "splits": {"train": 4, "test": 2},
            "decoder": decoder,
            **keys,
        }

    def put_source(self, name: str, url: str = "http://localhost/x") -> None:
        """Tell the catalogue of the file `name` in the source folder."""
        content = (self.source / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        source = {"name": name, "size": len(content), "sha256": digest, "urls": [url]}
        self.entry["sources"] = [source]

    def convert(self, record_format: str = "lmdb") -> subprocess.CompletedProcess[str]:
        """Run convert_dataset."""
        (self.folder / "toy.yaml").write_text(yaml.safe_dump(self.entry))
        self.output = self.folder / "out" / record_format
        options = ["--source", self.source, "--format", record_format, "--output", self.output]
        return run("convert", "toy", "--config-folder", self.folder, *options)

    def refused(self) -> list[str]:
        """The lines of the message of a conversion that leaves nothing behind."""
        lines = lines_of(self.convert())
        assert list(self.output.parent.rglob("*")) == []
        return lines

    def read(self, split: str) -> list[formats.Example]:
        """The converted examples."""
        shape = None if "photos" in self.entry else self.entry["shape"]
        return list(formats.load(self.output.name).read(self.output / split, shape))


# CIFAR-10


def cifar(folder: Path) -> Set:
    """Six random images in three members."""
    images = np.random.RandomState(1).randint(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    decoder = {"name": "cifar-binary", "archive": "c.tar.gz", "train": ["a", "b"], "test": ["t"]}
    toy = Set(folder, decoder)
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
    result = run("verify", tmp_path / "out")
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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    """A loopback server that no proxy stands before."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("TOUCHSTONE_MIRROR", raising=False)
    with LoopbackServer() as running:
        yield running


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
    toy = Set(tmp_path, decoder, classes=published.classes, splits=splits)
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
    result = run("download", "toy", *options)
    assert result.returncode == 0, result.stderr
    assert toy.convert("recordio").returncode == 0
    read = toy.read("train") + toy.read("test")
    assert [label for label, _ in read] == labels
    np.testing.assert_array_equal([image for _, image in read], images)


# Fashion-MNIST and resized MNIST


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
    result = run("download", "fashion-mnist", *options)
    assert result.returncode == 0, result.stderr
    for source in catalogue.load("fashion-mnist").sources:
        content = (tmp_path / "source" / source.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (source.size, source.sha256)
    options = ["--source", tmp_path / "source", "--format", "tfrecord", "--output", tmp_path / "o"]
    result = run("convert", "fashion-mnist", *options)
    assert result.returncode == 0, result.stderr
    manifest = json.loads((tmp_path / "o/manifest.json").read_text())
    assert manifest["splits"]["train"]["histogram"] == [6000] * 10


@pytest.mark.parametrize("channels", [1, 3])
def test_mnist_is_resized_and_pooled(tmp_path: Path, channels: int) -> None:
    images = np.random.RandomState(2).randint(0, 256, (6, 4, 4)).astype(np.uint8)
    decoder: dict[str, Any] = {"name": "idx", "resize": 8, "pooled": True, "channels": channels}
    half = [0.5] * channels
    toy = Set(tmp_path, decoder, shape=[8, 8, channels], mean=half, std=half)
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


# Noise


def test_noise_is_seeded_and_labels_are_in_range(tmp_path: Path) -> None:
    toy = Set(tmp_path, {"name": "noise", "seed": 7}, classes=3)
    toy.entry |= {"splits": {"train": 200, "test": 100}, "shape": [4, 5, 3]}
    assert toy.convert().returncode == 0
    train, test = toy.read("train"), toy.read("test")
    assert {label for label, _ in train} == {0, 1, 2}
    state = np.random.RandomState([7, 1, 3])
    label = int(state.randint(3))
    assert test[3][0] == label
    np.testing.assert_array_equal(test[3][1], state.randint(0, 256, [4, 5, 3], np.uint8))
    assert len({formats.content(image) for _, image in train + test}) == 300


# Texts of Markov chains


def markov(folder: Path, **keys: Any) -> Set:
    """Texts of three chains that take nothing but their favourites."""
    decoder = {"name": "markov-text", "seed": 7, "letters": 12, "favourites": 3, "share": 1.0}
    keys = {"classes": 3, "shape": [40, 1, 1], "mean": [0.0], "std": [1.0], **keys}
    toy = Set(folder, decoder, **keys)
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


# Image folders


def image_folder(folder: Path, count: int = 10) -> Path:
    """Two classes of `count` PNG and JPEG images of 12 x 9 pixels (width x height)."""
    root = folder / "images"
    for label, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for i in range(count):
            random = np.random.RandomState([label, i])
            pixels = random.randint(0, 256, (9, 12, 3)).astype(np.uint8)
            kind = ("PNG", "JPEG")[i % 2]
            (root / name / f"{i:02d}.{kind.lower()}").write_bytes(archives.encoded(pixels, kind))
    (root / "cat" / ".hidden").write_text("not counted")
    (root / "README").write_text("not a class")
    return root


def describe(root: Path, *options: object) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run describe_folder; the result and the file that it writes."""
    output = root.parent / "mine.yaml"
    return run("describe-folder", root, *options, "--output", output), output


def converted(folder: Path, record_format: str = "lmdb") -> dict[str, Any]:
    """Download and convert `mine`; its manifest."""
    options = ["--config-folder", folder, "--output"]
    result = run("download", "mine", *options, folder / "source")
    assert result.returncode == 0, result.stderr
    options = ["--config-folder", folder, "--source", folder / "source"]
    output = folder / "data" / record_format
    options += ["--format", record_format, "--output", output]
    result = run("convert", "mine", *options)
    assert result.returncode == 0, result.stderr
    manifest: dict[str, Any] = json.loads((output / "manifest.json").read_text())
    return manifest


def test_a_folder_is_described_and_converted(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    result, path = describe(root, "--test-share", 0.3)
    assert result.returncode == 0, result.stderr
    dataset = catalogue.load("mine", tmp_path)
    assert (dataset.shape, dataset.classes) == ([9, 12, 3], ["cat", "dog"])
    assert (dataset.splits.train, dataset.splits.test) == (14, 6)
    manifest = converted(tmp_path)
    assert manifest["splits"]["test"]["histogram"] == [3, 3]
    train = list(formats.load("lmdb").read(tmp_path / "data/lmdb/train", [9, 12, 3]))
    labels = [label for label, _ in train]
    assert sorted(labels) != labels
    pixels = np.stack([image for _, image in train]) / 255
    np.testing.assert_allclose(pixels.mean((0, 1, 2)), dataset.mean, atol=5.1e-5)
    np.testing.assert_allclose(pixels.std((0, 1, 2)), dataset.std, atol=5.1e-5)
    test = list(formats.load("lmdb").read(tmp_path / "data/lmdb/test", [9, 12, 3]))
    with Image.open(root / "cat/00.png") as image:
        original = np.asarray(image).tobytes()
    assert sum(formats.content(image) == original for _, image in train + test) == 1


def test_a_folder_that_has_changed_is_refused(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    (root / "cat/00.png").write_bytes((root / "dog/00.png").read_bytes())
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "lmdb"]
    result = run("convert", "mine", *options, "--output", tmp_path / "data/lmdb")
    (line,) = lines_of(result)
    assert " examples have the fingerprint " in line and line.endswith("or describe them anew")
    assert list((tmp_path / "data").iterdir()) == []


def test_images_are_scaled_and_cut_to_the_shape(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    (root / "dog" / "00.png").write_bytes(archives.photo(1, 60, 33))
    result, path = describe(root, "--test-share", 0.5)
    (line,) = lines_of(result)
    assert "its images have several sizes: " in line and "60 x 33" in line and "--shape" in line
    assert not path.exists()
    result, path = describe(root, "--test-share", 0.5, "--shape", 6, 6, 1)
    assert result.returncode == 0, result.stderr
    assert converted(tmp_path, "recordio")["shape"] == [6, 6, 1]


def test_photos_of_a_folder_keep_their_bytes_or_get_a_short_side(tmp_path: Path) -> None:
    root = tmp_path / "images"
    originals = []
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for i in range(4):
            originals.append(archives.photo(i + 10 * len(name) + len(originals), 40 + i, 30))
            (root / name / f"{i}.jpg").write_bytes(originals[-1])
    for i in range(4):
        (tmp_path / "test/cat").mkdir(parents=True, exist_ok=True)
        (tmp_path / "test/dog").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"test/{('cat', 'dog')[i % 2]}/{i}.jpg").write_bytes(archives.photo(90 + i))
    both = ["--photos", "--test-folder", tmp_path / "test", "--shape", 24, 24, 3]
    result, path = describe(root, *both)
    assert result.returncode == 0, result.stderr
    fingerprints = set()
    for name in ("lmdb", "recordio", "tfrecord", "datum"):
        fingerprints.add(converted(tmp_path, name)["splits"]["train"]["fingerprint"])
        read = list(formats.load(name).read(tmp_path / "data" / name / "train", None))
        assert sorted(formats.content(image) for _, image in read) == sorted(originals)
    assert len(fingerprints) == 1
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "png"]
    result = run("convert", "mine", *options, "--output", tmp_path / "data/png")
    (line,) = lines_of(result)
    assert line.endswith("png records hold no photos; use one of: datum, lmdb, recordio, tfrecord")
    path.unlink()
    result, path = describe(root, *both, "--short-side", 20, "--quality", 90)
    assert result.returncode == 0, result.stderr
    converted(tmp_path)
    for _, content in formats.load("lmdb").read(tmp_path / "data/lmdb/train", None):
        with Image.open(io.BytesIO(formats.content(content))) as image:
            assert image.format == "JPEG" and min(image.size) == 20


def test_every_fault_of_a_folder_is_named_at_once(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    (root / "empty").mkdir()
    (root / "dog" / "notes.txt").write_text("no image")
    (root / "dog" / "more").mkdir()
    expected = [
        f"{root}/dog/more: not a file; remove it from the folder of the class",
        f"{root}/dog/notes.txt: not an image; remove it from the folder of the class",
        f"{root}/empty: the class has no image; remove the folder or fill it",
    ]
    options = ["--config-folder", tmp_path]
    download = run("download", "mine", *options, "--output", tmp_path / "source")
    assert lines_of(download) == expected
    options += ["--source", tmp_path, "--format", "lmdb", "--output", tmp_path / "data/lmdb"]
    assert lines_of(run("convert", "mine", *options)) == expected
    assert list((tmp_path / "data").iterdir()) == []


def test_images_that_do_not_decode_are_named_at_once(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    assert describe(root, "--test-share", 0.3)[0].returncode == 0
    for name in ("cat/00.png", "dog/03.jpeg"):
        (root / name).write_bytes((root / name).read_bytes()[:150])
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "tfrecord"]
    result = run("convert", "mine", *options, "--output", tmp_path / "data/tfrecord")
    lines = sorted(lines_of(result))
    assert lines[0].startswith(f"{root}/cat/00.png: it does not decode (")
    assert lines[1].startswith(f"{root}/dog/03.jpeg: it does not decode (") and len(lines) == 2
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "cause"),
    [
        ("$TOUCHSTONE_NOT_SET/a", "the environment variable is not set; set it to the folder"),
        ("nowhere", "there is no such folder; correct its name in the catalogue"),
    ],
)
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, folder: str, cause: str) -> None:
    decoder = {"name": "image-folder", "folder": folder, "test_share": 0.5, "seed": 1}
    (line,) = Set(tmp_path, decoder).refused()
    assert line.startswith(f"{folder}: {cause}")


def test_describing_overwrites_nothing(tmp_path: Path) -> None:
    root = image_folder(tmp_path)
    (tmp_path / "mine.yaml").write_text("mine")
    result, path = describe(root, "--test-share", 0.5)
    assert lines_of(result) == [f"{path}: it is there already; remove it first"]
    assert path.read_text() == "mine"
