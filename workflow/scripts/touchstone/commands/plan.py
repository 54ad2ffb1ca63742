"""Write a study's plan: one row a cell, and the configuration with nothing left out."""

import argparse
import csv
import json
from collections.abc import Collection
from pathlib import Path

import yaml

from touchstone.paths import ROOT
from touchstone.plan.study import Plan, make_plan
from touchstone.plan.table import HEADER, rows
from touchstone.results import digests


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=json.loads, required=True, help="the study as JSON")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--resolved", type=Path, required=True)


def run(arguments: argparse.Namespace) -> None:
    plan = make_plan(arguments.config, ROOT)
    write(plan, plan.cells, arguments.plan, arguments.resolved)


def write(plan: Plan, cells: Collection[str], path: Path, resolved: Path) -> None:
    """Write the rows of these cells, and the resolved configuration, with their digests."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(HEADER)
        table.writerows(row for row in rows(plan) if row[0] in cells)
    with open(resolved, "w", encoding="utf-8") as file:
        yaml.safe_dump(plan.resolved(), file, sort_keys=False, allow_unicode=True)
    digests.write(path.parent, [path, resolved])
