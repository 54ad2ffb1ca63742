"""ILSVRC2012 in its original layout: index, labels, repairs, shards, resuming, disk space."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from fixtures import archives
from fixtures.commands import Done, call, command_line, largest_file
from touchstone.datasets import formats, photos
from touchstone.paths import ROOT

SHARED = Path(os.environ.get("TOUCHSTONE_SHARED", ROOT.parent / "shared" / "datasets"))
WNIDS = ["n01440764", "n02084071", "n03000134"]
VARIABLE = "TOUCHSTONE_TRIAL"


class Trial:
    """A catalogue entry `trial` for archives in a folder that an environment variable names."""

    def __init__(self, folder: Path, train: int, test: int, wnids: list[str]) -> None:
        self.folder, self.placed = folder, folder / "placed"
        self.entry: dict[str, Any] = {
            "title": "Trial",
            "licence": "CC0",
            "citation": "nobody",
            "shape": [24, 24, 3],
            "classes": wnids,
            "mean": [0.5] * 3,
            "std": [0.5] * 3,
            "splits": {"train": train, "test": test},
            "photos": {},
            "shards": {"train": 5, "test": 2},
            "decoder": {
                "name": "ilsvrc2012",
                "folder": f"${VARIABLE}",
                "train": {"file": "ILSVRC2012_img_train.tar"},
                "validation": {"file": "ILSVRC2012_img_val.tar"},
                "devkit": {"file": "ILSVRC2012_devkit_t12.tar.gz"},
                "seed": 3,
            },
        }

    def command(self, main: str, *options: object) -> list[str]:
        """A command for this data set, with its arguments."""
        (self.folder / "trial.yaml").write_text(yaml.safe_dump(self.entry))
        return [main, "trial", "--config-folder", str(self.folder), *map(str, options)]

    def conversion(self, record_format: str = "lmdb", processes: int = 1) -> list[str]:
        """The command that converts it."""
        options = ["--source", self.folder, "--format", record_format, "--processes", processes]
        output = self.folder / "data" / record_format
        return self.command("convert", *options, "--output", output)

    def run(self, command: list[str]) -> Done:
        """Call it with the environment variable set."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, str(self.placed))
            return call(*command)

    def convert(self, record_format: str = "lmdb", processes: int = 1) -> dict[str, Any]:
        """Convert; returns the manifest's splits."""
        result = self.run(self.conversion(record_format, processes))
        assert result.returncode == 0, result.stderr
        path = self.folder / "data" / record_format / "manifest.json"
        splits: dict[str, Any] = json.loads(path.read_text())["splits"]
        return splits

    def read(self, record_format: str, split: str) -> list[formats.Example]:
        """The converted examples, shard after shard."""
        folder = self.folder / "data" / record_format
        manifest = json.loads((folder / "manifest.json").read_text())
        from touchstone.datasets.catalogue import shard_names

        return [
            example
            for name in shard_names(split, manifest["shards"][split])
            for example in formats.load(record_format).read(folder / name, None)
        ]

    def message(self, processes: int = 1, limit: int | None = None) -> list[str]:
        """The lines of the error of a conversion, which must leave no final file.

        `limit`: bytes that a file may have.
        """
        with largest_file(limit) if limit else contextlib.nullcontext():
            result = self.run(self.conversion(processes=processes))
        assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
        assert not list(self.folder.glob("data/*/manifest.json"))
        lines = result.stderr.splitlines()
        (begin,) = [i for i, line in enumerate(lines) if line.startswith("error: ")]
        return [lines[begin].removeprefix("error: "), *lines[begin + 1 :]]


def toy(folder: Path, each: int = 7, tests: int = 6) -> Trial:
    """`each` photos of three classes, `tests` for validation."""
    train = {
        wnid: [archives.photo(100 * k + i, 30 + i, 28) for i in range(each)]
        for k, wnid in enumerate(WNIDS)
    }
    validation = [(WNIDS[i % 3], archives.photo(900 + i)) for i in range(tests)]
    trial = Trial(folder, 3 * each, tests, WNIDS)
    archives.ilsvrc(trial.placed, train, validation)
    return trial


def label_of_photo(each: int, tests: int) -> dict[bytes, int]:
    """The right label of each photo of `toy`."""
    labels = {archives.photo(100 * k + i, 30 + i, 28): k for k in range(3) for i in range(each)}
    return labels | {archives.photo(900 + i): i % 3 for i in range(tests)}


def test_photos_get_the_labels_of_the_sorted_wordnet_ids(tmp_path: Path) -> None:
    trial, right = toy(tmp_path), label_of_photo(7, 6)
    splits = trial.convert()
    assert splits["train"]["histogram"] == [7, 7, 7] and splits["test"]["histogram"] == [2, 2, 2]
    train, test = trial.read("lmdb", "train"), trial.read("lmdb", "test")
    assert {formats.content(image): label for label, image in train + test} == right
    labels = [label for label, _ in train]
    assert labels != sorted(labels)
    sizes = [len(list(formats.load("lmdb").read(path.with_suffix(""), None)))
             for path in sorted((tmp_path / "data/lmdb").glob("train-*.lmdb"))]  # fmt: skip
    assert sizes == [4, 4, 4, 4, 5]


def test_processes_and_formats_do_not_change_the_examples(tmp_path: Path) -> None:
    trial = toy(tmp_path)
    splits = {name: trial.convert(name, 2) for name in ("lmdb", "recordio", "tfrecord", "datum")}
    orders = {tuple(map(repr, trial.read(name, "train"))) for name in splits}
    assert len(orders) == 1
    assert len({split["train"]["fingerprint"] for split in splits.values()}) == 1
    assert len(splits["recordio"]["train"]["files"]) == 10
    assert [file["name"] for file in splits["datum"]["train"]["files"]] == ["train/data.mdb"]
    trial.convert("lmdb", 1)
    assert trial.convert("lmdb", 3) == splits["lmdb"]


def test_odd_photos_are_repaired(tmp_path: Path) -> None:
    """As the 22 CMYK files and the PNG file of the original; a good file keeps its bytes."""
    with Image.open(io.BytesIO(archives.photo(5))) as image:
        image.load()
    cmyk, png = archives.encoded(image.convert("CMYK")), archives.encoded(image, "PNG")
    grey, good = archives.encoded(image.convert("L")), archives.photo(5)
    tail = good + b"\0\0trailing"
    for content in (grey, good, tail):
        assert photos.as_jpeg(content, None, None) == content
    for content in (cmyk, png):
        repaired = photos.as_jpeg(content, None, 95)
        assert photos.as_jpeg(repaired, None, None) == repaired
        with Image.open(io.BytesIO(repaired)) as restored:
            assert (restored.format, restored.mode, restored.size) == ("JPEG", "RGB", image.size)
            difference = np.abs(np.asarray(restored, int) - np.asarray(image, int))
        assert difference.mean() < 4
    small = photos.as_jpeg(good, 20, 90)
    with Image.open(io.BytesIO(small)) as scaled:
        assert scaled.size == (24, 20)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff\xd9", b"<html>", archives.photo(1)[:300]])
def test_what_does_not_decode_is_refused(content: bytes) -> None:
    for short_side in (None, 20):
        with pytest.raises(ValueError, match="it does not decode"):
            photos.as_jpeg(content, short_side, None)


@pytest.mark.parametrize("processes", [1, 2])
def test_photos_that_do_not_decode_are_named_at_once(tmp_path: Path, processes: int) -> None:
    trial = toy(tmp_path)
    train = {wnid: [archives.photo(k)] * 7 for k, wnid in enumerate(WNIDS)}
    train[WNIDS[1]][3] = b"no image"
    train[WNIDS[2]][0] = archives.photo(3)[:200]
    archives.ilsvrc(trial.placed, train, [(WNIDS[0], archives.photo(i)) for i in range(6)])
    first, second = sorted(trial.message(processes))
    path = trial.placed / "ILSVRC2012_img_train.tar"
    assert first == f"{path}: {WNIDS[1]}_3.JPEG: it does not decode (not an image); get it again " \
        "from image-net.org"  # fmt: skip
    assert second.startswith(f"{path}: {WNIDS[2]}_0.JPEG: it does not decode (")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_full_disk_leaves_no_final_file(tmp_path: Path, processes: int) -> None:
    """A limit on the size of a file stands for the disk."""
    trial = toy(tmp_path, each=30)
    (line,) = trial.message(processes, limit=20_000)
    assert line.startswith(f"{tmp_path}/data/") and "; check the space, the limits" in line
    trial.convert("lmdb", processes)


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    trial = toy(tmp_path)
    path = trial.placed / "ILSVRC2012_img_train.tar"
    whole = path.read_bytes()
    path.write_bytes(whole[:9000])
    (line,) = trial.message()
    assert line.startswith(f"{path}: truncated: n03000134.tar ends at byte ")
    path.write_bytes(b"x" + whole[1:])
    (line,) = trial.message()
    assert line == f"{path}: damaged or truncated: no tar header at byte 0; get it again"
    path.write_bytes(whole[:-10240])
    assert "truncated" in trial.message()[0]
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("n01440764.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "is a link or another special file, which is refused" in trial.message()[0]
    path.unlink()
    assert trial.message() == [f"{path}: the file is missing; place it there"]


def test_classes_and_labels_must_fit(tmp_path: Path) -> None:
    trial = toy(tmp_path)
    trial.entry["classes"] = WNIDS[:2]
    (line,) = trial.message()
    assert "its 3 classes are not the 2 of the catalogue; correct classes" in line
    trial.entry["classes"] = WNIDS
    trial.entry["splits"]["test"] = 5
    (line,) = trial.message()
    assert line.endswith("6 test examples, not 5; correct splits in the catalogue of trial")
    trial.entry["splits"]["test"] = 6
    devkit = trial.placed / "ILSVRC2012_devkit_t12.tar.gz"
    good = devkit.read_bytes()
    with tarfile.open(devkit, "w:gz") as archive:
        name = "d/ILSVRC2012_validation_ground_truth.txt"
        archives.add(archive, name, b"1\n" * 6)
        archives.add(archive, "d/meta.mat", archives.meta_mat(["n00000001"]))
    (line,) = trial.message()
    assert line.startswith(f"{devkit}: labels outside the classes: n00000001; correct classes")
    devkit.write_bytes(good[:200])
    (line,) = trial.message()
    assert line.startswith(f"{devkit}: damaged, or not the devkit (")
    for content in (b"", b"x" * 200, archives.meta_mat(WNIDS)[:-30]):
        with tarfile.open(devkit, "w:gz") as archive:
            archives.add(archive, name, b"1\n" * 6)
            archives.add(archive, "d/meta.mat", content)
        (line,) = trial.message()
        assert line.startswith(f"{devkit}: damaged, or not the devkit (")


def test_placed_files_are_checked_by_size_and_md5(tmp_path: Path) -> None:
    trial = toy(tmp_path)
    command = trial.command("download", "--output", tmp_path / "source")
    assert trial.run(command).returncode == 0
    trial.entry["decoder"]["train"]["size"] = 5
    trial.entry["decoder"]["validation"]["md5"] = "0" * 32
    (trial.placed / "ILSVRC2012_devkit_t12.tar.gz").unlink()
    command = trial.command("download", "--output", tmp_path / "source")
    result = trial.run(command)
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if "MD5 of" not in line]
    causes = [": 71680 bytes, not 5; get it again", ": MD5 ", ": the file is missing; place it"]
    for line, cause in zip(lines, causes, strict=True):
        assert cause in line


@pytest.mark.slow
def test_a_killed_conversion_goes_on_with_the_missing_shards(tmp_path: Path) -> None:
    trial = toy(tmp_path, each=100)
    trial.entry["photos"] = {"short_side": 200}
    trial.entry["shards"] = {"train": 25, "test": 1}
    work = tmp_path / "data/.lmdb.part"
    variables = {**os.environ, VARIABLE: str(trial.placed)}
    command = trial.conversion()
    started = command_line(*command)
    with subprocess.Popen(started, env=variables, stderr=subprocess.DEVNULL) as process:
        while len(list(work.glob("train-*.shard"))) < 5:
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "data/lmdb").exists()
    marks = {path: path.stat().st_mtime_ns for path in work.glob("train-*.shard")}
    assert 5 <= len(marks) < 25
    damaged, *kept = sorted(marks)
    damaged.with_suffix(".lmdb").write_bytes(b"damaged")
    result = trial.run(command)
    assert result.returncode == 0, result.stderr
    assert f"{25 + 1 - len(kept)} of {25 + 1 - len(kept)} shards" in result.stderr
    assert "of it written before" in result.stderr
    files = json.loads((tmp_path / "data/lmdb/manifest.json").read_text())["splits"]
    assert not work.exists()
    assert trial.convert("lmdb", 2) == files


def test_too_little_space_is_refused_before_work_starts(tmp_path: Path) -> None:
    trial = toy(tmp_path)
    noise = {"name": "noise", "seed": 1}
    trial.entry |= {
        "decoder": noise,
        "splits": {"train": 4 * 10**9, "test": 1},
        "shape": [32, 32, 3],
    }
    del trial.entry["photos"]
    (line,) = trial.message()
    assert " GB are needed, " in line and line.endswith("results folder on another one")
    assert list((tmp_path / "data").iterdir()) == []
    result = trial.run(trial.conversion())
    assert ": needs about 16896.000 GB; " in result.stderr.splitlines()[0]


def test_real_photos_in_the_original_layout(tmp_path: Path) -> None:
    path = SHARED / "imagenet-sample" / "imagenet-sample-images.tar"
    if not path.is_file():
        pytest.skip(f"no file {path}; set TOUCHSTONE_SHARED")
    by_wnid = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name.endswith(".JPEG") and len(by_wnid) < 60:
                stream = archive.extractfile(member)
                assert stream
                by_wnid[Path(member.name).name.split("_")[0]] = stream.read()
    wnids = sorted(by_wnid)
    trial = Trial(tmp_path, len(wnids), len(wnids), wnids)
    archives.ilsvrc(trial.placed, {wnid: [by_wnid[wnid]] for wnid in wnids}, list(by_wnid.items()))
    for name in ("recordio", "tfrecord"):
        trial.convert(name, 2)
        for split in ("train", "test"):
            for label, content in trial.read(name, split):
                assert content == photos.as_jpeg(by_wnid[wnids[label]], None, None)
