"""Make one run of a cell: write its spec, start its runner in its environment, supervise it."""

import argparse
import contextlib
import json
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from touchstone.datasets.before_run import require_records
from touchstone.datasets.errors import DatasetError
from touchstone.environments import EnvironmentFault, Missing
from touchstone.errors import explained
from touchstone.measure import environment, nodes, skip
from touchstone.measure.attempts import ATTEMPTS, note
from touchstone.measure.interleaving import Candidate, Failed, measure_set, measure_unknown
from touchstone.measure.launch import Fault, cores
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.supervisor import StoodStill, close_without_running, supervise
from touchstone.measure.trials import (
    Measure,
    Search,
    Settings,
    folder_of,
    set_of_runs,
    slice_of,
    timing_of,
    trial_spec,
)
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.environment import add_argument, places, runner_python
from touchstone.plan.estimate import seconds_of_steps
from touchstone.plan.model import Cell
from touchstone.plan.names import BEST
from touchstone.plan.parts import Program
from touchstone.plan.spec import make_spec
from touchstone.results import digests
from touchstone.schema.events import outcome_of, read_events
from touchstone.schema.interleaved import MeasuredSet, Slice
from touchstone.schema.spec import (
    InferenceSpec,
    OperationSpec,
    ProgramSpec,
    RunSpec,
    TrainingSpec,
    spec_to_json,
)
from touchstone.schema.status import ERROR, OK, UNSUPPORTED
from touchstone.schema.values import to_json

WEIGHTS = "weights.npz"
"""In the folder of a run that another one predicts with; like `trials` no output of the rule."""


def write(spec: RunSpec, folder: Path) -> Path:
    """Write the spec into the folder of its run, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.json"
    path.write_text(json.dumps(spec_to_json(spec), indent=1) + "\n")
    return path


def prepare(spec: RunSpec, python: str, folder: Path, runner: Path = RUNNER) -> list[str]:
    """Write the spec into the folder of its run; returns the command of its runner."""
    return [python, str(runner), str(write(spec, folder)), str(folder / "events.jsonl")]


def verified_data(spec: RunSpec) -> dict[str, Any] | None:
    """Verify the record files that a run reads; what env.json says of that, None if it reads none.

    What is loaded into memory is always verified; files that are read while training are, unless
    this machine remembers that they were (`datasets/before_run.py`). Raises DatasetError.
    """
    if isinstance(spec, OperationSpec | ProgramSpec) or spec.factors.input == "synthetic":
        return None
    stems = [stem for names in spec.data.shards.values() for stem in names]
    always = spec.factors.input == "memory"
    return require_records(Path(spec.data.folder), stems, always)._asdict()


def run_on_all_nodes(
    spec: RunSpec,
    python: str,
    folder: Path,
    log: Path,
    final: bool,
    trial: bool = False,
    data: dict[str, Any] | None = None,
) -> None:
    """Supervise the run of a spec, on all of its nodes; see `supervise`."""
    shutil.rmtree(folder / nodes.FOLDER, ignore_errors=True)
    command = prepare(spec, python, folder)
    with nodes.remote_nodes(spec, python, folder) as other_nodes:
        supervise(spec, command, folder, log, final, trial, other_nodes, data)


def with_fastest_settings(
    spec: TrainingSpec, python: str, run: Path, data: dict[str, Any] | None
) -> TrainingSpec:
    """Try what the cell leaves open; returns the spec with the settings that are the fastest.

    The files of the trials and what their turns showed stay in the folder `trials` of the run.
    """
    # It loads SciPy, which no other run needs.
    from touchstone.results.trials import TurnsJudge, trials_of

    execution, framework = spec.execution, spec.factors.framework
    modes = frameworks.modes(framework, execution.style, execution.device)
    whole = execution.world_size > 1
    measure = _measure_runs(spec, python, run, data) if whole else _measure_turns(spec, python, run)
    search = Search(execution, measure, TurnsJudge(), in_pairs=execution.device == "gpu")
    choice = search.run(modes, frameworks.supports_wait_policy(framework), len(cores(None)))
    (run / "trials").mkdir(parents=True, exist_ok=True)
    (run / "trials/sets.json").write_text(json.dumps(to_json(search.sets)) + "\n")
    trials = trials_of(search, choice, run)
    return spec._replace(execution=choice.applied_to(execution), trials=trials)


def _measure_turns(spec: TrainingSpec, python: str, run: Path) -> Measure:
    """Measures sets of settings of a spec that take turns; those that passed start together."""
    passed = set[Settings]()

    def candidate(settings: Settings) -> Candidate:
        name = folder_of(settings, spec.execution)
        short = trial_spec(spec, settings)
        command = prepare(short, python, run / name)
        events, log = run / name / "events.jsonl", run / name / "train.log"
        return Candidate(name, short, command, events, log, 0.0)

    def measure(
        number: int, settings: Sequence[Settings], least: float
    ) -> tuple[MeasuredSet, list[Failed]]:
        candidates, timing = list(map(candidate, settings)), timing_of(len(settings))
        if passed.issuperset(settings):
            with contextlib.suppress(Failed):
                return measure_set(number, [candidates], timing, spec.seed, least), []
        set_, failed = measure_unknown(number, candidates, timing, spec.seed, least)
        ill = {fault.cell for fault in failed}
        passed.update(choice for choice in settings if folder_of(choice, spec.execution) not in ill)
        return set_, failed

    return measure


def _measure_runs(
    spec: TrainingSpec, python: str, run: Path, data: dict[str, Any] | None
) -> Measure:
    """Measures sets of settings of a spec with several replicas: each trial is a run."""
    names: dict[str, Settings] = {}

    def attempt(name: str) -> Slice:
        folder, short = run / name, trial_spec(spec, names[name])
        log = folder / "train.log"
        try_it = partial(run_on_all_nodes, short, python, folder, log, final=True, trial=True)
        try:
            try_it(data=data)
        except StoodStill:
            try_it(data=data)
        return slice_of(folder / "events.jsonl", name)

    def measure(
        number: int, settings: Sequence[Settings], least: float
    ) -> tuple[MeasuredSet, list[Failed]]:
        own = {folder_of(choice, spec.execution): choice for choice in settings}
        names.update(own)
        return set_of_runs(number, list(own), spec.seed, attempt)

    return measure


def untrained(run: Path) -> tuple[str, str] | None:
    """The outcome and reason of a run that cannot predict, for this one left no weights."""
    if (run / WEIGHTS).exists():
        if why := digests.why_edited(run):
            raise Fault(why)
        return None
    last = outcome_of(read_events(run / "events.jsonl"))
    if last.status == OK:
        raise Fault(f"{run / WEIGHTS} is gone; delete {run} so that it is trained again")
    return UNSUPPORTED, f"no weights: {run} ended as {last.status} ({last.reason})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cell", type=json.loads, required=True, help="its settings as JSON")
    parser.add_argument("--repeat", type=int, required=True)
    parser.add_argument("--attempt", type=int, required=True, help="which try this is, from 1")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--log", type=Path, required=True, help="gets what the runner prints")
    parser.add_argument("--keep-weights", action="store_true", help="in the folder of the run")
    parser.add_argument("--weights", type=Path, help="the run whose weights this one predicts with")
    parser.add_argument("--program", type=Program.model_validate_json, help="that it runs, as JSON")
    add_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    digests.forget(arguments.run)
    _run(arguments)
    digests.write(arguments.run, _files(arguments.run))


def _files(run: Path) -> list[Path]:
    """What a run wrote that its record, or the run that predicts with it, is made from."""
    names = ("spec.json", "events.jsonl", "telemetry.csv", "env.json", "node.json", WEIGHTS)
    return [path for name in names for path in (run / name, *run.glob(f"nodes/*/{name}"))]


def _run(arguments: argparse.Namespace) -> None:
    cell = Cell(**arguments.cell)
    spec = make_spec(cell, arguments.repeat, ROOT, arguments.program)
    try:
        with machine_to_itself(f"{spec.cell} rep{spec.repeat}"):
            shutil.rmtree(arguments.run / "trials", ignore_errors=True)
            (arguments.run / WEIGHTS).unlink(missing_ok=True)
            # Not of the run's identity, for it depends on the machine.
            if not arguments.program:  # nobody knows how long a program prepares its steps
                folder, cores_there = ROOT / "config/datasets", environment.usable_cores()
                seconds = seconds_of_steps(cell, folder, cores_there)
                spec = spec._replace(limits=spec.limits._replace(estimate=seconds))
            if arguments.keep_weights and isinstance(spec, TrainingSpec):
                spec = spec._replace(keep_weights=str(arguments.run / WEIGHTS))
            outcome = skip.outcome_without_running(
                *(cell.device, spec.cell, arguments.repeat, arguments.attempt, cell.replicas),
                frameworks.capabilities(cell.framework).newest_gpu,
            )
            if why := frameworks.unsupported(cell):
                outcome = UNSUPPORTED, why
            if arguments.weights and isinstance(spec, InferenceSpec):
                spec = spec._replace(weights=str(arguments.weights / WEIGHTS))
                outcome = outcome or untrained(arguments.weights)
            if outcome:
                write(spec, arguments.run)
                close_without_running(spec, arguments.run, arguments.log, *outcome)
                return
            try:
                own = places(arguments)
                python = runner_python(
                    cell.environment, cell.framework, cell.device, cell.style, own
                )
                data = verified_data(spec)
            except (Missing, DatasetError) as fault:
                how = UNSUPPORTED if isinstance(fault, Missing) else ERROR
                write(spec, arguments.run)
                close_without_running(spec, arguments.run, arguments.log, how, str(fault))
                # It may be repaired later: the next execution tries again.
                note(arguments.run, str(fault))
                return
            if cell.mode == BEST and isinstance(spec, TrainingSpec):
                spec = with_fastest_settings(spec, python, arguments.run, data)
            final = arguments.attempt >= ATTEMPTS
            run_on_all_nodes(spec, python, arguments.run, arguments.log, final, data=data)
    except (EnvironmentFault, Fault, OSError) as fault:
        sys.exit(f"error: {spec.cell} rep{spec.repeat}: {explained(fault)}")
