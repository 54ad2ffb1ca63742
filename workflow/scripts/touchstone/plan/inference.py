"""Inference cells: which training cell leaves the weights that each of them predicts with."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from touchstone.plan import frameworks
from touchstone.plan.model import INITIAL, TRAINED, Cell, settings
from touchstone.plan.names import BEST
from touchstone.plan.setting import INFERENCE

DECIDE = settings(lambda traits: traits.decides is not None)
"""The settings that decide which weights a training cell leaves, beside its framework and batch
size; in all others, as its threads or its device, it may differ from the cell that predicts."""
PRECISIONS = ("fp32", "fp64")


def faults(cell: Cell, test_examples: int) -> list[str]:
    """What is wrong with an inference cell, each fault led by its key."""
    errors = []
    if cell.weights not in (INITIAL, TRAINED, *frameworks.names()):
        names = ", ".join((INITIAL, TRAINED, *frameworks.names()))
        errors.append(f"weights: {cell.weights!r} is none of {names}")
    if cell.weights == TRAINED and cell.framework not in frameworks.names():
        errors.append(
            f"weights: {cell.framework} does not train; name the framework whose weights it takes"
        )
    if cell.mode == BEST:
        errors.append("mode: 'best' is tried in training only; name a mode")
    if cell.world_size > 1:
        errors.append("replicas, nodes: inference is done on one device; leave them out")
    if cell.input == "records":
        errors.append("input: an inference cell predicts from 'memory' or 'synthetic'")
    if cell.precision not in PRECISIONS:
        errors.append(f"precision: inference is done in {' or '.join(PRECISIONS)} only")
    if cell.batch_size > test_examples:
        errors.append(
            f"batch_size: {cell.batch_size} is more than the {test_examples} test examples of "
            f"{cell.dataset}; choose a smaller one"
        )
    return errors


def sources(cells: Mapping[str, Cell]) -> tuple[dict[str, str], list[str]]:
    """By inference cell, the training cell whose weights it predicts with.

    Of several that would leave such weights it is the one that agrees with the inference cell in
    most other settings, then the one that is planned first.

    Returns:
        The names, and those of the inference cells for which no cell trains.
    """
    if not any(cell.kind == INFERENCE for cell in cells.values()):
        return {}, []
    trained: dict[Any, list[str]] = defaultdict(list)
    for name, cell in cells.items():
        if cell.kind != INFERENCE and cell.steps is None:  # which keeps no weights
            trained[_decided(cell, cell.framework, cell.global_batch_size)].append(name)
    weights_from, without = {}, []
    for name, cell in cells.items():
        if cell.kind != INFERENCE or cell.weights == INITIAL:
            continue
        framework = cell.framework if cell.weights == TRAINED else cell.weights
        candidates = trained[_decided(cell, framework, cell.trained_batch_size)]
        if candidates:
            weights_from[name] = max(candidates, key=lambda n: _agreement(cells[n], cell))
        else:
            without.append(name)
    return weights_from, without


def _decided(cell: Cell, framework: str, batch_size: int | None) -> tuple[Any, ...]:
    return framework, batch_size, *(str(getattr(cell, name)) for name in DECIDE)


def _agreement(cell: Cell, other: Cell) -> int:
    return sum(getattr(cell, name) == getattr(other, name) for name in Cell.model_fields)
