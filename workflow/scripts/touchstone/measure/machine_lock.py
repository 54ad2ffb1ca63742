"""This machine's lock: no two measured runs overlap on it, whichever users start them.

All users lock one file in the folder for temporary files, where anybody may have put anything
under its name. So it is never followed as a link, and only its lock is trusted: what it says of its
holder is for people.
"""

import contextlib
import fcntl
import json
import os
import platform
import pwd
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from touchstone.safe_text import one_line
from touchstone.schema.values import from_json

FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link is followed, and no pipe is waited for."""
LONGEST = 500
"""Bytes that are read of what a holder says."""
SHOWN = 100
"""Characters of a holder's run that are shown."""


class Holder(NamedTuple):
    """Who holds the lock.

    pid: its process
    since: date and time, UTC
    run: what it measures
    """

    pid: int
    since: str
    run: str


@contextlib.contextmanager
def machine_to_itself(run: str = "") -> Iterator[None]:
    """Hold this machine's lock; wait for it while another run has it, and say whose it is.

    Args:
        run: what is measured, for others who wait.

    Raises:
        OSError: no file can be locked.
    """
    with _locked() as lock:
        _write_holder(lock, run)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # another user's file that we may only read
                os.ftruncate(lock, 0)


def path() -> Path:
    """The file that all users lock; a folder for temporary files may be one of several nodes."""
    return Path(tempfile.gettempdir()) / f"touchstone-{platform.node()}.lock"


def own_path() -> Path:
    """The file that only this user's runs lock, where the other one is not to be used."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"touchstone-{platform.node()}.lock"


@contextlib.contextmanager
def _locked() -> Iterator[int]:
    """The descriptor of the locked file."""
    file = path()
    while True:
        lock = _opened(file)
        if lock is None:
            print(
                f"warning: {file} is no lock file that Touchstone can use: have its owner or an"
                " administrator remove it; until then only your own runs wait for each other",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            file = own_path()
            lock = os.open(file, os.O_RDWR | os.O_CREAT | FLAGS, 0o600)
        try:
            _wait_for(lock, file)
            if _is_at(lock, file):
                yield lock
                return
        finally:
            os.close(lock)


def _opened(file: Path) -> int | None:
    """The lock file, which is created if it is missing; None if it cannot serve as one."""
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        before = os.umask(0)
        try:
            lock = os.open(file, flags | FLAGS, 0o666)
        except OSError:
            continue
        finally:
            os.umask(before)
        found = os.fstat(lock)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return lock
        os.close(lock)
        return None
    return None


def _wait_for(lock: int, file: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for {_holder(lock)} ({file})", file=sys.stderr, flush=True)
        begin = time.monotonic()
        fcntl.flock(lock, fcntl.LOCK_EX)
        waited = time.monotonic() - begin
        print(f"waited {waited:.0f} s for the machine", file=sys.stderr, flush=True)


def _is_at(lock: int, file: Path) -> bool:
    """Whether the locked file is still the one at its path, and was not deleted meanwhile."""
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(file))
    except FileNotFoundError:
        return False


def _write_holder(lock: int, run: str) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    text = json.dumps(Holder(os.getpid(), since, run[:SHOWN])._asdict())
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)


def _holder(lock: int) -> str:
    """Who holds the lock and since when, as far as it is known."""
    try:
        found = from_json(Holder, json.loads(os.pread(lock, LONGEST, 0)))
        owner = os.stat(f"/proc/{found.pid}").st_uid
    except (OSError, ValueError, OverflowError, RecursionError):
        return "another measured run"
    try:
        user = pwd.getpwuid(owner).pw_name
    except KeyError:
        user = f"the user {owner}"
    run = f"the measured run {found.run}" if found.run else "another measured run"
    return one_line(f"{run} of {user}, process {found.pid}, since {found.since}")[: 3 * SHOWN]
