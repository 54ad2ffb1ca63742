"""Write a study's plan: one row a cell, and the configuration with nothing left out."""

import argparse
import csv
import json
from pathlib import Path

import yaml

from touchstone.paths import ROOT
from touchstone.plan.study import make_plan
from touchstone.plan.table import HEADER, rows
from touchstone.results import digests


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=json.loads, required=True, help="the study as JSON")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--resolved", type=Path, required=True)


def run(arguments: argparse.Namespace) -> None:
    plan = make_plan(arguments.config, ROOT)
    with open(arguments.plan, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(HEADER)
        table.writerows(rows(plan))
    with open(arguments.resolved, "w", encoding="utf-8") as file:
        yaml.safe_dump(plan.resolved(), file, sort_keys=False, allow_unicode=True)
    digests.write(arguments.plan.parent, [arguments.plan, arguments.resolved])
