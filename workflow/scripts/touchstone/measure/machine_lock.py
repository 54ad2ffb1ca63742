"""This machine's lock: no two measured runs overlap on it, whichever users start them.

All users lock one file in the folder for temporary files, where anybody may have put anything
under its name. So it is never followed as a link, and only its lock is trusted: what it says of
its holder is for people. The kernel has the queue of those that wait.
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
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from touchstone.measure import progress
from touchstone.safe_text import one_line
from touchstone.schema.values import from_json

FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""No link is followed, and no pipe is waited for."""
MOST_BYTES = 500
"""Bytes that are read of what a holder says."""
MOST_CHARACTERS = 100
"""Characters of a holder's run that are shown."""
QUEUES = Path("/proc/locks")
"""Where the kernel lists each lock with those that wait for it, in order."""
NO_LINE = 0.2
"""Seconds that a run waits without a line."""
INTERVAL = 1.0
"""Seconds between lines of a terminal, each in place of the one before."""


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
        status = os.fstat(lock)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            return lock
        os.close(lock)
        return None
    return None


def _wait_for(lock: int, file: Path) -> None:
    """Lock the file; while others have it, a thread says whose it is, and how long that takes."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    except BlockingIOError:
        begin, has_it = time.monotonic(), threading.Event()
    voice = threading.Thread(target=_say_until, args=(has_it, lock, file, begin), daemon=True)
    voice.start()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        has_it.set()
        voice.join()
    waited = time.monotonic() - begin
    progress.add_wait(waited)
    if waited >= NO_LINE:
        progress.say(f"waited {progress.duration(waited)} for the machine")


def _say_until(has_it: threading.Event, lock: int, file: Path, begin: float) -> None:
    """Print who holds the lock, this process's place in the queue and the time waited."""
    is_terminal = sys.stderr.isatty()
    interval, is_first = NO_LINE, True
    while not has_it.wait(interval):
        waited = time.monotonic() - begin
        run, user, more = _holder(lock)
        in_full = is_first and not is_terminal
        parts = [more * in_full, _place_in_queue()]
        parts += [progress.duration(waited)] * (waited >= INTERVAL)
        rest = "".join(f", {part}" for part in parts if part) + f" ({file})" * in_full
        progress.show(sys.stderr, "waiting for ", run, user + rest, end="")
        interval, is_first = INTERVAL if is_terminal else progress.PLAIN_INTERVAL, False


def _place_in_queue() -> str:
    """Of this process, as `number 3 in the queue`; empty where the kernel does not say."""
    waiting: dict[str, list[str]] = defaultdict(list)
    with contextlib.suppress(OSError):
        for line in QUEUES.read_text().splitlines():
            number, *fields = line.split()
            if fields[:2] == ["->", "FLOCK"]:
                waiting[number].append(fields[4])
    own = str(os.getpid())
    place = next((pids.index(own) + 1 for pids in waiting.values() if own in pids), 0)
    if place < 2:
        return "next in the queue" * place
    return f"number {place} in the queue"


def _is_at(lock: int, file: Path) -> bool:
    """Whether the locked file is still the one at its path, and was not deleted meanwhile."""
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(file))
    except FileNotFoundError:
        return False


def _write_holder(lock: int, run: str) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    text = json.dumps(Holder(os.getpid(), since, run[:MOST_CHARACTERS])._asdict())
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, text.encode(), 0)


def _holder(lock: int) -> tuple[str, str, str]:
    """Who holds the lock, as far as it is known: the run, ` of USER`, its process."""
    try:
        holder = from_json(Holder, json.loads(os.pread(lock, MOST_BYTES, 0)))
        owner = os.stat(f"/proc/{holder.pid}").st_uid
    except (OSError, ValueError, OverflowError, RecursionError):
        return "another measured run", "", ""
    try:
        user = pwd.getpwuid(owner).pw_name
    except KeyError:
        user = f"the user {owner}"
    more = one_line(f"process {holder.pid}, since {holder.since}")
    return (
        one_line(holder.run or "a measured run")[:MOST_CHARACTERS],
        f" of {user}",
        more[:MOST_CHARACTERS],
    )
