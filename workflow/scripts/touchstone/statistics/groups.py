"""Cells that were run in the same blocks, and the ratios of all pairs of them.

One model for each group of comparable cells: the logarithm of a value is the effect of its cell
plus that of its block plus noise. docs/statistics.md says why, and how often it errs.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import exp, fsum, log, sqrt
from operator import mul
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc

from touchstone.statistics.intervals import Ratio

Values = Mapping[str, Mapping[int, float]]
"""Of each cell of a group, its values by block (the number of the repeat); positive for ratios."""
NOISIER = 0.1
"""Level of the F test by which a group is noisier than the others; a smaller one pools groups whose
noise differs, a larger one costs power (docs/statistics.md)."""
ROUNDING = 1e-24
"""A sum of squares that is no noise."""


class Fit(NamedTuple):
    """The model of one group, before its noise is moderated.

    Attributes:
        cells: those that have a value.
        effects: of the cells, logarithms of values, or values where the model is of differences.
        inverse: the variance of a difference of two effects i and j is the noise times
            inverse[i][i] + inverse[j][j] - 2 inverse[i][j].
        part: of each cell; cells of different parts are linked by no chain of common blocks.
        blocks: in which each cell has a value.
        variance, freedom: of the noise; without a degree of freedom the variance is 0.
    """

    cells: list[str]
    effects: list[float]
    inverse: list[list[float]]
    part: list[int]
    blocks: list[frozenset[int]]
    variance: float
    freedom: int


class Group(NamedTuple):
    """The cells of a group, whose intervals hold together with 95 % for all pairs.

    They are wide enough as well that of all studies at most 5 % call a cell the fastest of its
    group that is not: `groups` is the number of groups that have intervals.
    """

    fit: Fit
    variance: float
    freedom: float
    groups: int

    def effect(self, cell: str) -> float:
        """The logarithm of `speed`; in a model of differences the mean of a cell's values."""
        return self.fit.effects[self.fit.cells.index(cell)]

    def speed(self, cell: str) -> float:
        """The geometric mean of a cell's values, in a block that is as quick as the mean one."""
        return exp(self.effect(cell))

    @property
    def ranked(self) -> list[str]:
        """The cells, the largest speed first."""
        return sorted(self.fit.cells, key=self.speed, reverse=True)

    def ratio(self, cell: str, other: str) -> Ratio | None:
        """One cell / another; None where one has no value, or no chain of common blocks
        links them.

        `n` is the number of blocks of the cell that has fewer.
        """
        fit = self.fit
        if not {cell, other} <= set(fit.cells):
            return None
        i, j = fit.cells.index(cell), fit.cells.index(other)
        if fit.part[i] != fit.part[j]:
            return None
        n = min(len(fit.blocks[i]), len(fit.blocks[j]))
        difference = fit.effects[i] - fit.effects[j]
        if not fit.freedom:
            return Ratio(n, difference)
        share = fit.inverse[i][i] + fit.inverse[j][j] - 2 * fit.inverse[i][j]
        error = sqrt(share * self.variance)
        return Ratio(n, difference, error, self.freedom, len(fit.cells), self.groups)


def compare_groups(groups: Sequence[Values], logarithms: bool = True) -> list[Group]:
    """The groups of a study, each with its noise moderated by that of the others.

    Args:
        logarithms: whether cells and blocks multiply a value, so that cells have ratios; otherwise
            they add to it, and what a group calls the logarithm of a ratio is a difference.
    """
    fits = [fit(values, logarithms) for values in groups]
    sums = [(fitted.variance * fitted.freedom, fitted.freedom) for fitted in fits if fitted.freedom]
    square, freedom = fsum(square for square, _ in sums), sum(f for _, f in sums)
    return [Group(fitted, *_moderated(fitted, square, freedom), len(sums)) for fitted in fits]


def _moderated(fitted: Fit, square: float, freedom: int) -> tuple[float, int]:
    """The variance of all groups together, unless this one is noisier than the others (F test)."""
    others, rest = square - fitted.variance * fitted.freedom, freedom - fitted.freedom
    if not (fitted.freedom and rest and others > 0):
        return fitted.variance, fitted.freedom
    if fdtrc(fitted.freedom, rest, fitted.variance * rest / others) < NOISIER:
        return fitted.variance, fitted.freedom
    return square / freedom, freedom


def fit(values: Values, logarithms: bool = True) -> Fit:
    """Least squares for the effects of cells and blocks, with any cells missing in any blocks.

    A cell that has no value is left out; with logarithms also one that is not positive.
    """
    cells = {c: v for c, v in values.items() if v and not (logarithms and min(v.values()) <= 0)}
    scaled = log if logarithms else float
    rows = [{block: scaled(value) for block, value in v.items()} for v in cells.values()]
    blocks = [frozenset(row) for row in rows]
    inverse, part, freedom = _design(tuple(blocks))
    middle = _by_block(rows)
    totals = [fsum(x - middle[block] for block, x in row.items()) for row in rows]
    effects = [fsum(map(mul, line, totals)) for line in inverse]
    left = [
        {b: x - effect for b, x in row.items()} for row, effect in zip(rows, effects, strict=True)
    ]
    middle = _by_block(left)
    square = fsum((x - middle[block]) ** 2 for row in left for block, x in row.items())
    # Of equal values only rounding is left.
    variance = square / freedom if freedom and square > ROUNDING else 0.0
    for number in set(part):
        # The level of the effects, which the design leaves open, is that of the values.
        here = [i for i, label in enumerate(part) if label == number]
        level = fmean(fmean(rows[i].values()) - effects[i] for i in here)
        for i in here:
            effects[i] += level
    return Fit(list(cells), effects, inverse, part, blocks, variance, freedom)


def _by_block(rows: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean of each block."""
    by_block: dict[int, list[float]] = {}
    for row in rows:
        for block, x in row.items():
            by_block.setdefault(block, []).append(x)
    return {block: fmean(values) for block, values in by_block.items()}


@lru_cache
def _design(blocks: tuple[frozenset[int], ...]) -> tuple[list[list[float]], list[int], int]:
    """What depends only on which values there are: inverse, parts, degrees of freedom."""
    columns = sorted(frozenset().union(*blocks))
    there = np.array([[float(block in row) for block in columns] for row in blocks])
    there = there.reshape(len(blocks), len(columns))
    joint = there / there.sum(axis=0) @ there.T
    inverse = np.linalg.pinv(np.diag(there.sum(axis=1)) - joint, hermitian=True)
    part = list(range(len(blocks)))
    for i, j in combinations(part, 2):
        if joint[i, j] and part[i] != part[j]:
            part = [part[i] if label == part[j] else label for label in part]
    freedom = int(there.sum()) - len(blocks) - len(columns) + len(set(part))
    return inverse.tolist(), part, freedom
