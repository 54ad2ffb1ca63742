"""Quantiles of distributions, by numerical integration with NumPy."""

import math
from functools import cache

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


def _solve(falling, target, high):
    """Where a falling function has a value, from 0 to `high`."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > target else (low, middle)
    return (low + high) / 2


def _beta_share(x, a, b):
    """The regularised incomplete beta function, with t = sin^2 u under the integral."""

    def integral(end):
        u = np.linspace(0, end, 4001)
        return np.trapezoid(np.sin(u) ** (2 * a - 1) * np.cos(u) ** (2 * b - 1), u)

    return integral(math.asin(math.sqrt(x))) / integral(math.pi / 2)


def f_tail(f, above, below):
    """The chance that F, with these degrees of freedom, is larger than `f`."""
    return _beta_share(below / (below + above * f), below / 2, above / 2)


@cache
def student(level, freedom):
    """Half of the interval of Student's t that has this confidence."""

    def outside(t):
        return _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)

    return _solve(outside, 1 - level, 1e4)


@cache
def _range_table(cells):
    """The chance that the range of so many standard normal numbers is at most w: w, chance."""
    z = np.linspace(-8, 8, 401)
    w = np.linspace(0, 14, 401)
    below = (1 + erf(z / math.sqrt(2))) / 2
    lower = (1 + erf((z[None, :] - w[:, None]) / math.sqrt(2))) / 2
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return w, np.trapezoid(cells * density * (below - lower) ** (cells - 1), z, axis=1)


@cache
def studentised_range(level, cells, freedom):
    """The quantile of the range of so many normal numbers / an estimate of their deviation."""
    s = np.linspace(1e-4, 8, 4001)
    log = (freedom - 1) * np.log(s) - freedom * s * s / 2
    weight = np.exp(log - log.max())
    weight /= np.trapezoid(weight, s)
    w, chance = _range_table(cells)

    def outside(q):
        return 1 - np.trapezoid(weight * np.interp(q * s, w, chance), s)

    return _solve(outside, 1 - level, 100.0)
