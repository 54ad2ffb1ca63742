"""In which order runs are made, and how long the machine rested before each."""

import contextlib
import json
import os
import tempfile
import time
from pathlib import Path

from touchstone.files import own_file
from touchstone.schema.spec import RunSpec

PATH = Path("results/.order.jsonl")
"""One line for every run that was begun in this results folder, in this order."""
MOST_CHARACTERS = 1000
"""Characters that are read of when the last run ended."""


def enter(spec: RunSpec, started: str) -> int:
    """Enter a run that begins; returns its position among all that were begun, from 1."""
    PATH.parent.mkdir(exist_ok=True)
    with open(PATH, "a+", encoding="utf-8") as file:
        line = {"started": started, "cell": spec.cell, "repeat": spec.repeat}
        file.write(json.dumps(line) + "\n")
        file.seek(0)
        return len(file.readlines())


def ended() -> None:
    """Note that a measured run of this user on this machine ends now."""
    # Neither a full disk for temporary files nor another user's file there ends a run.
    with contextlib.suppress(OSError), own_file(_last(), "w") as file:
        file.write(json.dumps({"boot": _boot(), "end": time.monotonic()}))


def idle_seconds() -> tuple[float | None, str | None]:
    """Seconds since the last measured run of this user on this machine, or why none is known."""
    try:
        with own_file(_last(), "r") as file:
            last = json.loads(file.read(MOST_CHARACTERS))
        if last["boot"] != _boot():
            return None, "the first run since the machine was started"
        return round(time.monotonic() - float(last["end"]), 3), None
    except FileNotFoundError:
        return None, "no run before it is known on this machine"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as fault:
        return None, f"{_last()} cannot be read ({fault})"


def _last() -> Path:
    return Path(tempfile.gettempdir()) / f"touchstone-{os.getuid()}.last"


def _boot() -> str:
    """This start of the machine: the monotonic clock begins again with each."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
