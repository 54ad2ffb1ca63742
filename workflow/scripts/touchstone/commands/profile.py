"""Profile some steps of a cell, layer by layer, in a process of its own.

What cannot be profiled leaves its outcome and the reason, so that the study's tables go on.
"""

import argparse
import json
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from touchstone.commands.interleave import run_spec, why_no_turn
from touchstone.commands.run import verified_data
from touchstone.datasets.errors import DatasetError
from touchstone.environments import EnvironmentFault, Missing
from touchstone.errors import explained
from touchstone.files import write_atomic
from touchstone.measure import skip
from touchstone.measure.attempts import ATTEMPTS
from touchstone.measure.launch import Fault, cores, start_runner, variables_of
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.processes import account
from touchstone.measure.standstill import Lost, Standstill, is_stopped
from touchstone.paths import RUNNER
from touchstone.plan.environment import Places, add_argument, places, runner_python
from touchstone.results import digests
from touchstone.schema.events import outcome_of, read_events
from touchstone.schema.profile import without_numbers
from touchstone.schema.spec import ProfileSpec, TrainingSpec, spec_to_json
from touchstone.schema.status import ERROR, TIMEOUT, UNSUPPORTED
from touchstone.schema.values import to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run", type=Path, required=True, help="the folder of the cell's first run"
    )
    parser.add_argument("--output", type=Path, required=True, help="the profile to write, JSON")
    parser.add_argument("--log", type=Path, required=True, help="gets what the runner prints")
    add_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    output: Path = arguments.output
    spec = run_spec(arguments.run / "spec.json")
    if not isinstance(spec, TrainingSpec):
        sys.exit(f"error: {arguments.run}: it does not train; profile a run that does")
    try:
        with machine_to_itself(f"profile of {spec.cell}"):
            failure = _failure(spec, arguments.run, output, arguments.log, places(arguments))
    except (EnvironmentFault, DatasetError, Fault, OSError) as fault:
        sys.exit(f"error: {spec.cell}: {explained(fault)}")
    if failure:
        profile = without_numbers(spec.cell, *failure)
        write_atomic(output, json.dumps(to_json(profile), indent=1) + "\n")
    digests.write(digests.own_folder(output), [output])


def _failure(
    spec: TrainingSpec, first: Path, output: Path, log: Path, envs: Places
) -> tuple[str, str] | None:
    """Profile a run; its outcome and the reason where no profile was written."""
    events = read_events(first / "events.jsonl")
    if reason := why_no_turn(events):
        return outcome_of(events).status, reason
    if reason := digests.why_edited(first):
        return ERROR, reason
    if why := skip.no_device(spec.execution.device):
        return UNSUPPORTED, f"there is {why}"
    factors, execution = spec.factors, spec.execution
    again = f"delete {output} to try again"
    try:
        python = runner_python(
            factors.environment, factors.framework, execution.device, execution.style, envs
        )
    except Missing as fault:
        return UNSUPPORTED, f"{fault}; then {again}"
    verified_data(spec)
    output.parent.mkdir(parents=True, exist_ok=True)
    path = output.with_suffix(".spec.json")
    path.write_text(json.dumps(spec_to_json(ProfileSpec(spec))) + "\n", encoding="utf-8")
    command = [python, str(RUNNER), str(path), str(output)]
    try:
        for _ in range(ATTEMPTS):
            status, lost = _profile(spec, command, log)
            if not lost.too_long:
                break
            print(f"{spec.cell}: {lost}", file=sys.stderr)
    finally:
        path.unlink()
    if lost.too_long:
        return ERROR, f"{lost}; {again}"
    if status is None:
        return TIMEOUT, f"its profile took more than {spec.limits.seconds:g} s; {again}"
    return (ERROR, f"its profile failed ({log}); {again}") if status else None


def _profile(spec: TrainingSpec, command: list[str], log: Path) -> tuple[int | None, Lost]:
    """Execute the runner of a profile: its exit status, None beyond its time, and the time in
    which nothing could work."""
    used = cores(spec.execution.threads)
    with open(log, "wb") as file:
        runner = start_runner(command, used, variables_of(spec, used), file)

    def cpu_seconds() -> float:
        usage = account(runner.pid)
        return usage.cpu_seconds if usage else 0.0

    try:
        with Standstill(cpu_seconds, partial(is_stopped, runner.pid), len(used)) as standstill:
            with suppress(subprocess.TimeoutExpired):
                runner.wait(spec.limits.seconds)
            return runner.returncode, standstill.lost
    finally:
        runner.end()
        runner.wait()
