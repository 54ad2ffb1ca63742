"""The rows of `results/plan.tsv`: the cells of a study with the settings that they heed."""

from collections.abc import Iterator
from typing import Any

from touchstone import operations
from touchstone.plan.model import Cell
from touchstone.plan.read import OPERATION, is_operation
from touchstone.plan.study import Plan

HEADER = ("cell", *Cell.model_fields, "repeats")


def rows(plan: Plan) -> Iterator[list[Any]]:
    """A row for each cell, in order of the sweeps; a setting that it does not heed is empty."""
    for name, cell in plan.cells.items():
        yield [name, *settings(cell).values(), plan.study.repeats]


def settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell by name; those that it does not heed are empty texts."""
    values = cell.model_dump()
    known = (*OPERATION, "mode", "batch_size") if is_operation(cell) else tuple(values)
    if is_operation(cell) and operations.collective(cell.network):
        known = (*known, "replicas")
    said = {key: values[key] if key in known else None for key in values}
    return {key: "" if value is None else value for key, value in said.items()}
