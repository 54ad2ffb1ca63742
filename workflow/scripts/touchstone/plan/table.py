"""The rows of `results/plan.tsv`: the cells of a study with the settings that they heed."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from touchstone.plan.checks import fault_of
from touchstone.plan.effect import foreign
from touchstone.plan.model import Cell, checker
from touchstone.plan.setting import OPERATION, PROGRAM
from touchstone.plan.study import Plan

HEADER = ("cell", *Cell.model_fields, "repeats")


def rows(plan: Plan) -> Iterator[list[Any]]:
    """A row for each cell, in order of the sweeps; a setting that it does not heed is empty."""
    for name, cell in plan.cells.items():
        yield [name, *settings(cell).values(), plan.study.repeats]


def settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell by name; those that it does not heed are empty texts."""
    values = cell.model_dump()
    if cell.kind in (OPERATION, PROGRAM):
        shown = ("mode", "batch_size") if cell.kind == OPERATION else ("batch_size",)
        values |= {name: None for name in values if name not in shown and foreign(cell, name)}
    return {key: "" if value is None else value for key, value in values.items()}


def texts(cell: Cell) -> dict[str, str]:
    """The settings of a cell by name, as its row has them."""
    return {name: str(value) for name, value in settings(cell).items()}


def cell_of(row: Mapping[str, str]) -> Cell:
    """The cell of a row by column; a setting that it does not heed has its default.

    Raises:
        ValueError: a number is none of its setting, or there is no such operation.
    """
    given = {name: text for name, text in row.items() if name in Cell.model_fields}
    values = {
        name: _value(name, text) for name, text in given.items() if text or None in _kinds(name)
    }
    cell = Cell.model_construct(None, **values)
    if given.get("epochs") == "" and cell.kind not in (OPERATION, PROGRAM):
        raise ValueError(f"network: this version has no operation {cell.network!r}")
    return cell


@cache
def _kinds(name: str) -> tuple[Any, ...]:
    """The types that a setting may have: `None`, a class, or the words of a literal."""
    annotation = Cell.model_fields[name].annotation
    if get_origin(annotation) in (None, dict, list):
        return (annotation,)
    return tuple(None if kind is type(None) else kind for kind in get_args(annotation))


@cache
def _value(name: str, text: str) -> Any:
    """The value of a setting that a row has as this text: words as they are, for another
    version may have more. Raises ValueError for anything else that is none."""
    if not text:
        return None
    if any(kind is str or isinstance(kind, str) for kind in _kinds(name)):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = text
    try:
        return checker(name).validate_python(value)
    except ValidationError as invalid:
        raise ValueError(fault_of(name, invalid.errors()[0], Cell)) from None
