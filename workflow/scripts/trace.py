"""Trace a few single steps of a network in one framework, for the comparison of frameworks."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from in_env import EnvironmentFault, runner_python
from measure.supervisor import cores, thread_variables
from plan import frameworks
from plan.parity import STEPS, parity_spec

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "workflow/scripts/frameworks/runtime.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("framework")
    parser.add_argument("precision", choices=list(STEPS))
    parser.add_argument("--output", type=Path, required=True, help="the .npz file to write")
    arguments = parser.parse_args()
    spec = parity_spec(arguments.network, arguments.framework, arguments.precision)
    used = cores(None)
    try:
        python = runner_python(ROOT / frameworks.environment(arguments.framework, "cpu"))
    except EnvironmentFault as fault:
        sys.exit(f"error: {fault}")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(spec, file)
        file.flush()
        command = [
            python,
            str(RUNTIME),
            file.name,
            str(arguments.output),
            "--trace",
            str(STEPS[arguments.precision]),
        ]
        variables = {**os.environ, **thread_variables(len(used), "passive")}
        sys.exit(subprocess.run(command, env=variables).returncode)


if __name__ == "__main__":
    main()
