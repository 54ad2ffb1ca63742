"""The weights that training starts from, drawn by seed and name."""

import math
import zlib
from typing import Any, List

import numpy as np

from touchstone.schema.spec import Parameter

NORMAL = {"he_normal": 2.0, "lecun_normal": 1.0}
"""Starts that are drawn: their variance times the fan-in."""
PART = 2**16
"""Numbers that are drawn at once."""


def normal_numbers(random: Any, shape: Any, scale: float = 1.0) -> Any:
    """Normal numbers times `scale`, float32, in parts: all at once they would take up to five times
    the memory meanwhile, in double precision, and the process would keep much of it."""
    array = np.empty(shape, np.float32)
    numbers = array.reshape(-1)
    for first in range(0, numbers.size, PART):
        part = numbers[first : first + PART]
        part[:] = random.standard_normal(part.size) * scale
    return array


def initial_weights(parameters: List[Parameter], seed: int) -> Any:
    """Canonical float32 arrays for the graph's parameters; each has its own stream of `seed`."""
    weights = {}
    for parameter in parameters:
        shape = tuple(parameter.shape)
        if parameter.init in NORMAL:
            random = np.random.RandomState([seed, zlib.crc32(parameter.name.encode())])
            scale = math.sqrt(NORMAL[parameter.init] / parameter.fan_in)
            array = normal_numbers(random, shape, scale)
        else:
            array = {"zeros": np.zeros, "ones": np.ones, "forget_ones": np.zeros}[parameter.init](
                shape
            )
            if parameter.init == "forget_ones":
                array[len(array) // 4 : len(array) // 2] = 1
        weights[parameter.name] = array.astype(np.float32, copy=False)
    return weights
