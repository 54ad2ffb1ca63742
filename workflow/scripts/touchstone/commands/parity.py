"""Compute the parity steps of a network in one framework, for the comparison of frameworks.

A framework that cannot do what the network asks for, or that fails, leaves only the reason,
so that the study's tables go on and say that its parity is not shown.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from touchstone.environments import EnvironmentFault, Missing, runner_python
from touchstone.measure.launch import thread_variables
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.parity import parity_spec
from touchstone.schema.spec import spec_to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network")
    parser.add_argument("framework")
    parser.add_argument(
        "--single", action="store_true",
        help="what frameworks that have single precision alone are compared with",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, help="the .npz file to write")


def run(arguments: argparse.Namespace) -> None:
    spec = parity_spec(arguments.network, arguments.framework, arguments.single)
    try:
        python = runner_python(ROOT / frameworks.environment(arguments.framework, "cpu"))
    except Missing as fault:
        reason = f"{fault}; then delete {arguments.output} to try again"
        np.savez(arguments.output, unsupported=reason)
        return
    except EnvironmentFault as fault:
        sys.exit(f"error: {fault}")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(spec_to_json(spec), file)
        file.flush()
        command = [python, str(RUNNER), file.name, str(arguments.output)]
        variables = {**os.environ, **thread_variables(1, "passive")}
        status = subprocess.run(command, env=variables).returncode
    if status:
        log = f"results/logs/parity_steps/{arguments.network}-{arguments.output.stem}.log"
        how = "was killed, as for want of memory" if status == -signal.SIGKILL else "failed"
        reason = f"computing its parity steps {how} ({log}); delete {arguments.output} to try again"
        np.savez(arguments.output, failed=reason)
