"""Basic operations, one file each, found by its name; gemm.py says what such a file has."""

import importlib
import os
from functools import lru_cache
from typing import Any, Dict, List, Tuple


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
    found: Tuple[str, ...] = getattr(load(name), "precisions", ("fp32",))
    return found


def dimensions(name: str, shape: str) -> Dict[str, int]:
    """The dimensions that a shape such as `3072x128x1024` gives an operation, by their names.

    Raises ValueError if it has another number of them, or one that is no number.
    """
    wanted = load(name).dimensions
    numbers = shape.split("x")
    if len(numbers) != len(wanted) or not all(number.isdigit() for number in numbers):
        message = "{!r} is no shape of {}, which has {}"
        raise ValueError(message.format(shape, name, "x".join(wanted)))
    return dict(zip(wanted, map(int, numbers)))
