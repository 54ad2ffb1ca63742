"""Record files are verified before a run reads them: no changed byte goes unnoticed."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.commands import call
from fixtures.records import require_valid
from touchstone.commands import run as run_command
from touchstone.datasets import before_run, formats
from touchstone.datasets.before_run import require_records
from touchstone.datasets.catalogue import Dataset, shard_names
from touchstone.datasets.convert import convert
from touchstone.datasets.errors import DatasetError, repair
from touchstone.measure import attempts, order
from touchstone.plan import frameworks
from touchstone.schema.variables import DEPLOYMENT, ENVS

SETTLED = 3600.0
"""Seconds by which files that a test wrote are made older, so that their verification counts."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with noise in every format, in three shards where there can be several."""
    folder = tmp_path_factory.mktemp("converted")
    dataset = Dataset.model_validate(
        {
            **{"name": "toy", "title": "Toy", "licence": "CC0", "citation": "nobody"},
            **{"shape": [6, 5, 3], "classes": 3, "mean": [0.5] * 3, "std": [0.5] * 3},
            **{"splits": {"train": 20, "test": 6}, "shards": {"train": 3}},
            "decoder": {"name": "noise", "seed": 1},
        }
    )
    for name in formats.names():
        convert(dataset, folder, name, folder / "toy" / name)
    return folder / "toy"


def stems_of(name: str) -> list[str]:
    """The names that a run of the data set `toy` reads in a format."""
    return [*shard_names("train", 3 if formats.load(name).SHARDED else 1), "test"]


def record_files(folder: Path) -> list[Path]:
    """The record files of a converted data set."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return sorted(path for path in found if path.name != "manifest.json")


@pytest.fixture(params=formats.names())
def data(request: pytest.FixtureRequest, converted: Path, tmp_path: Path) -> Path:
    """A copy of the data set in one format, whose verification is remembered."""
    folder = tmp_path / "results/data/toy" / request.param
    shutil.copytree(converted / request.param, folder)
    remember(folder)
    return folder


def remember(folder: Path) -> None:
    """Have the machine remember a verification: as if the files had been written an hour ago."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(before_run, "SETTLED", -1.0)
        verified = require_records(folder, stems_of(folder.name), always=True)
    assert not verified.remembered and require_records(folder, [], always=False).remembered


def flip(path: Path, place: int, bit: int) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))


def refused(folder: Path, always: bool) -> str:
    """The message of a verification that fails."""
    with pytest.raises(DatasetError) as fault:
        require_records(folder, stems_of(folder.name), always)
    return str(fault.value)


@settings(max_examples=60)
@given(which=st.floats(0, 1), where=st.floats(0, 1), bit=st.integers(0, 7), always=st.booleans())
def test_a_bit_that_flips_anywhere_is_found(
    data: Path, which: float, where: float, bit: int, always: bool
) -> None:
    """In any file of a format: headers, records, padding, the last byte."""
    files = record_files(data)
    path = files[round(which * (len(files) - 1))]
    place = round(where * (path.stat().st_size - 1))
    flip(path, place, bit)
    assert refused(data, always) == f"{path}: its SHA-256 is not the manifest's; {repair()}"
    flip(path, place, bit)
    require_records(data, stems_of(data.name), always)
    remember(data)


@pytest.mark.parametrize("end", ["first", "last"])
def test_the_first_and_last_byte_of_every_file_count(data: Path, end: str) -> None:
    for path in record_files(data):
        place = 0 if end == "first" else path.stat().st_size - 1
        flip(path, place, 3)
        assert refused(data, always=False).startswith(f"{path}: its SHA-256 is not")
        flip(path, place, 3)


def test_a_change_that_keeps_size_and_time_is_found(data: Path) -> None:
    """A program may set the time of the last write, but not that of the last change."""
    path = record_files(data)[0]
    before = path.stat()
    flip(path, before.st_size // 2, 0)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert str(path) in refused(data, always=False)


def test_other_damage_is_found(data: Path) -> None:
    path = max(record_files(data), key=lambda path: path.stat().st_size)
    size = path.stat().st_size
    os.truncate(path, size - 1)
    assert refused(data, always=False) == f"{path}: {size - 1} bytes, not {size}; {repair()}"
    path.unlink()
    assert refused(data, always=False) == f"{path}: the file is missing; {repair()}"
    path.mkdir()
    assert str(path) in refused(data, always=False)


def test_what_changes_no_file_is_found_where_all_is_read(data: Path) -> None:
    """Bytes that rot on the disk: here the machine remembers the damaged file as a good one."""
    path = record_files(data)[0]
    flip(path, 5, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(before_run, "SETTLED", -1.0)
        patch.setattr(before_run, "_verify", lambda folder, files: None)
        require_records(data, [], always=True)
    stems = stems_of(data.name)
    assert require_records(data, stems, always=False).remembered  # `input: records` misses it
    assert str(path) in refused(data, always=True)  # `input: memory` finds it
    done = call("verify", data.parents[1])
    assert done.returncode == 1 and f"{path}: its SHA-256 is not" in done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(before_run, "_boot", lambda: "another start of the machine")
        assert str(path) in refused(data, always=False)
        patch.undo()
        patch.setattr(before_run, "REMEMBERED_SECONDS", 0.0)  # a day later
        assert str(path) in refused(data, always=False)
        patch.undo()
        now = time.time() - 10  # a clock that was put back
        patch.setattr(before_run.time, "time", lambda: now)
        assert str(path) in refused(data, always=False)


def test_a_verification_is_remembered_for_these_files_only(data: Path, tmp_path: Path) -> None:
    stems = stems_of(data.name)
    first = require_records(data, stems, always=False)
    sizes = [path.stat().st_size for path in record_files(data)]
    assert first == (data.as_posix(), len(sizes), sum(sizes), first.verified, True)
    assert not require_records(data, stems, always=True).remembered
    path = record_files(data)[0]
    os.utime(path)
    assert not require_records(data, stems, always=False).remembered
    remember(data)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)  # another inode
    assert not require_records(data, stems, always=False).remembered
    remember(data)
    moved = data.with_name("moved")
    data.rename(moved)
    assert not require_records(moved, stems, always=False).remembered
    moved.rename(data)
    assert require_records(data, stems, always=False).remembered


def test_a_file_that_has_just_changed_is_verified_again(data: Path) -> None:
    """Its next change might have the same time."""
    os.utime(record_files(data)[0])
    for _ in range(2):
        assert not require_records(data, [], always=False).remembered


@pytest.mark.parametrize("data", ["lmdb"], indirect=True)
def test_a_damaged_memory_does_not_count(data: Path) -> None:
    (memory,) = data.glob(".verified-*.json")
    good = memory.read_bytes()
    cuts = [good[:place] for place in range(len(good) - 1)]
    flips = []
    for place in range(len(good) - 1):
        changed = bytearray(good)
        changed[place] ^= 4
        flips.append(bytes(changed))
    remembered = []
    for content in (*cuts, *flips, b"", b"[]", b"null", b"\xff", b"{" * 10**5):
        memory.write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(before_run, "_verify", lambda folder, files: None)
            if require_records(data, [], always=False).remembered:
                remembered.append(content)
    # Only the time of the verification may be another one, in its last digits.
    at = json.loads(good)["at"]
    assert all(
        abs(json.loads(content)["at"] - at) < before_run.REMEMBERED_SECONDS
        for content in remembered
    )
    identity = json.loads(good)["identity"].encode()
    assert all(identity in content for content in remembered)


def test_a_folder_of_others_is_verified_every_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path, text: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    next(data.glob(".verified-*.json")).unlink()
    monkeypatch.setattr(before_run, "write_atomic", read_only)
    monkeypatch.setattr(before_run, "SETTLED", -1.0)
    for _ in range(2):
        assert not require_records(data, [], always=False).remembered


def test_files_that_the_manifest_does_not_name_are_refused(data: Path) -> None:
    with pytest.raises(DatasetError, match="manifest.json: it names no file of train-00009-of-9"):
        require_records(data, ["test", "train-00009-of-9"], always=False)


def test_every_change_of_a_manifest_is_found(converted: Path, tmp_path: Path) -> None:
    """But of blanks between its parts, which say nothing."""
    folder = tmp_path / "lmdb"
    shutil.copytree(converted / "lmdb", folder)
    path = folder / "manifest.json"
    good = path.read_bytes()
    value = json.loads(good)
    for place in range(len(good)):
        changed = bytearray(good)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            same = json.loads(bytes(changed)) == value
        except ValueError:
            same = False
        if not same:
            assert str(path) in refused(folder, always=False)
    for content in (b"", b"{}", b"[" * 10**5, b"null", good[:-10], b"\xff" + good):
        path.write_bytes(content)
        assert f"{path}: not a manifest of this version" in refused(folder, always=False)
    path.unlink()
    assert refused(folder, always=False) == f"{path}: the file is missing; {repair()}"


@pytest.mark.parametrize("name", ["../train.lmdb", "/etc/passwd", "a/b/c", "", "..", "train/.."])
def test_a_manifest_names_files_below_its_folder_only(
    converted: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "lmdb"
    shutil.copytree(converted / "lmdb", folder)
    value = json.loads((folder / "manifest.json").read_text())
    value["splits"]["test"]["files"][0]["name"] = name
    (folder / "manifest.json").write_text(json.dumps(value))
    assert "splits.test.files.0.name" in refused(folder, always=False)


@pytest.mark.parametrize("given_as", ["memory", "records"])
def test_a_run_on_damaged_data_is_an_error_and_starts_no_runner(
    converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_as: str
) -> None:
    """What is run ends; the next execution tries again."""
    framework = "mxnet"
    folder = tmp_path / "results/data/mnist-5k" / frameworks.record_format(framework)
    shutil.copytree(converted / folder.name, folder)
    stems = {"train": stems_of(folder.name)[:-1], "test": ["test"]}
    made = run_command.make_spec

    def make_spec(*arguments: object) -> object:
        spec = made(*arguments)  # type: ignore[arg-type]
        return spec._replace(data=spec.data._replace(shards=stems))  # type: ignore[union-attr]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # no run of this machine is waited for
    monkeypatch.setattr(run_command, "make_spec", make_spec)
    monkeypatch.setattr(run_command, "runner_python", lambda *given: "/nowhere/python")
    monkeypatch.setenv(DEPLOYMENT, "venv")
    monkeypatch.setenv(ENVS, str(tmp_path))
    path = record_files(folder)[0]
    flip(path, 9, 1)
    run = tmp_path / "results/runs/cell/rep1"
    cell = {"framework": framework, "network": "lenet5", "dataset": "mnist-5k", "input": given_as}
    cell["mode"] = frameworks.modes(framework)[0]
    options = ["--cell", json.dumps(cell), "--repeat", 1, "--attempt", 1, "--run", run]
    done = call("run", *options, "--log", run / "train.log")
    assert done.returncode == 0, done.stderr
    done = call("parse", run, "--output", "record.json")
    assert done.returncode == 0, done.stderr
    record = json.loads(Path("record.json").read_text())
    require_valid(record)
    message = f"{path.relative_to(tmp_path)}: its SHA-256 is not the manifest's; {repair()}"
    assert (record["status"], record["reason"]) == ("error", message)
    assert "data" not in record["provenance"]
    assert attempts.faults(str(run)) == 1
