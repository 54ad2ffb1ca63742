"""Check a configuration file as it would be used on top of the default study, and count it."""

import argparse
import os
import sys
from pathlib import Path

from touchstone.measure import skip
from touchstone.paths import ROOT
from touchstone.plan.estimate import estimate
from touchstone.plan.read import ConfigError, read_on_default
from touchstone.plan.study import make_plan
from touchstone.published.dossier import DossierError
from touchstone.published.forecast import forecast_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument("--quiet", action="store_true", help="print nothing but faults")


def run(arguments: argparse.Namespace) -> None:
    try:
        config = read_on_default(ROOT, arguments.file)
        plan = make_plan(config, ROOT)
        claims = forecast_of(plan, config, ROOT, skip.no_device) if not arguments.quiet else ""
    except (ConfigError, DossierError) as fault:
        sys.exit(f"error: {fault}")
    print(f"{plan.study.study}: {len(plan.cells)} cells, {len(plan.order)} runs")
    runs = dict.fromkeys(plan.cells, plan.study.repeats)
    print(estimate(plan, runs, ROOT / "config/datasets", os.cpu_count() or 1).text)
    if claims:
        print(claims)
