"""The rows of `results/plan.tsv`: the cells of a study with the settings that they heed."""

from collections.abc import Iterator
from typing import Any

from touchstone.plan.effect import foreign
from touchstone.plan.model import Cell
from touchstone.plan.setting import OPERATION
from touchstone.plan.study import Plan

HEADER = ("cell", *Cell.model_fields, "repeats")


def rows(plan: Plan) -> Iterator[list[Any]]:
    """A row for each cell, in order of the sweeps; a setting that it does not heed is empty."""
    for name, cell in plan.cells.items():
        yield [name, *settings(cell).values(), plan.study.repeats]


def settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell by name; those that it does not heed are empty texts."""
    values = cell.model_dump()
    if cell.kind == OPERATION:
        shown = ("mode", "batch_size")
        values |= {name: None for name in values if name not in shown and foreign(cell, name)}
    return {key: "" if value is None else value for key, value in values.items()}
