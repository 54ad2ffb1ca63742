"""Basic operations, one file each, found by its name; gemm.py says what such a file has."""

import importlib
import os
import re
from functools import lru_cache
from typing import Any, Dict, List, Tuple

LARGEST = 2**31 - 1
"""The most that a dimension may be: frameworks count in 32 bits."""
MOST_BYTES = 2**43
"""The most that an operation's arrays may have; the run shows what fits into this machine."""


@lru_cache(maxsize=None)
def names() -> List[str]:
    """The operations: the files of this folder whose names begin with a letter."""
    files = os.listdir(os.path.dirname(os.path.abspath(__file__)))
    return sorted(name[:-3] for name in files if name.endswith(".py") and name[0].isalpha())


def load(name: str) -> Any:
    """The operation of that name."""
    return importlib.import_module("touchstone.operations." + name).Operation()


def collective(name: str) -> bool:
    """Whether an operation is one between replicas, of which it takes two at least."""
    return hasattr(load(name), "replicas")


def precisions(name: str) -> Tuple[str, ...]:
    """The precisions that an operation is written for."""
    formats: Tuple[str, ...] = getattr(load(name), "precisions", ("fp32",))
    return formats


def dimensions(name: str, shape: str) -> Dict[str, int]:
    """The dimensions that a shape such as `3072x128x1024` gives an operation, by their names.

    Raises ValueError if it has another number of them, one that is no number, or none that the
    operation can have.
    """
    operation = load(name)
    wanted = operation.dimensions
    numbers = shape.split("x")
    if len(numbers) != len(wanted) or not all(re.fullmatch("[0-9]+", number) for number in numbers):
        message = "{!r} is no shape of {}, which has {}"
        raise ValueError(message.format(shape, name, "x".join(wanted)))
    if any(len(number) > len(str(LARGEST)) or int(number) > LARGEST for number in numbers):
        raise ValueError("{:.100}: a dimension is larger than {}".format(shape, LARGEST))
    sizes = dict(zip(wanted, map(int, numbers)))
    why = _impossible(operation, sizes)
    if why:
        raise ValueError("{!r} is an impossible shape of {}: {}".format(shape, name, why))
    return sizes


def _impossible(operation: Any, dimensions: Dict[str, int]) -> str:
    """Why an operation cannot have these dimensions; empty if it can."""
    may_be_zero = getattr(operation, "may_be_zero", ())
    for name, value in dimensions.items():
        if not value and name not in may_be_zero:
            return "{} is 0".format(name)
    why: str = operation.impossible(**dimensions) if hasattr(operation, "impossible") else ""
    size = 0 if why else operation.traffic(**dimensions)
    if size > MOST_BYTES:
        why = "its arrays have {:.3g} TiB, more than machines have memory".format(size / 2.0**40)
    return why
