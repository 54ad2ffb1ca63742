"""Which settings a cell heeds. The others mean nothing to it, so they have their usual value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from touchstone import operations
from touchstone.plan import inference
from touchstone.plan.model import Cell
from touchstone.plan.read import OPERATION, is_operation

NEEDS: Mapping[str, tuple[str, Callable[[Cell], bool]]] = {
    **dict.fromkeys(("momentum", "nesterov"), ("optimizer: sgd", lambda c: c.optimizer == "sgd")),
    **dict.fromkeys(
        ("beta1", "beta2", "epsilon"), ("optimizer: adam", lambda c: c.optimizer == "adam")
    ),
    **dict.fromkeys(
        ("weight_decay_form", "weight_decay_on"),
        ("a weight_decay above 0", lambda c: c.weight_decay > 0),
    ),
    "lr_gamma": ("schedule: step", lambda c: c.schedule == "step"),
    "reader_threads": ("input: records", lambda c: c.input == "records"),
    "training_accuracy": ("an end with its epochs: no steps", lambda c: c.steps is None),
    "kept_weights": (
        "evaluate_every above 0, or workload: inference",
        lambda c: c.evaluate_every > 0 or inference.is_inference(c),
    ),
    "batch_split": ("several replicas or nodes", lambda c: c.world_size > 1),
}
"""By setting, what else a training must have for it, in words and as a test."""


def lacks(cell: Cell, name: str) -> str | None:
    """What the cell lacks for the setting `name` to have an effect; None if it heeds it."""
    if is_operation(cell):
        between = name == "replicas" and operations.collective(cell.network)
        return None if name in OPERATION or between else "a network that is trained"
    if name == "operation_seconds":
        return "an operation"
    if inference.is_inference(cell):
        if name in inference.OF_TRAINING:
            return "workload: training"
        if cell.weights == inference.INITIAL and name in inference.OF_TRAINED:
            return "weights: trained"
    elif name in inference.ONLY:
        return "workload: inference"
    words, test = NEEDS.get(name, ("", lambda _: True))
    return None if test(cell) else words


def without_effect(written: Iterable[str], cells: Iterable[Cell]) -> list[str]:
    """A fault for each written setting that none of the cells heeds, led by its key."""
    every = list(cells)
    found = []
    for name in written:
        reasons = {lacks(cell, name): None for cell in every}
        if every and None not in reasons:
            needed = " or ".join(filter(None, reasons))
            found.append(f"{name}: has no effect without {needed}; remove it, or add that")
    return found
