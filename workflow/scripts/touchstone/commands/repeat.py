"""Have the next execution repeat runs of a study, though nothing that they depend on has changed.

Without a file they are those of the default study. Each run gets a line like that of a fault, after
which every execution tries a run again until it is done (`measure/attempts.py`).
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from touchstone.analysis.again import ALL, DISTURBED
from touchstone.analysis.doubts import DISTURBING
from touchstone.measure.attempts import note
from touchstone.paths import ROOT
from touchstone.plan.read import ConfigError, read_on_default
from touchstone.plan.study import make_plan
from touchstone.results.files import REMAKE, InputError, read_object

GROUP = "Studies"

RESULTS = Path("results")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", choices=(DISTURBED, ALL),
        help="those that something else disturbed, or all of the study",
    )  # fmt: skip
    parser.add_argument("file", type=Path, nargs="?", help="of the study")


def run(arguments: argparse.Namespace) -> None:
    try:
        plan = make_plan(read_on_default(ROOT, arguments.file), ROOT)
    except ConfigError as fault:
        sys.exit(f"error: {fault}")
    chosen = selected(arguments.runs, plan.order)
    for cell, repeat in chosen:
        note(RESULTS / "runs" / cell / f"rep{repeat}", f"repeated on demand ({arguments.runs})")
    count = f"{len(chosen)} of {len(plan.order)} runs"
    print(f"{plan.study.study}: {count} {'is' if len(chosen) == 1 else 'are'} repeated")


def selected(runs: str, order: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those of the runs (cell, repeat) of a study that are to be repeated.

    A run without a record is left out: the workflow makes it anyway. Raises InputError.
    """
    records = {(cell, n): RESULTS / f"records/{cell}/rep{n}.json" for cell, n in order}
    made = {key: path for key, path in records.items() if path.exists()}
    return [key for key, path in made.items() if runs == ALL or _is_disturbed(path)]


def _is_disturbed(path: Path) -> bool:
    """Whether the run of a record was."""
    flags = read_object(path, REMAKE).get("flags")
    if not isinstance(flags, list):
        raise InputError(path, "it has no list of flags", REMAKE)
    return not DISTURBING.isdisjoint(map(str, flags))
