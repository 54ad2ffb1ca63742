"""Run what a spec asks for: training, inference, an operation, a program, or parity steps."""

import datetime
import importlib
import json
import os
import sys
from typing import Any

from touchstone.runner import BEGIN, replicas
from touchstone.runner.events import EventWriter
from touchstone.runner.group import IS_FOLLOWER
from touchstone.runner.outcome import EXIT_SECONDS, Diverged, Failed, exit_now
from touchstone.schema import status
from touchstone.schema.events import Result, Start
from touchstone.schema.spec import Spec, kind_of, spec_from_json

MODULES = {
    "training": "train",
    "inference": "infer",
    "operation": "operate",
    "program": "program",
    "parity": "parity",
    "profile": "profile",
}
"""The module of this package, and its function, that do each kind of work.

They are imported by name, so that a change to one kind of work leaves the results of the others
current.
"""


def run(spec: Spec, path: str, threads: int, work: Any) -> None:
    """Do the `work`, and end the events with the runner's own result."""
    events = replicas.FollowerReporter(path) if IS_FOLLOWER else EventWriter(path)
    date = datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ")
    events.write(Start(BEGIN, date, os.getpid(), sys.version.split()[0]))
    result = Result(status.OK, None)
    try:
        work(spec, events, threads)
    except Diverged as fault:
        result = Result(status.DIVERGED, str(fault))
    except Failed as fault:
        result = Result(status.ERROR, str(fault))
    except NotImplementedError as fault:
        result = Result(status.UNSUPPORTED, str(fault))
    except MemoryError as fault:
        result = Result(status.OOM, str(fault) or "the host ran out of memory")
    events.write(result)


def main() -> None:
    """Do what the spec asks for, the first argument; the second is the file to write: of events,
    of the arrays of parity steps, or of a profile. With the descriptors of two pipes as further
    arguments it works in slices (slices.py)."""
    spec_path, output, *pipes = sys.argv[1:]
    with open(spec_path, encoding="utf-8") as file:
        spec = spec_from_json(json.load(file))
    threads = spec.execution.threads or len(os.sched_getaffinity(0))
    name, patience = MODULES[kind_of(spec)], EXIT_SECONDS if kind_of(spec) == "program" else None
    if pipes:
        module = "program" if name == "program" else "slices"
        slices = importlib.import_module("touchstone.runner." + module)
        run(spec, output, threads, slices.conducted(*map(int, pipes)))
        exit_now(patience)
    work = getattr(importlib.import_module("touchstone.runner." + name), name)
    if name in ("parity", "profile"):
        work(spec, output, threads)
    else:
        run(spec, output, threads, work)
    exit_now(patience)
