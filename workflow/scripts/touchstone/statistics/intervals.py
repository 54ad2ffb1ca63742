"""What repeated runs show: a cell's spread, and the ratio of two cells with its interval.

Speeds and times are positive, and their noise is a share of them, so ratios are judged on
logarithms. docs/statistics.md says why these methods, and how often they err.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp, fsum, inf, log, sqrt
from statistics import fmean, median, variance
from typing import NamedTuple

from scipy.special import chdtri, fdtrc, nctdtrinc, polygamma, psi, stdtr, stdtrit

LEVEL = 0.95
"""Confidence of an interval."""
POWER = 0.80
"""Chance with which the smallest detectable change would be shown."""
INDICATIVE_BELOW = 6
"""Fewer pairs cannot reach 5 % in a test without assumptions (sign flips: 2 / 2^5 = 6 %), so
an interval of theirs leans on logarithms being normal, which so few cannot show."""
SESSION_SD = 0.03
"""Standard deviation of the logarithm of a speed between sittings on one machine."""

NOISIER = 0.05
"""Level of the F test by which a side of a cell is noisier than the other cells explain."""
LEAST_SIDES = 4
"""Fewer sides say too little on how far the noise of cells differs."""

SPEED = ("faster", "slower")
"""What a ratio of speeds above and below 1 is called."""
NO_DIFFERENCE = "no difference shown"
TOO_FEW = "too few runs"
UNDECIDED = "cannot tell"
"""What a ratio within one study is called whose interval holds 1, or that has none."""


class Summary(NamedTuple):
    """The values of one metric of one cell; `sd` (n - 1) and `cv` need two values."""

    n: int
    median: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    sd: float | None = None
    cv: float | None = None


def deviation(values: Sequence[float]) -> float:
    """The standard deviation (n - 1) of two values or more.

    Two passes, with the correction that cancels the rounding of the mean (Chan, Golub and
    LeVeque 1983, The American Statistician 37, 242): that of equal values is exactly 0. The
    standard library computes with fractions, which takes many times as long.
    """
    mean, n = fmean(values), len(values)
    apart = [value - mean for value in values]
    return sqrt(max(fsum(d * d for d in apart) - fsum(apart) ** 2 / n, 0.0) / (n - 1))


@lru_cache
def _quantile(freedom: float, probability: float) -> float:
    """A quantile of Student's t distribution."""
    return float(stdtrit(freedom, probability))


def critical(freedom: float, level: float = LEVEL, cells: int = 2, groups: int = 1) -> float:
    """How many standard errors half of an interval has.

    Student's quantile for two cells (1908, Biometrika 6, 1). For more, that of the studentised
    range over the square root of 2, so that the intervals of all pairs hold together (Tukey;
    Kramer 1956, Biometrics 12, 307). With several groups at least Student's quantile at the
    level that Bonferroni's inequality gives each of them (docs/statistics.md says why that
    is enough); by the same inequality that is the larger one where there are no fewer groups than
    pairs of cells.
    """
    student = _quantile(freedom, 1 - (1 - level) / groups / 2)
    if groups >= cells * (cells - 1) // 2:
        return student
    return max(student, _range_quantile(freedom, level, cells))


@lru_cache(maxsize=1024)
def _range_quantile(freedom: float, level: float, cells: int) -> float:
    from scipy.stats import studentized_range  # takes a second to import

    return float(studentized_range.ppf(level, cells, freedom)) / sqrt(2)


def bounded_exp(exponent: float) -> float:
    """exp of an end of an interval, at most 1e304: with one degree of freedom it may be any number,
    and the findings hold finite ones."""
    return exp(min(exponent, 700.0))


def half_width(error: float, freedom: float, level: float = LEVEL) -> float:
    """Half of a t interval of one ratio."""
    return critical(freedom, level) * error


@lru_cache(maxsize=1024)
def noncentrality(freedom: float, cells: int = 2, groups: int = 1) -> float:
    """The one at which an interval leaves out 1 with the chance `POWER`."""
    return float(nctdtrinc(freedom, 1 - POWER, critical(freedom, LEVEL, cells, groups)))


@lru_cache(maxsize=1024)
def error_limits(freedom: float, level: float = LEVEL) -> tuple[float, float]:
    """The ends of the interval of a standard error, as multiples of its estimate (chi-square)."""
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = (sqrt(freedom / float(chdtri(freedom, tail))) for tail in tails)
    return low, high


def summarise(values: Sequence[float], beyond: int = 0) -> Summary:
    """The summary of values; the coefficient of variation is `sd` / `mean`, of a mean over 0.

    `beyond` counts the runs that ended before they had a value, which are taken as larger than
    all values: with them there is no mean, and a median only if more than half have a value.
    """
    if not values:
        return Summary(0)
    if beyond:
        middle = median([*values, *[inf] * beyond]) if len(values) > beyond else None
        return Summary(len(values), middle, min=min(values))
    mean = fmean(values)
    sd = deviation(values) if len(values) > 1 else None
    cv = sd / mean if sd is not None and mean > 0 else None
    return Summary(len(values), median(values), mean, min(values), max(values), sd, cv)


class Ratio(NamedTuple):
    """A ratio of two cells: its logarithm, standard error and degrees of freedom.

    `n` is the number of values on the side that has fewer. `error` and `freedom` are None
    where there are too few values to know the noise: then there is no interval and no verdict.
    `cells` and `groups` say with how many others the interval is to hold (`critical`).
    """

    n: int
    log: float
    error: float | None = None
    freedom: float | None = None
    cells: int = 2
    groups: int = 1

    @property
    def value(self) -> float:
        """The ratio: a geometric mean over a geometric mean."""
        return exp(self.log)

    @property
    def indicative(self) -> bool:
        """Whether the values are too few to do without assumptions on their noise."""
        return self.n < INDICATIVE_BELOW

    @property
    def label(self) -> str:
        """`n = 3, indicative`: how far to trust it."""
        return f"n = {self.n}" + (", indicative" if self.indicative else "")

    def log_interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """The interval of the logarithm."""
        if self.error is None or self.freedom is None:
            return None
        half = critical(self.freedom, level, self.cells, self.groups) * self.error
        return self.log - half, self.log + half

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """The interval of the ratio."""
        ends = self.log_interval(level)
        return (bounded_exp(ends[0]), bounded_exp(ends[1])) if ends else None

    @property
    def p_value(self) -> float | None:
        """Two-sided, of the hypothesis that the ratio is 1, for this pair only."""
        if self.error is None:
            return None
        t = abs(self.log) / self.error if self.error else inf if self.log else 0.0
        return 2 * float(stdtr(self.freedom, -t))

    @property
    def detectable(self) -> float | None:
        """The smallest change, as a share, that would be shown with 80 % power.

        exp(d s) - 1, where s is the standard error measured here and d the noncentrality at
        which the interval leaves out 1 with that chance (Cohen 1988, "Statistical power
        analysis for the behavioral sciences", 2nd edition, chapter 2).
        """
        if self.error is None or self.freedom is None:
            return None
        return bounded_exp(noncentrality(self.freedom, self.cells, self.groups) * self.error) - 1

    @property
    def detectable_limits(self) -> tuple[float, float] | None:
        """The 95 % interval of `detectable`, which is as uncertain as the noise that it rests on.

        None without an interval, and where the degrees of freedom are not finite: then the noise
        counts as known.
        """
        if self.error is None or self.freedom is None or self.freedom == inf:
            return None
        needed = noncentrality(self.freedom, self.cells, self.groups) * self.error
        low, high = error_limits(self.freedom)
        return bounded_exp(low * needed) - 1, bounded_exp(high * needed) - 1

    def verdict(self, directions: tuple[str, str] = SPEED, undecided: str = NO_DIFFERENCE) -> str:
        """What the ratio is called above or below 1, or that nothing was shown."""
        interval = self.interval()
        if interval is None:
            return TOO_FEW
        up, down = directions
        low, high = interval
        return up if low > 1 else down if high < 1 else undecided


def paired_ratio(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Ratio | None:
    """The ratio of two cells that were run in the same blocks: ours / theirs.

    The logarithms of the ratios within blocks are taken as normal around the logarithm of the
    true ratio, so what slows a whole block falls out of it. The interval is Student's, with
    one degree of freedom less than there are blocks.

    Args:
        ours, theirs: values by block (the number of the repeat).

    Returns:
        None where no block has both, or where a value is not positive.
    """
    blocks = sorted(ours.keys() & theirs.keys())
    if not blocks or min(*(ours[b] for b in blocks), *(theirs[b] for b in blocks)) <= 0:
        return None
    logs = [log(ours[b] / theirs[b]) for b in blocks]
    if len(logs) < 2:
        return Ratio(len(logs), logs[0])
    return Ratio(len(logs), fmean(logs), deviation(logs) / sqrt(len(logs)), len(logs) - 1)


class Noise(NamedTuple):
    """What all cells of two sittings say of the noise of one: a variance of the logarithm.

    It is worth `freedom` degrees of freedom beside a cell's own, `total` with all of them.
    """

    variance: float
    freedom: float
    total: float

    def of(self, values: Sequence[float]) -> tuple[float, float]:
        """The variance of a side, and its degrees of freedom: moderated by that of the others.

        A side that is noisier than they explain (F test, 5 %) keeps its own.
        """
        own, freedom = deviation(values) ** 2, len(values) - 1
        if fdtrc(freedom, self.freedom, own / self.variance) < NOISIER:
            return own, freedom
        joint = self.freedom + freedom
        return (self.freedom * self.variance + freedom * own) / joint, min(joint, self.total)


def shared_noise(sides: Iterable[Sequence[float]]) -> Noise | None:
    """The noise within the sides of all cells, from their logarithms.

    Variances of three runs each scatter far more than the noise does. How far the noise itself
    differs from cell to cell is estimated from their logarithms' mean and variance (Smyth 2004,
    Statistical Applications in Genetics and Molecular Biology 3, 3, section 6.2): the less, the
    more degrees of freedom the common value has; at most those of all sides together.

    Returns:
        None where fewer than four sides have two values, or most have no noise at all.
    """
    variances = [(deviation(side) ** 2, len(side) - 1) for side in sides if len(side) > 1]
    typical = median([square for square, _ in variances]) if len(variances) >= LEAST_SIDES else 0.0
    if not typical:
        return None
    total = float(sum(freedom for _, freedom in variances))
    # Equal values by chance: no logarithm of 0.
    squares = [(max(square, 1e-5 * typical), freedom) for square, freedom in variances]
    apart = [log(square) - psi(f / 2) + log(f / 2) for square, f in squares]
    excess = variance(apart) - fmean(polygamma(1, f / 2) for _, f in squares)
    if excess <= 1e-6:
        return Noise(sum(square * f for square, f in squares) / total, total, total)
    from scipy.optimize import brentq  # takes a fifth of a second to import

    half = brentq(lambda x: polygamma(1, x) - excess, 1e-6, 1e9)
    middle = exp(fmean(apart) + psi(half) - log(half))
    return Noise(middle, min(2 * half, total), total)


class Estimate(NamedTuple):
    """The mean of `n` values, with its 95 % t interval if there are two values or more."""

    n: int
    value: float
    low: float | None = None
    high: float | None = None


def mean_of(values: Sequence[float]) -> Estimate | None:
    """The mean of what has no scale of ratios, and its interval; None without a value."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Estimate(1, mean)
    half = half_width(deviation(values), len(values) - 1) / sqrt(len(values))
    return Estimate(len(values), mean, mean - half, mean + half)


def paired_difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The mean of ours - theirs over the blocks that have both, for what has no scale of ratios.

    The interval is Student's, as that of `paired_ratio`. None where no block has both.
    """
    return mean_of([ours[block] - theirs[block] for block in sorted(ours.keys() & theirs.keys())])


def unpaired_ratio(
    new: Sequence[float],
    old: Sequence[float],
    session_sd: float = SESSION_SD,
    noise: Noise | None = None,
) -> Ratio | None:
    """The ratio of one cell measured in two sittings: new / old.

    The squared standard error is that of Welch (1947, Biometrika 34, 28), the sum of
    variance / n of the two sides' logarithms, plus 2 `session_sd`^2: what differs from
    sitting to sitting is common to all runs of one, so more runs do not average it away. The
    degrees of freedom are Satterthwaite's (1946, Biometrics Bulletin 2, 110), `session_sd`
    counting as known. With `noise` the variances are those that it makes of the sides' own.

    Returns:
        None where a side has no value, or where a value is not positive.
    """
    if not new or not old or min(*new, *old) <= 0:
        return None
    sides = [logarithms(side) for side in (new, old)]
    difference = fmean(sides[0]) - fmean(sides[1])
    n = min(map(len, sides))
    if n < 2:
        return Ratio(n, difference)
    squares = [noise.of(side) if noise else (deviation(side) ** 2, len(side) - 1) for side in sides]
    shares = [square / len(side) for (square, _), side in zip(squares, sides, strict=True)]
    square = sum(shares) + 2 * session_sd**2
    spread = sum(share**2 / freedom for share, (_, freedom) in zip(shares, squares, strict=True))
    if noise and spread:
        spread = max(spread, sum(shares) ** 2 / noise.total)
    return Ratio(n, difference, sqrt(square), square**2 / spread if spread else inf)


def logarithms(values: Iterable[float]) -> list[float]:
    """Of positive values."""
    return [log(value) for value in values]
