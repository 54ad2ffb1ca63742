"""Write a study's plan: one row a cell, and the configuration with nothing left out."""

import argparse
import csv
import json
from pathlib import Path

import yaml

from touchstone import operations
from touchstone.paths import ROOT
from touchstone.plan.model import Cell
from touchstone.plan.read import OPERATION, is_operation
from touchstone.plan.study import make_plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=json.loads, required=True, help="the study as JSON")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--resolved", type=Path, required=True)


def run(arguments: argparse.Namespace) -> None:
    plan = make_plan(arguments.config, ROOT)
    with open(arguments.plan, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["cell", *Cell.model_fields, "repeats"])
        for name, cell in plan.cells.items():
            values = cell.model_dump()
            known = (*OPERATION, "mode", "batch_size") if is_operation(cell) else tuple(values)
            if is_operation(cell) and operations.collective(cell.network):
                known = (*known, "replicas")
            said = (values[key] if key in known else None for key in values)
            row = ("" if value is None else value for value in said)
            table.writerow([name, *row, plan.study.repeats])
    with open(arguments.resolved, "w", encoding="utf-8") as file:
        yaml.safe_dump(plan.resolved(), file, sort_keys=False, allow_unicode=True)
