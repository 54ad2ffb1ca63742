"""The ratio of two sides over their pairs, and the verdict on it."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

from touchstone.schema.limits import NOISE_LIMIT
from touchstone.statistics.intervals import NO_DIFFERENCE, paired_ratio

GOAL = 0.97
"""No ratio of speeds is to be under it; what is asked of first step and memory is `MOST`."""
MOST = 1.10


class Compared(NamedTuple):
    """Ours / theirs of one figure: median of the pairs' ratios, and the t interval or None."""

    median: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        between = f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else ""
        return f"{self.median:.2f}{between}"


def compare(
    rows: list[dict[str, Any]], figure: str, ours: str = "ours", theirs: str = "expert"
) -> Compared:
    """The ratio of one figure of two sides over the pairs of one table row."""
    sides = [
        {int(row["pair"]): float(row[figure]) for row in rows if row["side"] == side}
        for side in (ours, theirs)
    ]
    ratio = paired_ratio(*sides)
    if ratio is None:
        raise ValueError(f"no pair has a positive {figure} on both sides")
    pairs = sides[0].keys() & sides[1].keys()
    return Compared(median(sides[0][i] / sides[1][i] for i in pairs), ratio.interval())


def verdict(ratio: Compared, noise: float) -> str:
    """Whether a ratio to the expert reaches `GOAL`; a miss is called only on a quiet machine."""
    low, high = ratio.interval or (ratio.median, ratio.median)
    if noise > NOISE_LIMIT:
        return "met, noisy" if low >= GOAL else "noisy"
    return "met" if low >= GOAL else "miss" if high < GOAL else "open"


def verdict_on_user(ratio: Compared, noise: float) -> str:
    """Whether ours is slower than the user's program; none is called on a busy machine."""
    low, high = ratio.interval or (ratio.median, ratio.median)
    if noise > NOISE_LIMIT:
        return "noisy"
    return "slower" if high < 1 else "faster" if low > 1 else NO_DIFFERENCE


def verdict_on_costs(first_step: Compared, memory: Compared, noise: float) -> str:
    """Whether the ratios of first step and memory keep to `MOST`; noise moves the first alone."""
    over = ["memory"] if memory.median > MOST else []
    if first_step.median > MOST:
        over.insert(0, "first step, noisy" if noise > NOISE_LIMIT else "first step")
    return ", ".join(over) or "met"
