"""Measure the cells of a comparison in turn, set by set; a finished set is kept.

Exit 1, with one line, where the machine or our code is at fault; at the last attempt such a fault
of a cell is recorded like that of a run, and every later execution tries again. A cell that cannot
take part is excluded, with the reason.
"""

import argparse
import csv
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from touchstone.commands.run import prepare, verified_data
from touchstone.datasets.errors import DatasetError
from touchstone.environments import EnvironmentFault
from touchstone.errors import explained
from touchstone.files import write_atomic
from touchstone.measure import attempts, progress, skip
from touchstone.measure.interleaving import (
    FREE_SHARE,
    Candidate,
    Failed,
    Timing,
    available_mib,
    groups_that_fit,
    measure_set,
)
from touchstone.measure.launch import Fault
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.paths import RUNNER
from touchstone.plan.environment import Places, add_argument, places, remembered_python
from touchstone.plan.parts import Interleave
from touchstone.plan.read import digest
from touchstone.results import digests
from touchstone.results.interleaved import only_near, reach, speeds_by_set
from touchstone.schema.events import Chunk, Event, outcome_of, read_events
from touchstone.schema.interleaved import FORMAT, Interleaved, MeasuredSet, least_latency
from touchstone.schema.spec import (
    UNTIL_END,
    InferenceSpec,
    OperationSpec,
    ProgramSpec,
    RunSpec,
    TrainingSpec,
    spec_from_json,
)
from touchstone.schema.status import ERROR, OK, TIMEOUT
from touchstone.schema.values import WrongValue, from_json, to_json

LEAST_SETS = 3
"""Without which no interval can be trusted, however long they take."""
HOST_MEMORY = "host_memory"
"""The column of telemetry.csv that says how much memory a run needs."""


class Excluded(Exception):
    """Why a cell takes no part."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", required=True, help="name of the comparison")
    parser.add_argument("--cells", nargs="+", required=True, help="their names; each ran once")
    parser.add_argument("--options", type=Interleave.model_validate_json, required=True)
    parser.add_argument("--identity", required=True, help="digest of all that the numbers rest on")
    parser.add_argument("--attempt", type=int, required=True, help="which try this is, from 1")
    parser.add_argument("--output", type=Path, required=True, help="the file of all sets")
    parser.add_argument("--log", type=Path, required=True, help="gets what the runners print")
    add_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    folder, options = arguments.output.with_suffix(""), arguments.options
    try:
        with machine_to_itself(f"{arguments.group} in turn"):
            candidates, excluded = _candidates(arguments.cells, places(arguments), folder)
            result = measure(
                arguments.group, arguments.identity, options, candidates, excluded, folder,
                final=arguments.attempt >= attempts.ATTEMPTS,
            )  # fmt: skip
    except (EnvironmentFault, Fault, OSError) as fault:
        sys.exit(f"error: {arguments.group}: {explained(fault)}")
    finally:
        _keep_logs(folder, arguments.log)
    write_atomic(arguments.output, json.dumps(to_json(result)) + "\n")
    digests.note(folder, arguments.output)


def measure(
    group: str,
    identity: str,
    options: Interleave,
    candidates: list[Candidate],
    excluded: Mapping[str, str],
    folder: Path,
    final: bool = True,
) -> Interleaved:
    """Measure sets until there are enough. A cell that fails is excluded, and all begins again.

    A fault of the machine or the code is recorded in `folder`, unless this attempt is not `final`.

    Args:
        identity: of all that the numbers depend on; kept sets of another one are not used.
        excluded: by cell, why it cannot be a candidate.
        folder: keeps each set as soon as it is measured.

    Raises:
        Fault: such a fault, where this attempt is not `final`.
    """
    excluded = dict(excluded)

    def result(
        taking: Sequence[Candidate], paired: str = "", sets: Sequence[MeasuredSet] = ()
    ) -> Interleaved:
        return Interleaved(
            FORMAT, group, [member.cell for member in taking], excluded, options.rounds,
            options.slice_seconds, options.lead_seconds, paired, list(sets), options.precision,
        )  # fmt: skip

    if len(candidates) < 2:
        return result(candidates)
    memory, why = FREE_SHARE * available_mib(), ""
    while len(candidates) > 1:
        together, left = groups_that_fit(candidates, memory)
        if why:
            together = [[candidates[0], member] for member in candidates[1:]]
        elif together != [candidates]:
            excluded |= left
            why = f"all together need more than the {memory:,.0f} MiB of memory that are free"
        taking = list({member.cell: member for pair in together for member in pair}.values())
        if not together:
            return result(taking)
        names = [[member.cell for member in part] for part in together]
        key = digest([identity, names, options.model_dump()])
        try:
            return result(taking, why, _sets(group, key, options, together, folder))
        except Failed as failed:
            why_not = f"{failed.cell} takes no turn: {failed}"
            on_gpu = candidates[0].spec.execution.device == "gpu"
            if on_gpu and not why and len(candidates) > 2:
                # Some frameworks take all memory of a GPU.
                progress.say(f"{group}: {why_not}")
                why = f"all together on the GPU, {failed.cell} failed ({failed})"
                continue
            if failed.status == ERROR and not final:
                raise Fault(why_not) from None
            if failed.status == ERROR:
                attempts.note(folder, why_not)
            progress.say(f"{group}: {why_not}")
            excluded[failed.cell] = str(failed)
            candidates = [member for member in taking if member.cell != failed.cell]
    return result([])


def _sets(
    group: str,
    identity: str,
    options: Interleave,
    together: list[list[Candidate]],
    folder: Path,
) -> list[MeasuredSet]:
    """The sets; those that an earlier execution measured are kept. Raises Failed."""
    most = options.max_sets if options.precision else options.sets
    sets: list[MeasuredSet] = []
    begin = time.monotonic()
    while len(sets) < most:
        number = len(sets) + 1
        path = folder / f"set{number}.json"
        set_ = _kept(path, identity)
        if set_ is None:
            least = least_latency(part for earlier in sets for part in earlier.slices)
            # A set may have the time that those before it did not need.
            share = min(number / options.sets, 1.0)
            left = begin + options.max_seconds * share - time.monotonic()
            near = len(sets) < options.sets or only_near(sets)
            timing = Timing(options.rounds, options.slice_seconds, options.lead_seconds, left, near)
            set_ = measure_set(number, together, timing, together[0][0].spec.seed, least)
            write_atomic(path, json.dumps({"identity": identity, "set": to_json(set_)}) + "\n")
            digests.note(folder, path)
        sets.append(set_)
        if sys.stderr.isatty():
            spent = time.monotonic() - begin
            rest = min(spent / number * (most - number), max(options.max_seconds - spent, 0))
            until = f"about {progress.duration(rest)} left"
            _print(group, sets, f"set {number} of {most}  {until}", end="")
        late = time.monotonic() - begin >= options.max_seconds
        if len(sets) >= options.sets and options.precision and are_narrow(sets, options.precision):
            break
        if late and len(sets) >= LEAST_SETS:
            break
    _print(group, sets, f"{len(sets)} sets", end="\n")
    return sets


def are_narrow(sets: list[MeasuredSet], precision: float) -> bool:
    """Whether all intervals reach at most so far beyond their ratios."""
    cells = list(dict.fromkeys(cell for turns in sets[0].turns for cell in turns.cells))
    reached = reach(speeds_by_set(cells, sets))
    return reached is not None and reached <= 1 + precision


def _print(group: str, sets: Sequence[MeasuredSet], done: str, end: str) -> None:
    rounds = [r for set_ in sets for r in set_.rounds]
    least = least_latency(part for set_ in sets for part in set_.slices)
    quiet = sum(r.quiet and r.near(least) for r in rounds)
    seconds = sum(set_.seconds for set_ in sets)
    rest = f"  {done}  {quiet} of {len(rounds)} rounds quiet  {seconds:.0f} s"
    progress.show(sys.stderr, "in turn  ", group, rest, end)


def _kept(path: Path, identity: str) -> MeasuredSet | None:
    """A set of an earlier execution with this identity; None without one, or if it is damaged or
    not what was written."""
    try:
        text = path.read_text(encoding="utf-8")
        if digests.is_changed(path.parent, path, text):
            progress.say(f"{path}: not what Touchstone wrote; it is measured again")
            return None
        kept = json.loads(text)
        return from_json(MeasuredSet, kept["set"]) if kept["identity"] == identity else None
    except (OSError, ValueError, KeyError, TypeError, WrongValue):
        return None


def _candidates(
    names: list[str], envs: Places, folder: Path
) -> tuple[list[Candidate], dict[str, str]]:
    """The cells that can take part, in order of the plan, and why the others cannot."""
    candidates, excluded = [], {}
    for name in names:
        try:
            candidates.append(_candidate(name, envs, folder))
        except (Excluded, DatasetError) as why:
            excluded[name] = str(why)
    return candidates, excluded


def _candidate(name: str, envs: Places, folder: Path) -> Candidate:
    """A cell, with its first run's spec. Raises Excluded, EnvironmentFault and DatasetError."""
    first = Path("results/runs") / name / "rep1"
    if reason := why_no_turn(read_events(first / "events.jsonl")):
        raise Excluded(reason)
    if reason := digests.why_edited(first):
        raise Excluded(reason)
    spec = run_spec(first / "spec.json")
    if isinstance(spec, ProgramSpec) and spec.program.until == UNTIL_END:
        raise Excluded("it is measured until its script ends (`until: end`)")
    if why := skip.no_device(spec.execution.device):
        raise Excluded(f"there is {why}")
    verified_data(spec)
    factors = spec.factors
    execution = spec.execution
    python = remembered_python(
        factors.environment, factors.framework, execution.device, execution.style, envs
    )
    memory = _peak(first / "telemetry.csv")
    return candidate(spec, python, folder / "processes" / name, memory=memory)


def candidate(
    spec: RunSpec, python: str, folder: Path, runner: Path = RUNNER, memory: float = 0.0
) -> Candidate:
    """The cell of a spec, as a candidate whose files are in `folder`; `memory` is in MiB."""
    command = prepare(spec, python, folder, runner)
    events, log = folder / "events.jsonl", folder / "runner.log"
    return Candidate(spec.cell, spec, command, events, log, memory)


def why_no_turn(events: Sequence[Event]) -> str:
    """Why a cell whose first run left these events cannot take turns; empty where it can.

    A run that measured and was ended at its time limit shows that the cell works: other programs
    may have slowed it down.
    """
    outcome = outcome_of(events)
    worked = any(isinstance(event, Chunk) for event in events)
    if outcome.status == OK or (outcome.status == TIMEOUT and worked):
        return ""
    return f"its first run ended as {outcome.status} ({outcome.reason})"


def run_spec(path: Path) -> RunSpec:
    """The spec of a run, from its `spec.json`, which keeps no weights. Raises Fault."""
    try:
        spec = spec_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, WrongValue) as fault:
        raise Fault(f"{path}: {fault}; delete the run's folder and run again") from None
    if isinstance(spec, TrainingSpec):
        return spec._replace(keep_weights=None)
    if isinstance(spec, (InferenceSpec, OperationSpec, ProgramSpec)):
        return spec
    raise Fault(f"{path}: it is no run's spec")


def _peak(telemetry: Path) -> float:
    """The most host memory of a run, MiB; 0 where no sensor knew it."""
    with open(telemetry, newline="", encoding="utf-8") as file:
        rows: list[Mapping[str, str]] = list(csv.DictReader(file))
    return max((float(row[HOST_MEMORY]) for row in rows if row.get(HOST_MEMORY)), default=0.0)


def _keep_logs(folder: Path, log: Path) -> None:
    """Gather what the runners printed, and remove their folders."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as file:
        for path in sorted((folder / "processes").glob("*/runner.log")):
            file.write(f"== {path.parent.name}\n{path.read_text(errors='replace')}\n")
    shutil.rmtree(folder / "processes", ignore_errors=True)
