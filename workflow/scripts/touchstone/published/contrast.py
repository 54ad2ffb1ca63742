"""Two figures set against each other: their ratio or difference, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean

from touchstone.published.points import Point
from touchstone.published.table import number
from touchstone.statistics.intervals import (
    LEVEL,
    bounded_exp,
    deviation,
    half_width,
    logarithms,
    paired_ratio,
    unpaired_ratio,
)


@dataclass(frozen=True)
class Contrast:
    """Two figures: their ratio, or for shares (accuracies) their difference.

    `middle` is the mean of the logarithms of ratios, or of differences, over the blocks that
    both have; `error` its standard error, None where only one block has both. `freedom` are its
    degrees of freedom, n - 1 unless given.
    """

    n: int
    middle: float
    error: float | None
    is_ratio: bool
    freedom: float | None = None

    @classmethod
    def counted(cls, middle: float, is_ratio: bool) -> Contrast:
        """One of numbers that are counted and not measured, so that there is no error."""
        return cls(1, middle, 0.0, is_ratio)

    @classmethod
    def of(cls, numbers: Sequence[float], is_ratio: bool) -> Contrast:
        """Their mean with its standard error; `numbers` are logarithms or differences."""
        error = deviation(numbers) / sqrt(len(numbers)) if len(numbers) > 1 else None
        return cls(len(numbers), fmean(numbers), error, is_ratio)

    @property
    def value(self) -> float:
        return exp(self.middle) if self.is_ratio else self.middle

    def interval(self, confidence: float = LEVEL) -> tuple[float, float] | None:
        """Student's interval, in the scale of `value`."""
        if self.error is None:
            return None
        if not self.error:
            return self.value, self.value
        freedom = self.n - 1 if self.freedom is None else self.freedom
        half = half_width(self.error, freedom, confidence)
        low, high = self.middle - half, self.middle + half
        return (bounded_exp(low), bounded_exp(high)) if self.is_ratio else (low, high)

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


def figure(point: Point) -> Contrast:
    """A figure with values by itself, to be compared with a number.

    The mean is geometric; for shares, and where a value is not positive, it is arithmetic.
    """
    values = list(point.values.values())
    if point.exact:
        return Contrast.counted(log(values[0]), True)
    if point.unit == "1" or min(values) <= 0:
        return Contrast.of(values, False)
    return Contrast.of(logarithms(values), True)


def mean_of(points: Sequence[Point]) -> Point:
    """The arithmetic mean of several figures, in the blocks that have all of them."""
    blocks = set.intersection(*(set(point.values) for point in points))
    values = {b: fmean(point.values[b] for point in points) for b in sorted(blocks)}
    return replace(points[0], values=values, cell=None, row=None, in_turn=None)


def contrast(point: Point, base: Point) -> Contrast | None:
    """The ratio or difference of two figures, paired by blocks (docs/statistics.md).

    Two cells that took turns with each other are paired by sets (docs/measuring.md). Runs of
    two machines have no blocks in common: their ratio is that of two sittings.

    None where no block has both, or where a ratio has a value that is not positive.
    """
    if point.exact and base.exact:
        count, reference = (next(iter(side.values.values())) for side in (point, base))
        return Contrast.counted(log(count / reference), True)
    if point.unit == "1":
        blocks = sorted(point.values.keys() & base.values.keys())
        if not blocks:
            return None
        return Contrast.of([point.values[b] - base.values[b] for b in blocks], False)
    ours, theirs = point.in_turn, base.in_turn
    if ours and theirs and ours.group == theirs.group:
        ratio = paired_ratio(ours.speeds, theirs.speeds)
        if ratio and ratio.error is not None:
            ratio = ratio._replace(error=ratio.error * sqrt(ours.factor))
    elif point.factors.get("machine") == base.factors.get("machine"):
        ratio = paired_ratio(point.values, base.values)
    else:
        ratio = unpaired_ratio([*point.values.values()], [*base.values.values()])
    if ratio is None:
        return None
    return Contrast(ratio.n, ratio.log, ratio.error, True, ratio.freedom)
