"""Ratios, intervals and verdicts of a study, from `measurements.csv` with NumPy only.

The method is that of docs/statistics.md, the formulas are written a second time: least squares with
a column for each cell and each block.
"""

import csv
import itertools
import math
from typing import NamedTuple

import numpy as np

from truth.quantiles import f_tail, student, studentised_range

LEVEL, NOISIER, ALIKE, TOO_WIDE = 0.95, 0.1, 1.05, 1.5


class Estimate(NamedTuple):
    """A ratio; its interval is infinite where nothing is known of the noise."""

    value: float
    low: float
    high: float


class Group:
    """Cells that differ in framework and mode only.

    `values` has by cell the values of its runs by block, `freedom` and `square` what the noise of
    this group is known by.
    """

    def __init__(self, values):
        self.values = values
        runs = [(c, b, x) for c, blocks in values.items() for b, x in blocks.items()]
        self.cells = list(values)
        blocks = sorted({block for _, block, _ in runs})
        design = np.zeros((len(runs), len(self.cells) + len(blocks)))
        for row, (cell, block, _) in enumerate(runs):
            design[row, self.cells.index(cell)] = 1
            design[row, len(self.cells) + blocks.index(block)] = 1
        logs = np.log([x for _, _, x in runs])
        effects = np.linalg.lstsq(design, logs, rcond=None)[0]
        self.square = float(((logs - design @ effects) ** 2).sum())
        self.freedom = len(runs) - np.linalg.matrix_rank(design)
        self.inverse = np.linalg.pinv(design.T @ design)
        self.effects = effects[: len(self.cells)]
        means = [np.mean(np.log(list(blocks.values()))) for blocks in values.values()]
        self.level = np.mean(means - self.effects)

    def speed(self, cell):
        """Geometric mean, corrected for blocks that the cell lacks; the level is that of all."""
        return math.exp(self.effects[self.cells.index(cell)] + self.level)

    def ranked(self):
        """The cells, the fastest first."""
        return sorted(self.cells, key=self.speed, reverse=True)

    def noise(self, others):
        """Variance and degrees of freedom, with those of the other groups unless it is noisier."""
        square = sum(one.square for one in others)
        freedom = sum(one.freedom for one in others)
        own = self.square / self.freedom if self.freedom else 0.0
        noisier = (
            self.freedom > 0 and square > 0
            and f_tail(own / (square / freedom), self.freedom, freedom) < NOISIER
        )  # fmt: skip
        if noisier or not (self.freedom and square > 0):
            return own, self.freedom
        return (self.square + square) / (self.freedom + freedom), self.freedom + freedom

    def ratio(self, cell, other, groups):
        """One cell / another; `groups` are all of the study, this one among them."""
        contrast = np.zeros(len(self.inverse))
        contrast[self.cells.index(cell)] += 1
        contrast[self.cells.index(other)] -= 1
        log = float(contrast[: len(self.cells)] @ self.effects)
        variance, freedom = self.noise([one for one in groups if one is not self])
        if not freedom:
            return Estimate(math.exp(log), 0.0, math.inf)
        error = math.sqrt(variance * float(contrast @ self.inverse @ contrast))
        known = sum(one.freedom > 0 for one in groups)
        half = student(1 - (1 - LEVEL) / known, freedom)
        if len(self.cells) > 2:
            half = max(half, studentised_range(LEVEL, len(self.cells), freedom) / math.sqrt(2))
        return Estimate(*(math.exp(log + sign * half * error) for sign in (0, -1, 1)))


def rows_of(path):
    """The rows of a table."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def measured(path, metric="throughput"):
    """By work, cell and block, the values of a metric; work is all factors but framework, mode."""
    rows = rows_of(path)
    names = list(rows[0])
    factors = [n for n in names[: names.index("cell")] if n not in ("framework", "mode")]
    found = {}
    for row in rows:
        if row["metric"] == metric and row["value"]:
            work = tuple(row[name] for name in factors)
            cells = found.setdefault(work, {})
            cells.setdefault(row["cell"], {})[row["repeat"]] = float(row["value"])
    return found


def frameworks(path):
    """The framework and the batch size of each cell."""
    return {row["cell"]: (row["framework"], int(row["batch_size"])) for row in rows_of(path)}


def groups_of(path, metric="throughput"):
    """The groups of a study that have something to compare."""
    found = (
        {cell: values for cell, values in cells.items() if min(values.values()) > 0}
        for cells in measured(path, metric).values()
    )
    return [Group(cells) for cells in found if len(cells) > 1]


class Answer(NamedTuple):
    """What the page must say of a group."""

    batch_size: int
    kind: str  # `fastest`, `alike`, `open` or `noisy`
    speeds: dict[str, float]  # by framework, the fastest first
    leads: dict[str, Estimate]  # of the first over each other one
    rivals: list[str]
    pairs: dict[tuple[str, str], Estimate]


def answers(path):
    """The answer on each group, by batch size; a framework has one cell in a group."""
    names, groups = frameworks(path), groups_of(path)
    found = {}
    for group in groups:
        ranked = group.ranked()
        pairs = {
            (names[a][0], names[b][0]): group.ratio(a, b, groups)
            for a, b in itertools.combinations(ranked, 2)
        }
        first, size = names[ranked[0]]
        leads = {slow: estimate for (fast, slow), estimate in pairs.items() if fast == first}
        rivals = [slow for slow, estimate in leads.items() if estimate.low <= 1]
        alike = rivals and all(
            leads[slow].low >= 1 / ALIKE and leads[slow].high <= ALIKE for slow in rivals
        )
        noisy = any(lead.high / lead.value > TOO_WIDE for lead in leads.values())
        kind = "noisy" if noisy else "alike" if alike else "open" if rivals else "fastest"
        speeds = {names[cell][0]: group.speed(cell) for cell in ranked}
        found[size] = Answer(size, kind, speeds, leads, rivals, pairs)
    return found
