"""Snakemake's lock of a folder, which an execution leaves where it is killed."""

import contextlib
import os
import time
from pathlib import Path

import psutil

from touchstone import started
from touchstone.driver import Process

LOCKS = Path(".snakemake/locks")
OWNER = Path(".snakemake/touchstone.owner")
"""Who holds the lock, or held it last."""
ENDS = 10.0
"""Seconds in which the jobs of an execution end after it was killed."""


def left_text() -> str:
    """What to do about the lock that a killed execution left."""
    return (
        "An earlier execution in this folder was killed and left its lock. No other one runs here"
        f" on this machine, so it is safe to type `{started.unlock()}` and to start again. Finished"
        " runs are kept."
    )


def own() -> None:
    """Note that this process holds the lock of the working folder."""
    with contextlib.suppress(OSError):
        OWNER.write_text(f"{Process.of(os.getpid())}\n", encoding="utf-8")


def release() -> str:
    """Remove the lock of the working folder if its owner is dead; says so in one line, or nothing.

    It is dead if it ran in this boot of this machine and has ended, no other execution runs in the
    folder, and no process has a file of the results open. Its jobs have `ENDS` seconds to close
    theirs.
    """
    locks = list(LOCKS.glob("*.lock"))
    try:
        owner = Process.read(OWNER.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not locks or not owner.is_here() or owner.is_alive():
        return ""
    deadline = time.monotonic() + ENDS
    while driver() or _is_open():
        if time.monotonic() > deadline:
            return ""
        time.sleep(0.1)
    for path in locks:
        path.unlink(missing_ok=True)
    return (
        f"An earlier execution, process {owner.number}, was killed: its lock is removed, finished"
        " runs are kept."
    )


def _is_open() -> bool:
    """Whether a process of this user has a file of the results or of Snakemake's notes open."""
    folders = tuple(f"{Path.cwd() / name}/" for name in ("results", ".snakemake"))
    own = os.getpid()
    for handles in Path("/proc").glob("[0-9]*/fd"):
        if int(handles.parent.name) == own:
            continue
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if any(os.readlink(handle).startswith(folders) for handle in handles.iterdir()):
                return True
    return False


def is_left() -> bool:
    """Whether there is a lock in the working folder, and no execution that may hold it."""
    return any(LOCKS.glob("*.lock")) and driver() is None


def driver() -> int | None:
    """The process of another execution of Snakemake in the working folder, or None."""
    own = psutil.Process()
    related = {own.pid, *(process.pid for process in own.parents())}
    for process in psutil.process_iter(["pid", "cmdline"]):
        command = process.info["cmdline"] or []
        words = [os.path.basename(word) for word in command[:3]]
        # A job of an execution is none itself.
        if process.info["pid"] in related or "snakemake" not in words or "--mode" in command:
            continue
        try:
            if Path(process.cwd()) == Path.cwd() and process.status() != psutil.STATUS_ZOMBIE:
                return int(process.info["pid"])
        except (psutil.Error, OSError):
            continue  # it has ended, or belongs to another user
    return None
