"""The lock of a machine: of several users, and under what another user may have planted."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from touchstone.files import own_file
from touchstone.measure import machine_lock, order, progress
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.paths import SCRIPTS
from touchstone.schema.variables import DRIVER

HOLD = (
    "import os, sys, time; sys.path.insert(0, sys.argv[1])\n"
    "from touchstone.measure.machine_lock import machine_to_itself\n"
    "if len(sys.argv) > 2: os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))\n"
    "with machine_to_itself('lenet5 rep1'):\n"
    "    print(time.monotonic(), flush=True); sys.stdin.read(); time.sleep(0.05)\n"
    "    print(time.monotonic())\n"
)
"""Holds the lock until standard input ends, and a little longer."""
NOBODY = 65534


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, as all users share it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    for parent in folder.parents:
        if parent.stat().st_uid == os.getuid() and parent.is_relative_to("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    monkeypatch.setattr(machine_lock.tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return folder


def holder(user=None, stdin=subprocess.DEVNULL):
    words = [sys.executable, "-c", HOLD, str(SCRIPTS)] + ([str(user)] if user is not None else [])
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=stdin, stdout=pipe, stderr=pipe, text=True)


def require_turns(*users):
    """Fail unless others wait, and say so, while the first user holds the lock, and then hold it
    one after another."""
    first = holder(users[0], subprocess.PIPE)
    begin = first.stdout.readline()
    others = [holder(user) for user in users[1:]]
    for process in others:
        assert process.stderr.readline().startswith("waiting for")
    ended = [process.communicate(timeout=120) for process in (first, *others)]
    assert [process.returncode for process in (first, *others)] == [0] * len(users), ended
    assert not any("warning" in said for _, said in ended)
    ended[0] = begin + ended[0][0], ""
    spans = sorted([float(t) for t in out.split()] for out, _ in ended)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_two_runs_never_overlap():
    require_turns(None, None, None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start programs of other users")
@pytest.mark.parametrize("users", [(None, NOBODY, None, NOBODY), (NOBODY, None, NOBODY)])
def test_runs_of_two_users_never_overlap(users):
    require_turns(*users)


def test_a_run_that_waits_says_for_whose_and_since_when(temporary):
    with machine_to_itself("resnet50 rep2"):
        second = holder()
        said = second.stderr.readline()
    _, after = second.communicate(timeout=60)
    assert after.startswith("waited ") and after.endswith(" s for the machine\n")
    assert said.startswith("waiting for resnet50 rep2 of ")
    assert f"process {os.getpid()}, since 2" in said and str(machine_lock.path()) in said
    assert "UTC, next in the queue" in said


def test_runs_that_wait_know_their_place(temporary):
    places = []
    with machine_to_itself("resnet50 rep2"):
        others = []
        for _ in range(3):
            others.append(holder())
            places += re.findall(r", (\w[\w ]* in the queue)", others[-1].stderr.readline())
    assert places == ["next in the queue", "number 2 in the queue", "number 3 in the queue"]
    assert [process.wait(timeout=60) for process in others] == [0, 0, 0]


def test_an_execution_sums_how_long_it_waited(temporary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DRIVER, "an execution")
    progress.start(["one"])
    first = holder(stdin=subprocess.PIPE)
    first.stdout.readline()
    threading.Timer(1.5, first.communicate).start()
    with machine_to_itself("two"):
        pass
    waited = progress._account().waited
    assert waited > 1
    with machine_to_itself("three"):
        assert progress._account().waited == waited


def test_what_a_holder_says_cannot_control_a_terminal(temporary):
    with machine_to_itself("resnet50 rep2\x1b[31m"):
        lock = os.open(machine_lock.path(), os.O_RDONLY)
        said = machine_lock._holder(lock)
        os.close(lock)
    assert said[0] == "resnet50 rep2 [31m"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[" * 400, b"{}", b'{"pid": 1e99, "since": "", "run": ""}',
     b'{"pid": -1, "since": "x", "run": "y"}', b"9" * 400, os.urandom(10_000)],
)  # fmt: skip
def test_a_holder_that_says_nonsense_is_any_run(content, temporary):
    machine_lock.path().write_bytes(content)
    lock = os.open(machine_lock.path(), os.O_RDONLY)
    assert machine_lock._holder(lock) == ("another measured run", "", "")
    os.close(lock)
    with machine_to_itself("x"):
        assert json.loads(machine_lock.path().read_text())["pid"] == os.getpid()
    assert machine_lock.path().read_text() == ""


def planted(how, victim):
    """Put something under the name of the lock, as another user might."""
    place = machine_lock.path()
    if how == "a link":
        place.symlink_to(victim)
    elif how == "a link to nothing":
        place.symlink_to(victim.with_name("new"))
    elif how == "a hard link":
        os.link(victim, place)
    elif how == "a pipe":
        os.mkfifo(place)
    else:
        place.mkdir()


@pytest.mark.parametrize(
    "how", ["a link", "a link to nothing", "a hard link", "a pipe", "a folder"]
)
def test_what_another_user_planted_is_not_followed(how, temporary, tmp_path, capsys):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    planted(how, victim)
    with machine_to_itself("x"):
        assert "is no lock file that Touchstone can use" in capsys.readouterr().err
        held = tmp_path / machine_lock.path().name
        assert json.loads(held.read_text())["run"] == "x"
        assert stat.S_IMODE(held.stat().st_mode) == 0o600
    assert victim.read_text() == "precious"
    assert not victim.with_name("new").exists()


@pytest.mark.parametrize("how", ["a link", "a hard link", "a pipe", "a folder"])
def test_so_it_is_for_the_note_of_when_the_last_run_ended(how, temporary, tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(machine_lock, "path", lambda: Path(order._last()))
    planted(how, victim)
    order.ended()
    assert victim.read_text() == "precious"
    seconds, why = order.idle_seconds()
    assert seconds is None and "cannot be read" in why
    with pytest.raises(OSError):
        own_file(order._last(), "r")


def test_a_lock_file_that_was_deleted_meanwhile_is_made_again(temporary):
    first = machine_to_itself("a")
    with first:
        machine_lock.path().unlink()
        with machine_to_itself("b"):
            assert json.loads(machine_lock.path().read_text())["run"] == "b"
