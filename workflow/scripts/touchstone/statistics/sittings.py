"""What all cells of two sittings say together: their common shift, and errors over many cells."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from statistics import median

from touchstone.statistics.intervals import SESSION_SD, Ratio

LEAST_CELLS = 6
"""Fewer cells cannot tell a shift of the machine from a change of some of them."""
NORMAL_MAD = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
OF_MEDIAN = 1.2533
"""The standard error of a median over that of a mean, of normal values: the root of pi / 2."""


def common_shift(
    ratios: Sequence[Ratio], session_sd: float = SESSION_SD, shared: float = 0.0
) -> Ratio | None:
    """The ratio of two sittings, new / old, that most cells share: the median of their logarithms.

    Up to half of the cells may have changed by themselves. The standard error is that of a median,
    from the median absolute deviation, with 2 `session_sd`^2 for what sittings on one machine
    differ by; so the interval says whether more than the machine's mood has changed. The degrees of
    freedom are Satterthwaite's (1946, Biometrics Bulletin 2, 110): those of the deviation are the
    cells less one, and the other parts count as known.

    Args:
        shared: variance of what the noise of several cells has in common, which their deviations
            from the median do not show.

    Returns:
        None for fewer than `LEAST_CELLS` cells.
    """
    if (estimate := _median(ratios)) is None:
        return None
    middle, error = estimate
    n = min(ratio.n for ratio in ratios)
    square = error**2 + shared + 2 * session_sd**2
    freedom = (len(ratios) - 1) * (square / error**2) ** 2 if error else inf
    return Ratio(n, middle, sqrt(square), freedom)


def without_shift(ratios: Sequence[Ratio]) -> list[Ratio]:
    """The ratios with what most of them share taken out, and its error added to theirs.

    They are as they were where there are fewer than `LEAST_CELLS`.
    """
    if (estimate := _median(ratios)) is None:
        return list(ratios)
    middle, error = estimate
    return [
        ratio._replace(
            log=ratio.log - middle,
            error=None if ratio.error is None else sqrt(ratio.error**2 + error**2),
        )
        for ratio in ratios
    ]


def _median(ratios: Sequence[Ratio]) -> tuple[float, float] | None:
    """The median of the logarithms, and its standard error; None for too few ratios."""
    if len(ratios) < LEAST_CELLS:
        return None
    logs = [ratio.log for ratio in ratios]
    middle = median(logs)
    apart = median(abs(log - middle) for log in logs)
    return middle, OF_MEDIAN * NORMAL_MAD * apart / sqrt(len(logs))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values that hold for all tests together (Holm 1979, Scand. J. Statistics 6, 65).

    Below a level, no more than that share of such families has a test that errs.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
