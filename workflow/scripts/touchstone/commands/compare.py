"""Compare two results folders, or measure two installations in turn: checkouts of Touchstone, or
Pythons with a framework.

Exit 0: nothing is shown to be slower, or with --tolerance: a larger slowdown is excluded for every
configuration; 1: a configuration is slower, by more than is tolerated; 2: one cannot be compared;
3: a slowdown beyond the tolerance is neither shown nor excluded. All configurations are judged
together: the exit status is 1 by chance in at most 5 % of comparisons of equal sides.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from touchstone.analysis.compare_in_turn import (
    NEW,
    OLD,
    Configuration,
    Recorded,
    changes_in_turn,
    heading,
)
from touchstone.analysis.compare_results import compare, read_results
from touchstone.analysis.gate import NOT_COMPARED, Gate, judged_in_turn, judged_together
from touchstone.analysis.gate_text import as_table, as_text, configurations, verdict_of
from touchstone.analysis.part import UNIT_OF
from touchstone.commands.interleave import candidate, measure
from touchstone.environments import EnvironmentFault, ensure, installed
from touchstone.errors import UsageError, explained
from touchstone.files import write_atomic
from touchstone.measure.environment import machine, usable_cores
from touchstone.measure.interleaving import Candidate
from touchstone.measure.launch import Fault
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.progress import duration
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.estimate import seconds_of_turns
from touchstone.plan.installations import Installation, framework_of
from touchstone.plan.model import Cell
from touchstone.plan.names import framework_name
from touchstone.plan.parts import Interleave, Program
from touchstone.plan.read import ConfigError, read_on_default
from touchstone.plan.setting import PROGRAM
from touchstone.plan.spec import make_spec
from touchstone.plan.study import Plan, make_plan
from touchstone.reading import share_of
from touchstone.report.gate import make_page
from touchstone.results.files import InputError
from touchstone.results.metrics import SPEEDS, TIMES
from touchstone.schema.events import Software, Start, events_of
from touchstone.schema.values import to_json
from touchstone.statistics.intervals import SESSION_SD

GROUP = "Results"

PRECISION = 0.03
"""How far an interval reaches beyond its ratio, at most, before no more sets are measured."""
TABLE = Path("results/compare/changes.csv")
"""What the comparison of installations writes, with a page and the sets beside it."""

Side = Path | Installation
"""A results folder, or what can be measured."""


def side(text: str) -> Side:
    """What the command line names: a results folder, a checkout, or a Python."""
    path = Path(text)
    if text and (path / RUNNER.relative_to(ROOT)).is_file():
        return Installation("", path.resolve())
    if text and path.is_dir():
        return path
    if text and path.is_file() and os.access(path, os.X_OK):
        return Installation(str(path.absolute()), ROOT)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no folder and no Python; give a results folder, the folder of a checkout of"
        " Touchstone, or the Python of an environment"
        " (in the workflow: snakemake compare --config against=FOLDER)"
    )


def share(text: str) -> float:
    """A share on the command line."""
    try:
        return share_of(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a results folder; or a checkout of Touchstone, or a Python: measured in turn"
    parser.add_argument("old", type=side, help=f"what to compare with: {what}")
    parser.add_argument("new", type=side, help="what is in question, of the same kind")
    parser.add_argument(
        "--tolerance",
        type=share,
        help="pass only if a larger slowdown is excluded, 5%% or 0.05; the exit status is 3 where"
        " that is not known",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="the table to write, CSV, with a page of the same name beside it (default: none of"
        f" results folders; {TABLE} of what is measured in turn, with its sets as JSON)",
    )
    results = parser.add_argument_group("two results folders")
    results.add_argument("--metric", choices=[*SPEEDS, *TIMES], default="throughput")
    results.add_argument(
        "--session-sd",
        type=float,
        default=SESSION_SD,
        help="standard deviation of the logarithm between sittings (default: %(default)s)",
    )
    turns = parser.add_argument_group("measured in turn")
    turns.add_argument(
        "--framework",
        choices=frameworks.adapters(),
        help="needed where both sides have several frameworks of the study",
    )
    turns.add_argument(
        "--config",
        type=Path,
        help="a study, whose configurations of the framework are compared on noise that they hold"
        " in memory (default: the default study)",
    )
    turns.add_argument(
        "--program",
        help="instead of a study's configurations, a script of yours with its arguments, as"
        " 'train.py --batch-size 64' (docs/programs.md)",
    )
    turns.add_argument(
        "--precision",
        type=float,
        help="measure until each interval reaches at most this share beyond its ratio (default:"
        f" {PRECISION}, or half of the tolerance where that is less)",
    )
    usual, options = "of fresh processes (default: %(default)s)", Interleave()
    turns.add_argument("--sets", type=int, default=options.sets, help=f"the fewest sets {usual}")
    turns.add_argument("--max-sets", type=int, default=15, help=f"the most sets {usual}")
    turns.add_argument(
        "--rounds",
        type=int,
        default=options.rounds,
        help="quiet rounds of a set (default: %(default)s)",
    )
    turns.add_argument(
        "--max-seconds",
        type=float,
        default=options.max_seconds,
        help="begin no set of a configuration later than this (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    old, new = arguments.old, arguments.new
    if isinstance(old, Installation) and isinstance(new, Installation):
        return _compare_installations(old, new, arguments)
    if isinstance(old, Installation) or isinstance(new, Installation):
        raise UsageError("a results folder can only be compared with another one")
    return _compare_results(old, new, arguments)


def _compare_results(old_folder: Path, new_folder: Path, arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.session_sd < 1:
        raise UsageError("--session-sd must be a share from 0 to 1, such as 0.03")
    try:
        old = read_results(old_folder, arguments.metric)
        new = read_results(new_folder, arguments.metric)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_COMPARED
    changes = compare(old, new, arguments.metric, arguments.session_sd)
    gate = judged_together(changes, arguments.metric, arguments.session_sd, arguments.tolerance)
    print(as_text(gate))
    if arguments.output:
        _write(gate, arguments.output, f"{old_folder} -> {new_folder}")
    print(verdict_of(gate))
    return gate.status


def _write(gate: Gate, table: Path, title: str) -> None:
    """Write the table and the page beside it, and say where they are."""
    page = table.with_suffix(".html")
    write_atomic(table, as_table(gate))
    write_atomic(page, make_page(gate, title, table.name))
    print(f"The table: {table}; the page: {page}")


def _compare_installations(
    old: Installation, new: Installation, arguments: argparse.Namespace
) -> int:
    options = _options(arguments)
    sides = {OLD: old, NEW: new}
    print(f"Compares {OLD}, {old.place}, with {NEW}, {new.place}", flush=True)
    try:
        if arguments.program:
            usual = [arguments.framework] if arguments.framework else frameworks.names()
            framework = framework_of(sides, usual, arguments.framework)
            plan = make_plan(_study_of(arguments.program, framework), ROOT)
            cells = plan.cells
        else:
            plan = make_plan(read_on_default(ROOT, arguments.config), ROOT)
            cells = _cells(plan)
            studied = list(dict.fromkeys(cell.framework for cell in cells.values()))
            framework = framework_of(sides, studied, arguments.framework)
            cells = {name: cell for name, cell in cells.items() if cell.framework == framework}
        print(_announcement(framework, cells, options), flush=True)
        with (
            machine_to_itself(f"compare, {framework}"),
            tempfile.TemporaryDirectory() as folder,
        ):
            compared = [
                _measured(name, cell, plan.program(cell), sides, options, Path(folder) / name)
                for name, cell in cells.items()
            ]
    except (ConfigError, EnvironmentFault, Fault, OSError) as fault:
        print(f"error: {explained(fault)}", file=sys.stderr)
        return NOT_COMPARED
    gate = judged_in_turn(changes_in_turn(compared), arguments.tolerance)
    title = heading(compared) or f"{framework}: {old.place} -> {new.place}"
    table = arguments.output or TABLE
    sets = json.dumps([to_json(configuration.turns) for configuration in compared])
    write_atomic(table.with_suffix(".json"), f"{sets}\n")
    print(f"{title}\n{as_text(gate)}")
    _write(gate, table, title)
    print(verdict_of(gate))
    return gate.status


def _options(arguments: argparse.Namespace) -> Interleave:
    """How the installations take turns. Raises UsageError."""
    precision = arguments.precision
    if precision is None:
        precision = min(PRECISION, (arguments.tolerance or 2 * PRECISION) / 2)
    try:
        return Interleave(
            sets=arguments.sets,
            rounds=arguments.rounds,
            precision=precision,
            max_sets=arguments.max_sets,
            max_seconds=arguments.max_seconds,
        )
    except ValidationError as fault:
        faults = (f"--{e['loc'][0]}: {e['msg']}".replace("_", "-") for e in fault.errors())
        raise UsageError("; ".join(faults)) from None


def _announcement(framework: str, cells: dict[str, Cell], options: Interleave) -> str:
    """What is measured, and about how long."""
    cores, folder = usable_cores(), ROOT / "config/datasets"
    times = [seconds_of_turns([cell] * 2, options, folder, cores) for cell in cells.values()]
    about = f"about {duration(sum(filter(None, times)))}; " if all(times) else ""
    last = duration(len(cells) * options.max_seconds)
    scripts = any(cell.kind == PROGRAM for cell in cells.values())
    what = "a script" if scripts else f"{configurations(len(cells))} on noise in memory"
    return (
        f"{framework_name(framework)}, {what}: {about}on a"
        f" busy machine sets begin until {last} have passed"
    )


def _study_of(command: str, framework: str) -> dict[str, Any]:
    """The study of one script with its arguments. Raises ConfigError."""
    try:
        file, *given = shlex.split(command)
    except ValueError as fault:
        raise ConfigError(f"--program: {fault}; give a script and its arguments") from None
    program = {"file": file, "arguments": given, "framework": framework}
    return {
        "study": "compare", "title": "Compare", "programs": {"script": program},
        "sweeps": [{"program": "script"}],
    }  # fmt: skip


def _cells(plan: Plan) -> dict[str, Cell]:
    """The cells of a study that take turns, on noise, by name. Raises ConfigError."""
    cells = {
        name: cell.model_copy(update={"input": "synthetic"}) if cell.reads else cell
        for name, cell in plan.cells.items()
        if cell.world_size == 1
    }
    if not cells:
        raise ConfigError("the study has no configuration with one replica; give another --config")
    return cells


def _measured(
    name: str,
    cell: Cell,
    program: Program | None,
    sides: dict[str, Installation],
    options: Interleave,
    folder: Path,
) -> Configuration:
    candidates = [_candidate(key, cell, program, sides[key], folder / key) for key in sides]
    turns = measure(name, "", options, candidates, {}, folder / "sets")
    recorded = {c.cell: _recorded(c.events) for c in candidates}
    unit = UNIT_OF[cell.kind]
    return Configuration(turns, unit, _device(cell.device), recorded)


def _recorded(events: Path) -> Recorded:
    """What the last process of a side recorded; nothing where it could not."""
    try:
        return Recorded.of(events_of(events.read_text(encoding="utf-8"), Start, Software))
    except (OSError, ValueError):
        return Recorded()


def _device(device: str) -> str:
    """`CPU (AMD EPYC 9B14)`: what computes, by the machine's own words."""
    here = machine({})
    names = [gpu["name"] for gpu in here["gpus"]] if device == "gpu" else [here["cpu_model"]]
    return f"{device.upper()} ({', '.join(dict.fromkeys(filter(None, names))) or 'unknown'})"


def _candidate(
    key: str, cell: Cell, program: Program | None, installation: Installation, folder: Path
) -> Candidate:
    """A side, which does the first run's work of a cell. Raises EnvironmentFault."""
    pinned = installation.root / frameworks.environment(cell.framework, cell.device, cell.style)
    python = installation.python or str(ensure(pinned, installed()))
    spec = make_spec(cell, 1, ROOT, program)._replace(cell=key)
    return candidate(spec, python, folder, installation.root / RUNNER.relative_to(ROOT))
