"""The record formats: round trips, and the bytes read independently of our own readers."""

from __future__ import annotations

import hashlib
import io
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import lmdb
import numpy as np
import pytest
from PIL import Image

from touchstone.datasets import formats
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.formats import Example, Pixels, recordio
from touchstone.datasets.manifest import Summary
from touchstone.paths import SCRIPTS

MAGIC = bytes.fromhex("0a23d7ce")
SHAPES = [[1, 1, 1], [28, 28, 1], [5, 7, 1], [3, 5, 3], [32, 32, 3], [4, 2, 3]]
every_format = pytest.mark.parametrize("name", formats.names())


def examples(count: int, shape: list[int], seed: int = 1) -> list[Example]:
    """Random images with labels up to 299, which need two bytes."""
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, [count, *shape], np.uint8)
    return list(zip(generator.integers(0, 300, count).tolist(), images, strict=True))


def assert_equal(left: list[Example], right: list[Example]) -> None:
    """The same labels and pixels in the same order."""
    assert [label for label, _ in left] == [label for label, _ in right]
    for (_, mine), (_, other) in zip(left, right, strict=True):
        assert mine.dtype == other.dtype == np.uint8
        np.testing.assert_array_equal(mine, other)


def test_the_formats_are_found_by_file_name() -> None:
    assert formats.names() == ["datum", "lmdb", "png", "recordio", "tfrecord"]
    with pytest.raises(DatasetError, match="hdf5: unknown record format; use one of: datum, "):
        formats.load("hdf5")


@every_format
@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip(tmp_path: Path, name: str, shape: list[int]) -> None:
    written = examples(7, shape)
    files = formats.load(name).write(tmp_path / "train", iter(written))
    assert sorted(files) == sorted(p for p in tmp_path.rglob("*") if p.is_file())
    assert_equal(list(formats.load(name).read(tmp_path / "train", shape)), written)


@pytest.mark.slow
@every_format
def test_the_same_examples_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    """Also over what is there already, and in another process with another hash seed."""
    count = 100 if name == "png" else 2500  # a file of PNG for each
    code = (
        "import sys, pathlib, numpy as np; from touchstone.datasets import formats; "
        f"images = np.random.default_rng(2).integers(0, 256, [{count}, 9, 11, 1], np.uint8); "
        "formats.load(sys.argv[1]).write(pathlib.Path(sys.argv[2]), "
        "((i % 7, image) for i, image in enumerate(images)))"
    )
    contents = []
    for folder, elsewhere in (("a", False), ("b", True), ("b", False)):
        (tmp_path / folder).mkdir(exist_ok=True)
        arguments = [name, str(tmp_path / folder / "train")]
        if elsewhere:
            seeded = {**os.environ, "PYTHONHASHSEED": "7"}
            command = [sys.executable, "-c", code, *arguments]
            subprocess.run(command, cwd=SCRIPTS, check=True, env=seeded)
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "argv", ["-c", *arguments])
                exec(code, {})
        paths = sorted(path for path in (tmp_path / folder).rglob("*") if path.is_file())
        contents.append([(path.name, path.read_bytes()) for path in paths])
    assert contents[0] == contents[1] == contents[2]


@every_format
def test_another_shape_is_refused(tmp_path: Path, name: str) -> None:
    formats.load(name).write(tmp_path / "train", examples(2, [4, 6, 1]))
    with pytest.raises(ValueError):
        list(formats.load(name).read(tmp_path / "train", [4, 6, 3]))


@pytest.mark.slow
@every_format
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_cut_file_is_refused(tmp_path: Path, name: str, quarters: int) -> None:
    """At a page's edge; in a process of its own, for a look beyond the end of a map kills it."""
    files = formats.load(name).write(tmp_path / "train", examples(400, [28, 28, 1]))
    path = next(f for f in files if f.suffix in (".lmdb", ".mdb", ".png", ".rec", ".tfrecord"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size * quarters // 4 // 4096 * 4096)
    code = (
        "import sys, pathlib; from touchstone.datasets import formats\n"
        "try: list(formats.load(sys.argv[1]).read(pathlib.Path(sys.argv[2]), [28, 28, 1]))\n"
        "except formats.DAMAGED: print('refused')"
    )
    command = [sys.executable, "-c", code, name, str(tmp_path / "train")]
    result = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True, check=True)
    assert result.stdout == "refused\n"


def test_fingerprints_agree_over_formats_and_orders(tmp_path: Path) -> None:
    written = examples(50, [5, 7, 3])
    fingerprints = set()
    for name in formats.names():
        random.Random(name).shuffle(written)
        formats.load(name).write(tmp_path / "train", written)
        summary = Summary(300)
        for label, pixels in formats.load(name).read(tmp_path / "train", [5, 7, 3]):
            summary.add(label, pixels)
        assert summary.examples == 50
        fingerprints.add(summary.fingerprint)
    assert len(fingerprints) == 1


@pytest.mark.parametrize("name", [n for n in formats.names() if formats.load(n).PHOTOS])
def test_photos_are_kept_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Of every length, and with RecordIO's magic number in them."""
    contents = [random.Random(i).randbytes(i) for i in (1, 4, 100, 3000, 70000)]
    contents.append(MAGIC * 2 + b"x" + MAGIC)
    written = list(zip([0, 299, 1, 2, 127, 128], contents, strict=True))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files = formats.load(name).write(tmp_path / folder / "train", iter(written))
    assert list(formats.load(name).read(tmp_path / "a" / "train", None)) == written
    for path in files:
        twin = tmp_path / "a" / path.relative_to(tmp_path / "b")
        assert twin.read_bytes() == path.read_bytes()
    summary = Summary(300)
    for label, content in written:
        summary.add(label, content)
    total = sum(
        int.from_bytes(hashlib.sha256(struct.pack("<4I", label, 0, 0, 0) + content).digest())
        for label, content in written
    )
    assert summary.fingerprint == f"{total % 2**256:064x}"


@every_format
@pytest.mark.parametrize("shape", [[28, 28, 1], [32, 32, 3], [64, 64, 1], [23, 29, 3]])
def test_a_record_takes_no_more_than_its_format_says(
    tmp_path: Path, name: str, shape: list[int]
) -> None:
    files = formats.load(name).write(tmp_path / "train", examples(500, shape))
    blocks = 4096 if name == "png" else 1
    total = sum(-(-file.stat().st_size // blocks) * blocks for file in files)
    bound = 500 * formats.load(name).record_size(shape[0] * shape[1] * shape[2])
    assert total - 65536 <= bound <= 3 * total


def test_datum_bytes(tmp_path: Path) -> None:
    """Spelled out by hand after caffe.proto: planes of blue, green, red; label 300."""
    image = np.array([[[1, 2, 3], [4, 5, 6]]], np.uint8)
    jpeg = b"\xff\xd8\xff\xd9"
    formats.load("datum").write(tmp_path / "train", [(300, image)])
    formats.load("datum").write(tmp_path / "test", [(7, jpeg)])
    expected = {
        "train": b"\x08\x03\x10\x01\x18\x02"
        + b"\x22\x06\x03\x06\x02\x05\x01\x04"
        + b"\x28\xac\x02",
        "test": b"\x22\x04" + jpeg + b"\x28\x07" + b"\x38\x01",
    }
    for split, value in expected.items():
        with (
            lmdb.open(str(tmp_path / split), lock=False, readonly=True) as environment,
            environment.begin() as transaction,
        ):
            assert list(transaction.cursor()) == [(b"00000000", value)]


def test_png_files_have_a_map_and_the_training_split_a_mean(tmp_path: Path) -> None:
    images = np.array([[[[1, 2, 3], [4, 5, 6]]], [[[3, 2, 1], [4, 5, 9]]]], np.uint8)
    png = formats.load("png")
    for split in ("train", "test"):
        png.write(tmp_path / split, list(zip([5, 299], images, strict=True)))
        lines = (tmp_path / f"{split}.map").read_text()
        assert lines == f".../{split}/00000000.png\t5\n.../{split}/00000001.png\t299\n"
        with Image.open(tmp_path / split / "00000001.png") as image:
            assert image.mode == "RGB" and image.tobytes() == images[1].tobytes()
    root = ElementTree.parse(tmp_path / "mean.xml").getroot()
    assert [root.findtext(key) for key in ("Channel", "Row", "Col")] == ["3", "1", "2"]
    mean = root.find("MeanImg")
    assert mean is not None and [mean.findtext(key) for key in ("rows", "cols")] == ["1", "6"]
    values = [float(value) for value in (mean.findtext("data") or "").split()]
    assert values == [2, 2, 2, 7.5, 5, 4]  # blue, green, red of each pixel


def test_fingerprint_of_known_examples() -> None:
    """The digests are those of sha256sum over the bytes that printf wrote."""
    first = 0x4D9FB19A32B50CFEB7CAB24A28C6387D5C9372854229B2045B98593D62214730
    second = 0xD0E8D19C44FE171747DBB5B4FBB1077E6D896FE049F6CE97847A4E0FD4995D14
    summary = Summary(2)
    summary.add(1, np.array([[[7], [8]]], np.uint8))
    assert summary.fingerprint == f"{first:064x}"
    summary.add(0, np.array([[[255, 0, 7]]], np.uint8))
    assert summary.fingerprint == f"{first + second - 2**256:064x}"
    assert summary.histogram == [1, 1]


@pytest.mark.parametrize(
    "change", [lambda image: image.T, lambda image: image ^ 1, lambda image: image[::-1]]
)
def test_the_fingerprint_tells_images_apart(change: Callable[[Pixels], Pixels]) -> None:
    summaries = [Summary(1), Summary(1)]
    image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    summaries[0].add(0, image)
    summaries[1].add(0, change(image))
    assert summaries[0].fingerprint != summaries[1].fingerprint


def test_lmdb_holds_label_and_pixels_under_8_digits(tmp_path: Path) -> None:
    written = examples(1001, [3, 2, 1])
    formats.load("lmdb").write(tmp_path / "train", written)
    with (
        lmdb.open(str(tmp_path / "train.lmdb"), subdir=False, lock=False, readonly=True) as data,
        data.begin() as transaction,
    ):
        assert transaction.stat()["entries"] == 1001
        label, image = written[1000]
        assert transaction.get(b"00001000") == label.to_bytes(4, "little") + image.tobytes()


def test_lmdb_outgrows_its_first_map_and_stays_dense(tmp_path: Path) -> None:
    written = examples(70, [1024, 1024, 1])
    (path,) = formats.load("lmdb").write(tmp_path / "train", written)
    read = list(formats.load("lmdb").read(tmp_path / "train", [1024, 1024, 1]))
    assert_equal(read, written)
    status = path.stat()
    assert 70 << 20 < status.st_size < 72 << 20
    assert status.st_blocks * 512 > 70 << 20


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit (RFC 3720, appendix B.4: 32 zero bytes give 0x8A9136AA)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_tfrecord_bytes(tmp_path: Path) -> None:
    """The message spelled out by hand after feature.proto, label 300 as a two-byte number."""
    image = np.array([[[1], [2], [3]]], np.uint8)
    (path,) = formats.load("tfrecord").write(tmp_path / "train", [(300, image)])
    features = (
        b"\x0a\x10" + b"\x0a\x05image" + b"\x12\x07" + b"\x0a\x05" + b"\x0a\x03\x01\x02\x03"
        b"\x0a\x0f" + b"\x0a\x05label" + b"\x12\x06" + b"\x1a\x04" + b"\x0a\x02\xac\x02"
    )
    message = b"\x0a" + bytes([len(features)]) + features
    length = len(message).to_bytes(8, "little")

    def masked(data: bytes) -> bytes:
        crc = crc32c(data)
        rotated = ((crc >> 15) | (crc << 17)) & 0xFFFFFFFF
        return struct.pack("<I", (rotated + 0xA282EAD8) % 2**32)

    assert crc32c(bytes(32)) == 0x8A9136AA
    assert path.read_bytes() == length + masked(length) + message + masked(message)


@pytest.mark.parametrize("position", [0, 9, 20, -1])
def test_tfrecord_checksums_are_checked(tmp_path: Path, position: int) -> None:
    (path,) = formats.load("tfrecord").write(tmp_path / "train", examples(1, [4, 4, 1]))
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="wrong checksum"):
        list(formats.load("tfrecord").read(tmp_path / "train", [4, 4, 1]))


@pytest.mark.parametrize("shape", SHAPES)
def test_pillow_reads_our_bmp(shape: list[int]) -> None:
    for _, pixels in examples(3, shape):
        image = Image.open(io.BytesIO(recordio.encode_bmp(pixels)))
        assert (image.format, image.mode) == ("BMP", "L" if shape[2] == 1 else "RGB")
        np.testing.assert_array_equal(np.asarray(image).reshape(shape), pixels)


def test_recordio_bytes(tmp_path: Path) -> None:
    image = np.array([[[1, 2, 3]], [[4, 5, 6]]], np.uint8)
    formats.load("recordio").write(tmp_path / "train", [(9, image), (5, image)])
    bmp = (
        b"BM" + struct.pack("<IHHI", 14 + 40 + 8, 0, 0, 14 + 40)
        + struct.pack("<IiiHHIIiiII", 40, 1, 2, 1, 24, 0, 8, 0, 0, 0, 0)
        + bytes([6, 5, 4, 0, 3, 2, 1, 0])
    )  # fmt: skip
    length = 24 + len(bmp)
    expected = b"".join(
        MAGIC + struct.pack("<I", length) + struct.pack("<IfQQ", 0, label, index, 0) + bmp + b"\0\0"
        for index, label in enumerate([9, 5])
    )
    assert length % 4 == 2
    assert (tmp_path / "train.rec").read_bytes() == expected
    assert (tmp_path / "train.idx").read_text() == f"0\t0\n1\t{len(expected) // 2}\n"


def parts(content: bytes) -> list[tuple[int, bytes]]:
    """Flag and payload of each part of a RecordIO file, after dmlc's recordio.h."""
    found = []
    while content:
        magic, word = struct.unpack("<II", content[:8])
        assert magic == 0xCED7230A
        flag, length = word >> 29, word & 0x1FFFFFFF
        padded = (length + 3) // 4 * 4
        assert content[8 + length : 8 + padded] == bytes(padded - length)
        found.append((flag, content[8 : 8 + length]))
        content = content[8 + padded :]
    return found


@pytest.mark.parametrize(
    ("places", "flags"),
    [
        ([], [0]),
        ([102], [1, 3]),
        ([100], [0]),
        ([102, 106], [1, 2, 3]),
        ([97, 102, 107, 202, 2042], [1, 2, 2, 3]),
    ],
)
def test_recordio_splits_at_an_aligned_magic_number(
    tmp_path: Path, places: list[int], flags: list[int]
) -> None:
    """`places`: offsets of magic numbers in the pixels as BMP stores them.

    Before the pixels stand 24 + 14 + 40 + 1024 bytes, 2 modulo 4.
    """
    stored = np.zeros(32 * 64, np.uint8)
    for place in places:
        stored[place : place + 4] = np.frombuffer(MAGIC, np.uint8)
    image = stored.reshape(32, 64, 1)[::-1]
    formats.load("recordio").write(tmp_path / "train", [(1, image), (2, image)])
    found = parts((tmp_path / "train.rec").read_bytes())
    assert [flag for flag, _ in found] == flags * 2
    assert all(part[i : i + 4] != MAGIC for _, part in found for i in range(0, len(part), 4))
    read = list(formats.load("recordio").read(tmp_path / "train", [32, 64, 1]))
    assert_equal(read, [(1, image), (2, image)])
