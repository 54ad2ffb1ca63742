"""Find the largest batch of a setting that fits into memory, with a fresh process per probe."""

import argparse
import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from touchstone.commands.run import prepare, verified_data
from touchstone.datasets.errors import DatasetError
from touchstone.environments import EnvironmentFault
from touchstone.errors import explained
from touchstone.measure.launch import Fault
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.supervisor import supervise
from touchstone.paths import ROOT
from touchstone.plan.bisection import largest
from touchstone.plan.environment import add_argument, places, runner_python
from touchstone.plan.max_batch import as_planned, bound, probe_spec
from touchstone.plan.model import Cell
from touchstone.plan.parts import Program
from touchstone.results import digests
from touchstone.schema.events import Memory, outcome_of, read_events


class Prober:
    """Tries batch sizes of one setting, and keeps what came of each in `probes`."""

    def __init__(
        self,
        cell: Cell,
        program: Program | None,
        python: str,
        folder: Path,
        data: dict[str, Any] | None,
    ) -> None:
        self.cell, self.program = cell, program
        self.python, self.folder, self.data = python, folder, data
        self.limit, self.limited_by = cell.memory_limit, "memory_limit"
        if cell.memory_limit is None:
            # Stopped by us, not by the kernel, which may choose another process.
            self.limit = float(psutil.virtual_memory().available // 2**20)
            self.limited_by = "what the machine had available"
        self.probes: list[dict[str, Any]] = []

    def __call__(self, batch_size: int) -> tuple[str, str | None]:
        """The outcome of a few steps and its reason; a fault is tried again."""
        spec = probe_spec(self.cell, batch_size, self.limit, ROOT, self.program)
        command = prepare(spec, self.python, self.folder)
        log = self.folder / "probe.log"
        try:
            status = supervise(spec, command, self.folder, log, trial=True, data=self.data)
        except Fault:
            status = supervise(
                spec, command, self.folder, log, final=True, trial=True, data=self.data
            )
        events = read_events(self.folder / "events.jsonl")
        outcome = outcome_of(events)
        memory = [event.device_peak_mib for event in events if isinstance(event, Memory)]
        self.probes.append(
            {
                "batch_size": batch_size,
                "status": status,
                "reason": outcome.reason,
                "seconds": round(outcome.end - outcome.begin, 3),
                "host_memory_peak_mib": self.host_memory_peak(),
                "device_peak_mib": memory[-1] if memory else None,
            }
        )
        print(f"a batch of {batch_size}: {status}", file=sys.stderr, flush=True)
        return status, outcome.reason

    def host_memory_peak(self) -> float | None:
        """The largest sample of the last probe, MiB; None where there is none."""
        with open(self.folder / "telemetry.csv", newline="", encoding="utf-8") as file:
            samples = [row["host_memory"] for row in csv.DictReader(file)]
        return max((float(sample) for sample in samples if sample), default=None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cell", type=json.loads, required=True, help="its settings as JSON")
    parser.add_argument("--folder", type=Path, required=True, help="of the probes' files")
    parser.add_argument("--output", type=Path, required=True, help="what was found, as JSON")
    parser.add_argument("--program", type=Program.model_validate_json, help="that it runs, as JSON")
    add_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    cell = Cell(**arguments.cell)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        with machine_to_itself(f"largest batch of {cell.network}"):
            envs = places(arguments)
            python = runner_python(cell.environment, cell.framework, cell.device, cell.style, envs)
            arguments.folder.mkdir(parents=True, exist_ok=True)
            program = arguments.program
            data = verified_data(probe_spec(cell, 1, None, ROOT, program))
            prober = Prober(cell, program, python, arguments.folder, data)
            answer = largest(prober, *bound(cell, ROOT))
    except (DatasetError, EnvironmentFault, Fault, OSError) as fault:
        sys.exit(f"error: {arguments.output.stem}: {explained(fault)}")
    env = json.loads((arguments.folder / "env.json").read_text(encoding="utf-8"))
    result = {
        "format": 1,
        "settings": as_planned(cell),
        "max_batch_size": {"value": answer.value, "unit": "images", "reason": answer.reason},
        "status": answer.status,
        "limit": {"host_memory_mib": prober.limit, "from": prober.limited_by},
        "probes": prober.probes,
        "provenance": {"started": started, "machine": env["machine"], "software": env["software"]},
    }
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    digests.write(arguments.folder, [arguments.output])
