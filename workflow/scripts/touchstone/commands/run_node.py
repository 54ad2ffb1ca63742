"""Supervise the part of a run that is done on another node than the first (measure/nodes.py)."""

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path

from touchstone.commands.run import prepare, verified_data
from touchstone.datasets.errors import DatasetError
from touchstone.measure.launch import Fault
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.nodes import FOLDER, FirstNode
from touchstone.measure.supervisor import Ending, StoodStill, supervise
from touchstone.schema.events import outcome_of, read_events
from touchstone.schema.status import ERROR
from touchstone.schema.variables import SECRET


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", required=True, help="HOST:PORT of the first node's supervisor")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--python", required=True, help="of the framework's environment")


def run(arguments: argparse.Namespace) -> None:
    host, _, port = arguments.at.rpartition(":")
    name = os.environ["SLURMD_NODENAME"]
    folder = arguments.run / FOLDER / name
    try:
        first = FirstNode(host, int(port), os.environ[SECRET], name)
        readings = [first.clock()]
        try:
            command = prepare(first.spec, arguments.python, folder)
            log = folder / "train.log"
            with machine_to_itself(first.spec.cell), contextlib.suppress(StoodStill):
                supervise(
                    first.spec, command, folder, log, final=True, trial=True, other_nodes=first,
                    data=verified_data(first.spec),
                )  # fmt: skip
        except (DatasetError, Fault, OSError) as fault:
            first.tell(Ending(ERROR, str(fault), []))
            raise
        last = outcome_of(read_events(folder / "events.jsonl"))
        with contextlib.suppress(OSError):  # gone, where the first node has ended the run
            readings.append(first.clock())
        node = {"format": 1, "name": name, "clock": [reading._asdict() for reading in readings]}
        (folder / "node.json").write_text(json.dumps(node, indent=1) + "\n")
        with contextlib.suppress(OSError):
            first.tell(Ending(last.status, last.reason, last.log_tail or []))
    except (DatasetError, Fault, OSError) as fault:
        sys.exit(f"error: {name}: {fault}")
