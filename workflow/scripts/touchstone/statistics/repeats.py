"""Whether a comparison is settled, and how many repeats settle it."""

from math import log, sqrt
from statistics import NormalDist

import numpy as np

from touchstone.statistics.groups import Group
from touchstone.statistics.intervals import (
    POWER,
    Ratio,
    bounded_exp,
    critical,
    error_limits,
    half_width,
)

EQUAL = 1.05
"""An interval within this factor of 1 shows that two speeds are equal, as closely as it says."""
MOST_REPEATS = 100
"""Repeats that are named at most."""
ENDS = 0.80
"""Level of the intervals of the lead and of the noise, whose ends say how many repeats settle a
comparison (docs/statistics.md has how often such a number holds)."""
KNOWN_NOISE = 200.0
"""Degrees of freedom from which more of them change the repeats by less than 1 %."""


def equal_within(low: float | None, high: float | None) -> float | None:
    """The largest difference of two speeds whose ratio has this interval, as a share; None where
    the interval is not within `EQUAL` of 1."""
    largest = not_excluded(low, high)
    return largest if largest is not None and largest <= EQUAL - 1 else None


def rivals_of(group: Group) -> list[str]:
    """The cells that the fastest one is not shown to be faster than."""
    leader, *others = group.ranked
    return [cell for cell in others if not _is_faster(group.ratio(leader, cell))]


def is_settled(group: Group) -> bool:
    """Whether the fastest cell is shown to be faster than each other one, or equal to it."""
    leader = group.ranked[0]
    ends = (_ends(group.ratio(leader, cell)) for cell in rivals_of(group))
    return all(equal_within(low, high) is not None for low, high in ends)


def settling_repeats(group: Group, now: int) -> int | None:
    """The repeats with which an open comparison is settled with a chance of 80 %, for every lead
    and every noise within intervals of theirs; None where no number up to `MOST_REPEATS` is enough.

    Args:
        now: repeats of each cell.
    """
    leader, rivals = group.ranked[0], rivals_of(group)
    ratios = [group.ratio(leader, cell) for cell in rivals]
    estimates = [ratio for ratio in ratios if ratio and ratio.error and ratio.freedom]
    if not estimates or len(estimates) < len(ratios):
        return None
    most_open = (1 - POWER) / len(estimates)
    cells = len(group.ranked)
    ends = min(group.freedom, KNOWN_NOISE), KNOWN_NOISE
    reaches = [critical(freedom, cells=cells, groups=group.groups) for freedom in ends]
    for repeats in range(now + 1, MOST_REPEATS + 1):
        freedom = min(group.freedom + (cells - 1) * (repeats - now), KNOWN_NOISE)
        # Quantiles take long to compute; in 1 / freedom they are almost linear.
        reach = np.interp(1 / freedom, [1 / end for end in reversed(ends)], reaches[::-1])
        if all(_open(ratio, sqrt(now / repeats), float(reach)) <= most_open for ratio in estimates):
            return repeats
    return None


def _open(ratio: Ratio, narrower: float, reach: float) -> float:
    """The largest chance, over the leads in its interval, that a pair is not settled.

    Args:
        narrower: the standard error with more repeats / that of now.
        reach: half of an interval, in standard errors.
    """
    assert ratio.error and ratio.freedom
    error = ratio.error * narrower * error_limits(ratio.freedom, ENDS)[1]
    half = half_width(ratio.error, ratio.freedom, ENDS)
    ends = sorted(abs(end) for end in (ratio.log - half, ratio.log + half))
    least = 0.0 if abs(ratio.log) < half else ends[0]
    # A pair is open if its lead is estimated as between these, in standard errors.
    equal, faster = max(log(EQUAL) / error - reach, 0.0), reach
    if equal >= faster:
        return 0.0
    lead = min(max((equal + faster) / 2, least / error), ends[1] / error)
    normal = NormalDist(lead)
    return sum(normal.cdf(x) - normal.cdf(y) for x, y in ((faster, equal), (-equal, -faster)))


def _ends(ratio: Ratio | None) -> tuple[float | None, float | None]:
    return (ratio.interval() if ratio else None) or (None, None)


def _is_faster(ratio: Ratio | None) -> bool:
    low, _ = _ends(ratio)
    return low is not None and low > 1


def not_excluded(low: float | None, high: float | None) -> float | None:
    """The largest difference of two speeds, as a share, that the interval of their ratio does not
    exclude; None without an interval."""
    if low is None or high is None:
        return None
    return max(high, bounded_exp(-log(low))) - 1
