"""The weights that training starts from, drawn by seed and name."""

import math
import zlib
from typing import Any, Callable, Dict, List

import numpy as np

from touchstone.schema.spec import Parameter

NORMAL: Dict[str, Callable[[Parameter], float]] = {
    "he_normal": lambda p: math.sqrt(2 / p.fan_in),
    "lecun_normal": lambda p: math.sqrt(1 / p.fan_in),
    "standard_normal": lambda p: 1.0,
    "normal_0.01": lambda p: 0.01,
    "normal_0.02": lambda p: 0.02,
    "small_normal": lambda p: 0.1 / math.sqrt(p.fan_in),
}
"""Normal distributions, each with its standard deviation: He et al. 2015 (arXiv:1502.01852,
equation 10); LeCun et al. 1998, Efficient BackProp, section 4.6."""
UNIFORM: Dict[str, Callable[[Parameter], float]] = {
    "glorot_uniform": lambda p: math.sqrt(6 / (p.fan_in + p.fan_out)),
    "lecun_uniform": lambda p: math.sqrt(3 / p.fan_in),
    "fan_in_uniform": lambda p: math.sqrt(1 / p.fan_in),
    "uniform_0.07": lambda p: 0.07,
}
"""Uniform distributions around 0, each with its bound: Glorot and Bengio 2010, equation 16; the
same with the inputs only (Caffe's `xavier`); PyTorch's and MXNet's own."""
CONSTANT = {"zeros": 0.0, "ones": 1.0, "forget_ones": 0.0, "constant_1e-06": 1e-6}
"""Constants; `forget_ones` is 1 in the second of four parts, the forget gate of an LSTM (Jozefowicz
et al. 2015, section 2.2)."""
PART = 2**16
"""Numbers that are drawn at once."""


def normal_numbers(random: Any, shape: Any, scale: float = 1.0) -> Any:
    """Normal numbers times `scale`, float32."""
    return _filled(shape, lambda count: random.standard_normal(count) * scale)


def _filled(shape: Any, draw: Callable[[int], Any]) -> Any:
    """An array, float32, filled in parts.

    All numbers at once, in double precision, would take up to five times the memory, and the
    process would keep much of it.
    """
    array = np.empty(shape, np.float32)
    numbers = array.reshape(-1)
    for first in range(0, numbers.size, PART):
        part = numbers[first : first + PART]
        part[:] = draw(part.size)
    return array


def initial_weights(parameters: List[Parameter], seed: int) -> Any:
    """Canonical float32 arrays for the graph's parameters; each has its own stream of `seed`."""
    return {parameter.name: _initial(parameter, seed) for parameter in parameters}


def _initial(parameter: Parameter, seed: int) -> Any:
    shape, init = tuple(parameter.shape), parameter.init
    if init in CONSTANT:
        array = np.full(shape, CONSTANT[init], np.float32)
        if init == "forget_ones":
            array[len(array) // 4 : len(array) // 2] = 1
        return array
    random = np.random.RandomState([seed, zlib.crc32(parameter.name.encode())])
    if init in NORMAL:
        return normal_numbers(random, shape, NORMAL[init](parameter))
    bound = UNIFORM[init](parameter)
    return _filled(shape, lambda count: random.uniform(-bound, bound, count))
