"""Snakemake's lock of a folder, which an execution leaves where it is killed."""

import os
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")
LEFT = """\
An earlier execution in this folder was killed and left its lock. No other one runs here on this
machine, so it is safe to type `make unlock` (or `snakemake --unlock`) and to start again. Finished
runs are kept."""


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
