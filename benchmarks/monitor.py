"""What watching a run costs: LeNet-5 with the supervisor and its sensors, and without.

The two run in turn, so that a machine whose speed drifts moves both. With: as the workflow
does it, a sample every second. Without: the same runner on the same cores with the same
variables, and nobody looks. The goals are less than 0.5 % of throughput and less than 2 % of
one core. Let the machine rest meanwhile: its noise is in the ratios' range.

    monitor.py [FRAMEWORK] [PAIRS]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from touchstone.environments import ensure, installed
from touchstone.measure.launch import cores, thread_variables
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.supervisor import supervise
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import RunSpec, spec_to_json

EPOCHS = 20


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def throughput(folder: Path) -> float:
    """Images/s of the measured phase."""
    measured = next(event for event in events_of(folder) if event.get("name") == "measured")
    rate: float = measured["examples"] / (measured["end"] - measured["begin"])
    return rate


def without(spec: RunSpec, command: list[str], folder: Path) -> float:
    """Images/s of a run that nobody watches."""
    used = cores(None)
    variables = {**os.environ, **thread_variables(len(used), spec.execution.wait_policy)}
    subprocess.run(
        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, used),
    )  # fmt: skip
    return throughput(folder)


def watched(spec: RunSpec, command: list[str], folder: Path) -> tuple[float, float]:
    """Images/s of a watched run, and the share of one core that watching took."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    supervise(spec, command, folder, folder / "train.log")
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    outcome = events_of(folder)[-1]
    return throughput(folder), used / (outcome["end"] - outcome["begin"])


def main(framework: str = "pytorch", pairs: str = "5") -> None:
    python = str(ensure(ROOT / f"envs/{framework}.yaml", installed()))
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", input="synthetic",
        mode=frameworks.modes(framework)[0], epochs=EPOCHS,
    )  # fmt: skip
    spec = make_spec(cell, 1, ROOT)
    print(f"{framework}, LeNet-5 b64, a sample every {spec.sampling_interval:g} s")
    ratios, shares = [], []
    with tempfile.TemporaryDirectory() as name, machine_to_itself():
        folder = Path(name)
        os.chdir(folder)
        (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
        command = [python, str(RUNNER), "spec.json", "events.jsonl"]
        for _ in range(int(pairs)):
            with_sensors, share = watched(spec, command, folder)
            ratios.append(with_sensors / without(spec, command, folder))
            shares.append(share)
            print(f"  {ratios[-1]:.4f}  {share:.2%}", flush=True)
    print(
        f"throughput with / without sensors: {statistics.median(ratios):.4f}"
        f"  ({min(ratios):.4f} to {max(ratios):.4f})\n"
        f"CPU of the supervisor, of one core: {statistics.median(shares):.2%}"
        f"  ({min(shares):.2%} to {max(shares):.2%})"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
