"""Runs that end in a fault: tried again at once, then recorded, and tried by every later execution.

The functions are called by the rule `train`. Snakemake makes a job again whose params have
changed; the number of faults recorded for a run is one of them, so that a run whose last
outcome is `error` is made again, and one that came good is not.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from touchstone.reading import parse_json

ATTEMPTS = 2
"""How often an execution tries a run before its fault is recorded as the outcome `error`."""
NAME = "errors.jsonl"
"""In the run's folder; no output of the rule, so that Snakemake leaves it there."""
MOST_BYTES = 1 << 20
"""Bytes that are read of it."""


def attempt(wildcards: Any, attempt: int) -> int:
    """Which try of this execution a job is, from 1."""
    return attempt


def errors(wildcards: Any) -> int:
    """How many faults are recorded for a run."""
    return faults(f"results/runs/{wildcards.cell}/rep{wildcards.repeat}")


def faults(folder: str) -> int:
    """How many faults are recorded in a folder."""
    path = f"{folder}/{NAME}"
    if not os.path.exists(path):  # asked for every run of a study: pathlib takes thrice as long
        return 0
    with open(path, "rb") as file:  # whatever it holds, its lines count
        return len(file.read(MOST_BYTES).splitlines())


def note(folder: Path, reason: str) -> None:
    """Record a fault of the run in `folder`."""
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(folder / NAME, "a", encoding="utf-8") as file:
        file.write(json.dumps({"date": date, "reason": reason}) + "\n")


def reasons(folder: Path) -> list[str]:
    """The reasons of the faults that are recorded in a folder, the last one last.

    Raises:
        ValueError: a line is none that `note` wrote.
    """
    messages = []
    for line in _text(folder).splitlines():
        fault = parse_json(line)
        if not isinstance(fault, dict) or not all(
            isinstance(fault.get(key), str) for key in ("date", "reason")
        ):
            raise ValueError(f"not a fault: {line[:80]}")
        messages.append(fault["reason"])
    return messages


def is_damaged(folder: Path) -> bool:
    """Whether the account of faults in a folder holds anything else."""
    try:
        reasons(folder)
    except ValueError:
        return True
    return False


def _text(folder: Path) -> str:
    """The account of faults in a folder; raises ValueError where it is no text."""
    path = folder / NAME
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        return file.read(MOST_BYTES).decode()
