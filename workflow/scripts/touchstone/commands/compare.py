"""Compare two results folders, or measure two installations in turn: checkouts of Touchstone, or
Pythons with a framework.

Exit 0: nothing is slower; 1: a configuration is; 2: one cannot be compared. All configurations are
judged together: the exit status is 1 by chance in at most 5 % of comparisons of equal sides.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from touchstone.analysis.compare_in_turn import judge
from touchstone.analysis.compare_results import (
    as_table,
    as_text,
    compare,
    exit_code,
    judged_together,
    read_results,
)
from touchstone.commands.interleave import candidate, measure
from touchstone.environments import EnvironmentFault, ensure, installed
from touchstone.errors import UsageError, explained
from touchstone.measure.interleaving import Candidate
from touchstone.measure.launch import Fault
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.paths import ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parts import Interleave
from touchstone.plan.read import ConfigError, is_operation, read_on_default
from touchstone.plan.spec import make_spec
from touchstone.plan.study import make_plan
from touchstone.results.files import InputError, write_atomic
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.intervals import SESSION_SD, SPEEDS, TIMES

OLD, NEW = "old", "new"
"""The names of the two installations in turns and in the text."""
NOT_COMPARED = 2


class Installation(NamedTuple):
    """A framework and an adapter that can run here.

    python: with the framework; empty for the environment that the checkout pins
    root: the checkout whose runner and adapters are used
    """

    python: str
    root: Path


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "a results folder; or a checkout of Touchstone, or a Python: measured in turn"
    parser.add_argument("old", type=side, help=f"what to compare with: {what}")
    parser.add_argument("new", type=side, help="what is in question, of the same kind")
    parser.add_argument("--output", type=Path, help="the table to write, CSV; of results only")
    results = parser.add_argument_group("two results folders")
    results.add_argument("--metric", choices=SPEEDS + TIMES, default="throughput")
    results.add_argument(
        "--session-sd",
        type=float,
        default=SESSION_SD,
        help="standard deviation of the logarithm between sittings (default: %(default)s)",
    )
    turns = parser.add_argument_group("measured in turn")
    turns.add_argument("--framework", choices=frameworks.adapters(), default="pytorch")
    turns.add_argument(
        "--config",
        type=Path,
        help="a study, whose configurations of the framework are compared on noise that they hold"
        " in memory (default: the default study)",
    )
    turns.add_argument(
        "--precision",
        type=float,
        default=0.03,
        help="measure until each interval reaches at most this share beyond its ratio"
        " (default: %(default)s)",
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
    gate = judged_together(changes, arguments.metric, arguments.session_sd)
    print(as_text(gate, arguments.metric))
    if arguments.output:
        write_atomic(arguments.output, as_table(gate.changes, arguments.metric))
        print(f"The table: {arguments.output}")
    return exit_code(gate)


def _compare_installations(
    old: Installation, new: Installation, arguments: argparse.Namespace
) -> int:
    try:
        options = Interleave(
            sets=arguments.sets,
            rounds=arguments.rounds,
            precision=arguments.precision,
            max_sets=arguments.max_sets,
            max_seconds=arguments.max_seconds,
        )
    except ValidationError as fault:
        faults = (f"--{one['loc'][0]}: {one['msg']}".replace("_", "-") for one in fault.errors())
        raise UsageError("; ".join(faults)) from None
    if arguments.output:
        raise UsageError("--output is for two results folders")
    sides = {OLD: old, NEW: new}
    try:
        cells = _cells(arguments.framework, arguments.config)
        with machine_to_itself(), tempfile.TemporaryDirectory() as folder:
            compared = [
                _measured(name, cell, sides, options, Path(folder) / name)
                for name, cell in cells.items()
            ]
    except (ConfigError, EnvironmentFault, Fault, OSError) as fault:
        print(f"error: {explained(fault)}", file=sys.stderr)
        return NOT_COMPARED
    judged = judge(compared)
    print("\n".join(one.text for one in judged))
    verdicts = {one.verdict for one in judged}
    return NOT_COMPARED if "not compared" in verdicts else int("slower" in verdicts)


def _cells(framework: str, file: Path | None) -> dict[str, Cell]:
    """The cells of a framework in a study, on noise, by name. Raises ConfigError."""
    planned = make_plan(read_on_default(ROOT, file), ROOT).cells
    found = {
        name: cell if is_operation(cell) else cell.model_copy(update={"input": "synthetic"})
        for name, cell in planned.items()
        if cell.framework == framework and cell.world_size == 1
    }
    if not found:
        raise ConfigError(f"the study has no configuration of {framework}; give --framework")
    return found


def _measured(
    name: str, cell: Cell, sides: dict[str, Installation], options: Interleave, folder: Path
) -> Interleaved:
    candidates = [_candidate(key, cell, one, folder / key) for key, one in sides.items()]
    return measure(name, "", options, candidates, {}, folder / "sets")


def _candidate(key: str, cell: Cell, one: Installation, folder: Path) -> Candidate:
    """A side, which does the first run's work of a cell. Raises EnvironmentFault."""
    pinned = one.root / frameworks.environment(cell.framework, cell.device, cell.style)
    python = one.python or str(ensure(pinned, installed()))
    spec = make_spec(cell, 1, ROOT)._replace(cell=key)
    return candidate(spec, python, folder, one.root / RUNNER.relative_to(ROOT))
