"""Make one run of a cell: write its spec, start its runner in its environment, supervise it."""

import argparse
import json
import sys
from pathlib import Path

from in_env import EnvironmentFault, runner_python
from measure.attempts import ATTEMPTS
from measure.supervisor import Fault, machine_to_itself, supervise
from plan import frameworks
from plan.model import Cell
from plan.spec import make_spec

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "workflow/scripts/frameworks/runtime.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", type=json.loads, required=True, help="its settings as JSON")
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--attempt", type=int, required=True, help="which try this is, from 1")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--log", type=Path, required=True, help="gets what the runner prints")
    arguments = parser.parse_args()
    cell = Cell(**arguments.cell)
    spec = make_spec(cell, arguments.repeat, ROOT)
    try:
        with machine_to_itself():
            environment = ROOT / frameworks.environment(cell.framework, cell.device)
            python = runner_python(environment)
            arguments.run.mkdir(parents=True, exist_ok=True)
            path = arguments.run / "spec.json"
            path.write_text(json.dumps(spec, indent=1) + "\n")
            command = [python, str(RUNTIME), str(path), str(arguments.run / "events.jsonl")]
            final = arguments.attempt >= ATTEMPTS
            supervise(spec, command, arguments.run, arguments.log, final)
    except (EnvironmentFault, Fault, OSError) as fault:
        sys.exit(f"error: {spec['cell']} rep{spec['repeat']}: {fault}")


if __name__ == "__main__":
    main()
