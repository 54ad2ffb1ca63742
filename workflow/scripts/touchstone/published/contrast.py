"""Our ratio beside the published one."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt
from statistics import fmean, stdev

from touchstone.published.points import Point
from touchstone.published.table import number
from touchstone.statistics.intervals import LEVEL, half_width, paired_ratio


@dataclass(frozen=True)
class Contrast:
    """Two figures: their ratio, or for shares (accuracies) their difference.

    `middle` is the mean of the logarithms of ratios, or of differences, over the blocks that
    both have; `error` its standard error, None where one block alone has both.
    """

    n: int
    middle: float
    error: float | None
    is_ratio: bool

    @property
    def value(self) -> float:
        return exp(self.middle) if self.is_ratio else self.middle

    def interval(self, confidence: float = LEVEL) -> tuple[float, float] | None:
        """Student's interval, in the scale of `value`."""
        if self.error is None:
            return None
        half = half_width(self.error, self.n - 1, confidence)
        low, high = self.middle - half, self.middle + half
        return (exp(low), exp(high)) if self.is_ratio else (low, high)

    @property
    def neutral(self) -> float:
        """The value of two equal figures."""
        return 1.0 if self.is_ratio else 0.0

    @property
    def text(self) -> str:
        """The value with its interval and n."""
        sign = "" if self.is_ratio else "+" if self.value > 0 else ""
        interval = self.interval()
        between = f" ({number(interval[0])} to {number(interval[1])})" if interval else ""
        return f"{sign}{number(self.value)}{between}"


def contrast(one: Point, other: Point) -> Contrast | None:
    """The ratio or difference of two figures, paired by blocks (docs/statistics.md)."""
    if one.unit == "1":
        blocks = sorted(one.values.keys() & other.values.keys())
        if not blocks:
            return None
        differences = [one.values[b] - other.values[b] for b in blocks]
        error = stdev(differences) / sqrt(len(blocks)) if len(blocks) > 1 else None
        return Contrast(len(blocks), fmean(differences), error, False)
    ratio = paired_ratio(one.values, other.values)
    return None if ratio is None else Contrast(ratio.n, ratio.log, ratio.error, True)
