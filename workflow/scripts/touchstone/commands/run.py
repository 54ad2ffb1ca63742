"""Make one run of a cell: write its spec, start its runner in its environment, supervise it."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from touchstone.environments import EnvironmentFault, Missing, runner_python
from touchstone.measure import environment, nodes, skip
from touchstone.measure.attempts import ATTEMPTS, note
from touchstone.measure.supervisor import Fault, cores, machine_to_itself, settle, supervise
from touchstone.measure.trials import (
    fastest,
    folder_of,
    outcome_of,
    search,
    settings_of,
    trial_of,
)
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.estimate import seconds_of_steps
from touchstone.plan.model import BEST, Cell
from touchstone.plan.spec import make_spec

WEIGHTS = "weights.npz"
"""In the folder of a run that another one predicts with; like `trials` no output of the rule."""


def write(spec: dict[str, Any], folder: Path) -> Path:
    """Write the spec into the folder of its run, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.json"
    path.write_text(json.dumps(spec, indent=1) + "\n")
    return path


def prepare(spec: dict[str, Any], python: str, folder: Path) -> list[str]:
    """Write the spec into the folder of its run; returns the command of its runner."""
    return [python, str(RUNNER), str(write(spec, folder)), str(folder / "events.jsonl")]


def conduct(
    spec: dict[str, Any], python: str, folder: Path, log: Path, final: bool, trial: bool = False
) -> None:
    """Supervise the run of a spec, on all of its nodes; see `supervise`."""
    shutil.rmtree(folder / nodes.FOLDER, ignore_errors=True)
    command = prepare(spec, python, folder)
    with nodes.others(spec, python, folder) as beside:
        supervise(spec, command, folder, log, final, trial, beside)


def choose(spec: dict[str, Any], python: str, run: Path) -> None:
    """Try what the cell leaves open, and have the spec execute what was the fastest.

    The files of the trials stay in the folder `trials` of the run.
    """
    execution, framework = spec["execution"], spec["factors"]["framework"]
    modes = frameworks.modes(framework)

    def attempt(settings: dict[str, Any]) -> dict[str, Any]:
        name = folder_of(settings, execution)
        folder = run / name
        log = folder / "train.log"
        conduct(trial_of(spec, settings), python, folder, log, final=True, trial=True)
        return {**outcome_of(folder / "events.jsonl"), "folder": name}

    trials = search(execution, modes, frameworks.waits(framework), len(cores(None)), attempt)
    # Where no mode passed, the usual one shows why.
    execution.update(settings_of(fastest(trials)) or {"mode": modes[0]})
    spec["trials"] = trials


def untrained(run: Path) -> tuple[str, str] | None:
    """The outcome and reason of a run that cannot predict, for this one left no weights."""
    if (run / WEIGHTS).exists():
        return None
    last = json.loads((run / "events.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    if last["status"] == "ok":
        raise Fault(f"{run / WEIGHTS} is gone; delete {run} so that it is trained again")
    return "unsupported", f"no weights: {run} ended as {last['status']} ({last['reason']})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cell", type=json.loads, required=True, help="its settings as JSON")
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--attempt", type=int, required=True, help="which try this is, from 1")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--log", type=Path, required=True, help="gets what the runner prints")
    parser.add_argument("--keep-weights", action="store_true", help="in the folder of the run")
    parser.add_argument("--weights", type=Path, help="the run whose weights this one predicts with")


def run(arguments: argparse.Namespace) -> None:
    cell = Cell(**arguments.cell)
    spec = make_spec(cell, arguments.repeat, ROOT)
    try:
        with machine_to_itself():
            shutil.rmtree(arguments.run / "trials", ignore_errors=True)
            (arguments.run / WEIGHTS).unlink(missing_ok=True)
            # Not of the run's identity, for it depends on the machine.
            spec["limits"]["estimate"] = seconds_of_steps(
                cell, ROOT / "config/datasets", environment.usable_cores()
            )
            if arguments.keep_weights:
                spec["keep_weights"] = str(arguments.run / WEIGHTS)
            known = skip.known(
                cell.device, spec["cell"], arguments.repeat, arguments.attempt, cell.replicas
            )
            if why := spec["execution"].get("why_no_nodes"):
                known = "unsupported", why
            if arguments.weights:
                spec["inference"]["file"] = str(arguments.weights / WEIGHTS)
                known = known or untrained(arguments.weights)
            if known:
                write(spec, arguments.run)
                settle(spec, arguments.run, arguments.log, *known)
                return
            path = ROOT / frameworks.environment(cell.framework, cell.device)
            try:
                python = runner_python(path)
            except Missing as fault:
                write(spec, arguments.run)
                settle(spec, arguments.run, arguments.log, "unsupported", str(fault))
                # It may be installed later: the next execution tries again, as after an error.
                note(arguments.run, str(fault))
                return
            if cell.mode == BEST:
                choose(spec, python, arguments.run)
            final = arguments.attempt >= ATTEMPTS
            conduct(spec, python, arguments.run, arguments.log, final)
    except (EnvironmentFault, Fault, OSError) as fault:
        sys.exit(f"error: {spec['cell']} rep{spec['repeat']}: {fault}")
