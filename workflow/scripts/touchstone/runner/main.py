"""Run what a spec asks for: training, inference, an operation or parity steps."""

import datetime
import importlib
import json
import os
import sys
from typing import Any

from touchstone.runner import BEGIN, replicas
from touchstone.runner.events import Events
from touchstone.runner.group import FOLLOWS
from touchstone.runner.outcome import Diverged, leave
from touchstone.schema.types import Spec


def run(spec: Spec, path: str, threads: int, work: Any) -> None:
    """Do the `work`, and end the events with the runner's word on how it went."""
    events = replicas.Word(path) if FOLLOWS else Events(path)
    events.write(
        "start", t=BEGIN, date=datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%SZ"),
        pid=os.getpid(), python=sys.version.split()[0],
    )  # fmt: skip
    status, reason = "ok", None
    try:
        work(spec, events, threads)
    except Diverged as fault:
        status, reason = "diverged", str(fault)
    except NotImplementedError as fault:
        status, reason = "unsupported", str(fault)
    except MemoryError as fault:
        status, reason = "oom", str(fault) or "the host ran out of memory"
    events.write("result", status=status, reason=reason)


def main() -> None:
    """Do what the spec asks for, the first argument; the second is the file to write, of events
    or, of parity steps, of arrays."""
    spec_path, output = sys.argv[1:]
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    threads = spec["execution"]["threads"] or len(os.sched_getaffinity(0))
    kind = kind_of(spec)
    # By name, so that a change to one kind of run leaves the results of the others current.
    work = getattr(importlib.import_module("touchstone.runner." + kind), kind)
    if kind == "parity":
        work(spec, output, threads)
    else:
        run(spec, output, threads, work)
    leave()


def kind_of(spec: Spec) -> Any:
    """The module of the runner that does what a spec asks for."""
    if "traces" in spec:
        return "parity"
    return "operate" if "operation" in spec else "infer" if "inference" in spec else "train"
