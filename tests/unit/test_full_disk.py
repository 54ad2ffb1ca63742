"""A full disk or a folder that is read-only: one sentence with file, cause and remedy."""

import errno
import json
from types import SimpleNamespace

import pytest

from fixtures.commands import call, largest_file
from fixtures.runs import make_run
from touchstone import files
from touchstone.commands import parse
from touchstone.errors import explained
from touchstone.files import why_not_writable

SPACE = "; check the space, the limits and the health of the disk, then run again\n"


def test_a_record_that_does_not_fit_is_not_written(tmp_path):
    folder, output = make_run(tmp_path / "run"), tmp_path / "records/rep1.json"
    with largest_file(1000):
        done = call("parse", folder, "--output", output)
    assert done.returncode == 1 and done.stderr.startswith("error: ")
    assert done.stderr.endswith(SPACE) and len(done.stderr.splitlines()) == 1
    assert list(output.parent.iterdir()) == []
    assert call("parse", folder, "--output", output).returncode == 0
    assert json.loads(output.read_text())["status"] == "ok"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_is_read_only_is_named(tmp_path, monkeypatch, code):
    def refuse(path, value):
        raise OSError(code, "Read-only file system", str(path))

    monkeypatch.setattr(parse, "write_json", refuse)
    done = call("parse", make_run(tmp_path / "run"), "--output", tmp_path / "rep1.json")
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {tmp_path}/rep1.json: Read-only file system; check that you may write there, or "
        "use another folder, then run again\n",
    )


def test_no_execution_begins_where_nothing_can_be_written(tmp_path, monkeypatch):
    assert why_not_writable(tmp_path) is None
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: SimpleNamespace(free=3 << 20))
    assert why_not_writable(tmp_path) == (
        f"{tmp_path}: the disk is full (3 MiB are free, 16 are needed); make room and start again: "
        "finished runs are kept"
    )
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    assert why_not_writable(tmp_path).startswith(f"{tmp_path}: this folder is read-only; check")


def test_what_the_system_names_no_file_for_is_named_by_its_place():
    error = OSError(errno.ENOSPC, "No space left on device")
    assert explained(error, "out").startswith("out: No space left on device; check the space")
    assert explained(error).startswith("No space left on device; ")
    assert explained(OSError("odd")) == "odd; check that the path exists and that you may use it"
