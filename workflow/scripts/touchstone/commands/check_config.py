"""Check a configuration file as it would be used on top of the default study, and count it."""

import argparse
import os
import sys
from pathlib import Path

from touchstone.measure import skip
from touchstone.paths import ROOT
from touchstone.plan.estimate import estimate
from touchstone.plan.read import ConfigError, inherited_text, read, read_on_default, read_own
from touchstone.plan.study import Plan, make_plan
from touchstone.published.dossier import DossierError
from touchstone.published.forecast import forecast_of
from touchstone.results.turn_groups import groups

GROUP = "Studies"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument("--quiet", action="store_true", help="print nothing but faults")


def run(arguments: argparse.Namespace) -> None:
    try:
        config = read_on_default(ROOT, arguments.file)
        plan = make_plan(config, ROOT)
        if not arguments.quiet:
            default = read(ROOT / "config/config.yaml")
            inherited = inherited_text(default, read_own([arguments.file]))
            text = described(plan, forecast_of(plan, config, ROOT, skip.no_device))
            print("\n".join(filter(None, [inherited, text])))
    except (ConfigError, DossierError) as fault:
        sys.exit(f"error: {fault}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def described(plan: Plan, claims: str) -> str:
    """The size of a study, and what the start of an execution prints where nothing is made yet:
    how long it takes, and the line on its `claims`."""
    runs = dict.fromkeys(plan.cells, plan.study.repeats)
    folder, cores = ROOT / "config/datasets", os.cpu_count() or 1
    lines = [
        f"{plan.study.study}: {_count(len(plan.cells), 'cell')}, {_count(len(plan.order), 'run')}",
        plan.unsupported_text,
        estimate(plan, runs, folder, cores, groups(plan).values()).text,
        claims,
    ]
    return "\n".join(filter(None, lines))
