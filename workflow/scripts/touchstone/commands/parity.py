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

from touchstone.containers import is_launcher
from touchstone.environments import EnvironmentFault, Missing
from touchstone.measure.launch import thread_variables
from touchstone.measure.variables import of_environment, of_process
from touchstone.paths import RUNNER
from touchstone.plan.environment import add_argument, places, runner_python
from touchstone.plan.parity import parity_spec
from touchstone.results import digests
from touchstone.schema.spec import PINNED, PLAIN, TUNED, spec_to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network")
    parser.add_argument("framework")
    parser.add_argument("--style", choices=(TUNED, PLAIN), default=TUNED, help="whose code")
    parser.add_argument(
        "--single", action="store_true",
        help="what frameworks that have single precision alone are compared with",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, required=True, help="the .npz file to write")
    add_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    _compute(arguments)
    digests.write(digests.own_folder(arguments.output), [arguments.output])


def _compute(arguments: argparse.Namespace) -> None:
    spec = parity_spec(arguments.network, arguments.framework, arguments.single, arguments.style)
    envs = places(arguments)
    # It is given the environment whose steps it computes, or none.
    environment = next(iter(envs), PINNED)
    try:
        python = runner_python(environment, arguments.framework, "cpu", arguments.style, envs)
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
        own = {**thread_variables(1, "passive"), **of_environment(environment)}
        # Python may keep what it compiles, as in a run.
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | own
        if is_launcher(python):
            variables = of_process(python, variables, own)
        status = subprocess.run(command, env=variables).returncode
    if status:
        log = f"results/logs/parity_steps/{arguments.network}-{arguments.output.stem}.log"
        how = "was killed, as for want of memory" if status == -signal.SIGKILL else "failed"
        reason = f"computing its parity steps {how} ({log}); delete {arguments.output} to try again"
        np.savez(arguments.output, failed=reason)
