"""Supervise the part of a run that is done on another node than the first (measure/nodes.py)."""

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path

from touchstone.commands.run import prepare
from touchstone.measure.nodes import FOLDER, SECRET, First
from touchstone.measure.supervisor import Fault, Outcome, machine_to_itself, supervise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", required=True, help="HOST:PORT of the first node's supervisor")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--python", required=True, help="of the framework's environment")


def run(arguments: argparse.Namespace) -> None:
    host, _, port = arguments.at.rpartition(":")
    name = os.environ["SLURMD_NODENAME"]
    folder = arguments.run / FOLDER / name
    try:
        first = First(host, int(port), os.environ.pop(SECRET), name)
        readings = [first.clock()]
        try:
            command = prepare(first.spec, arguments.python, folder)
            log = folder / "train.log"
            with machine_to_itself():
                supervise(first.spec, command, folder, log, final=True, trial=True, beside=first)
        except (Fault, OSError) as fault:
            first.tell(Outcome("error", str(fault), []))
            raise
        lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        last = json.loads(lines[-1])
        with contextlib.suppress(OSError):  # gone, where the first node has ended the run
            readings.append(first.clock())
        node = {"format": 1, "name": name, "clock": [reading._asdict() for reading in readings]}
        (folder / "node.json").write_text(json.dumps(node, indent=1) + "\n")
        with contextlib.suppress(OSError):
            first.tell(Outcome(last["status"], last["reason"], last.get("log_tail", [])))
    except (Fault, OSError) as fault:
        sys.exit(f"error: {name}: {fault}")
