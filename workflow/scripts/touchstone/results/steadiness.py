"""Is the throughput of the measured phase steady? A robust trend test on step times."""

import math
from operator import mul
from statistics import fmean, median, pstdev
from typing import NamedTuple

DRIFT_LIMIT = 0.05
"""Share by which the step time may change over the measured phase."""
BLOCKS = 20
MINIMUM_BLOCKS = 10
CHUNKS = 3
"""Chunks that a block joins, at least, where there are enough."""
LARGEST_CORRELATION = 0.9
CERTAIN = 8.0
"""A change of so many standard deviations around the trend is no noise, however correlated."""
CRITICAL_Z = 2.5758  # two-sided 1 % quantile of the standard normal distribution


class Chunk(NamedTuple):
    """Consecutive training steps: how many, and when the last loss was known (s)."""

    steps: int
    end: float


def drifts(chunks: list[Chunk], begin: float) -> bool | None:
    """Whether the step time drifts over a phase that begins at `begin` (s).

    The chunks are joined into 10 to 20 blocks of consecutive chunks. A block's step time
    is the time since the block before it ended / its steps, so that the blocks cover the
    whole phase, gaps included. Over the logarithms of these step times:

    * the size is the Theil-Sen slope (median of the slopes of all pairs; Sen 1968, J. Am.
      Stat. Assoc. 63, 1379) times the length of the phase, and must exceed log 1.05;
    * the trend must be significant at 1 % by the Mann-Kendall test (Mann 1945,
      Econometrica 13, 245), the rank test that belongs to that slope. Neighbouring blocks are
      alike on a shared machine, so they count as fewer: the variance of the score is
      multiplied by (1 + r) / (1 - r), where r is the correlation of neighbours around the
      trend (Yue and Wang 2004, Water Resources Management 18, 201). A smooth curve around the
      trend is correlated too, so a change of 8 standard deviations needs no such factor.

    Why these: a single slow chunk (a garbage collection, a page fault) moves a least-squares
    line but neither a median of slopes nor ranks; logarithms make the limit a ratio; the
    size alone would flag noise in short phases and significance alone would flag harmless
    0.1 % trends in long ones. Blocks bound the cost (190 pairs) and weaken the serial
    correlation of neighbouring chunks. docs/statistics.md says how often the test errs.

    Returns:
        None when there are fewer than 10 chunks: the normal approximation of the rank
        test does not hold there, so such a phase is untested, not steady.
    """
    if len(chunks) < MINIMUM_BLOCKS:
        return None
    blocks = min(BLOCKS, max(MINIMUM_BLOCKS, len(chunks) // CHUNKS))
    times, logs = [], []
    start = begin
    for i in range(blocks):
        block = chunks[i * len(chunks) // blocks : (i + 1) * len(chunks) // blocks]
        end = block[-1].end
        if end <= start:
            return None
        times.append((start + end) / 2)
        logs.append(math.log((end - start) / sum(chunk.steps for chunk in block)))
        start = end
    pairs = [(i, j) for i in range(blocks) for j in range(i + 1, blocks)]
    slope = median((logs[j] - logs[i]) / (times[j] - times[i]) for i, j in pairs)
    change = abs(slope) * (start - begin)
    left = [log - slope * t for log, t in zip(logs, times, strict=True)]
    r = 0.0 if change > CERTAIN * pstdev(left) else _correlation(left)
    score = sum((logs[j] > logs[i]) - (logs[j] < logs[i]) for i, j in pairs)
    variance = blocks * (blocks - 1) * (2 * blocks + 5) / 18 * (1 + r) / (1 - r)
    z = max(abs(score) - 1, 0) / math.sqrt(variance)  # 1: continuity correction
    return change > math.log1p(DRIFT_LIMIT) and z > CRITICAL_Z


def _correlation(left: list[float]) -> float:
    """The correlation of neighbours in what a trend leaves, from 0 to 0.9.

    The estimate from n values around a line is too small by about (2 + 4 r) / n, for level and
    slope are estimated too; this is added again.
    """
    mean, n = fmean(left), len(left)
    apart = [value - mean for value in left]
    square = math.fsum(d * d for d in apart)
    correlation = math.fsum(map(mul, apart, apart[1:])) / square if square else 0.0
    return min(max((n * correlation + 2) / (n - 4), 0.0), LARGEST_CORRELATION)
