"""Which settings a cell heeds. The others mean nothing to it, so they have their usual value."""

from __future__ import annotations

from collections.abc import Iterable

from touchstone import operations
from touchstone.plan.model import INITIAL, SETTINGS, TRAINED_WEIGHTS, Cell
from touchstone.plan.setting import INFERENCE, OPERATION, PROGRAM, TRAINING, WEIGHTS

KINDS = {
    TRAINING: "workload: training",
    INFERENCE: "workload: inference",
    OPERATION: "an operation",
    PROGRAM: "a program",
}
"""How a study asks for a cell of each kind."""


def foreign(cell: Cell, name: str) -> str | None:
    """What a cell would have to be for the setting `name` to mean anything to it; None if it is."""
    traits = SETTINGS[name]
    if cell.kind not in traits.of:
        if cell.kind in (TRAINING, INFERENCE):
            return KINDS[traits.of[0]]
        between = (
            cell.kind == OPERATION and name == "replicas" and operations.collective(cell.network)
        )
        return None if between else "a network that is trained"
    untrained = cell.kind == INFERENCE and cell.weights == INITIAL
    return TRAINED_WEIGHTS.words if untrained and traits.decides == WEIGHTS else None


def missing_requirement(cell: Cell, name: str) -> str | None:
    """What the cell lacks for the setting `name` to have an effect; None if it heeds it."""
    need = SETTINGS[name].needs
    return foreign(cell, name) or (need.words if need and not need.holds(cell) else None)


def with_defaults(cell: Cell, names: Iterable[str]) -> Cell:
    """The cell with the usual value for these settings."""
    return cell.model_copy(update={name: Cell.model_fields[name].default for name in names})


def without_effect(written: Iterable[str], cells: Iterable[Cell]) -> list[str]:
    """A fault for each written setting that none of the cells heeds, led by its key.

    What is no setting is another fault.
    """
    every = list(cells)
    faults = []
    for name in filter(SETTINGS.__contains__, written):
        reasons = {missing_requirement(cell, name): None for cell in every}
        if every and None not in reasons:
            needed = " or ".join(filter(None, reasons))
            faults.append(f"{name}: has no effect without {needed}; remove it, or add that")
    return faults
