"""Is the throughput of the measured phase steady? A robust trend test on step times."""

import math
from statistics import median
from typing import NamedTuple

from touchstone.results.metrics import DRIFT_LIMIT

BLOCKS = 20
MINIMUM_BLOCKS = 10
CRITICAL_Z = 2.5758  # two-sided 1 % quantile of the standard normal distribution


class Chunk(NamedTuple):
    """Consecutive training steps: how many, and when the last loss was known (s)."""

    steps: int
    end: float


def drifts(chunks: list[Chunk], begin: float) -> bool | None:
    """Whether the step time drifts over a phase that begins at `begin` (s).

    The chunks are joined into at most 20 blocks of consecutive chunks. A block's step time
    is the time since the block before it ended / its steps, so that the blocks cover the
    whole phase, gaps included. Over the logarithms of these step times:

    * the size is the Theil-Sen slope (median of the slopes of all pairs; Sen 1968, J. Am.
      Stat. Assoc. 63, 1379) times the length of the phase, and must exceed log 1.05;
    * the trend must be significant at 1 % by the Mann-Kendall test (Mann 1945,
      Econometrica 13, 245), the rank test that belongs to that slope.

    Why these: a single slow chunk (a garbage collection, a page fault) moves a least-squares
    line but neither a median of slopes nor ranks; logarithms make the limit a ratio; the
    size alone would flag noise in short phases and significance alone would flag harmless
    0.1 % trends in long ones. Blocks bound the cost (190 pairs) and weaken the serial
    correlation of neighbouring chunks, which would make the rank test too eager.

    Returns:
        None when there are fewer than 10 chunks: the normal approximation of the rank
        test does not hold there, so such a phase is untested, not steady.
    """
    blocks = min(BLOCKS, len(chunks))
    if blocks < MINIMUM_BLOCKS:
        return None
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
    change = median((logs[j] - logs[i]) / (times[j] - times[i]) for i, j in pairs) * (start - begin)
    score = sum((logs[j] > logs[i]) - (logs[j] < logs[i]) for i, j in pairs)
    deviation = math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    z = max(abs(score) - 1, 0) / deviation  # 1: continuity correction
    return abs(change) > math.log1p(DRIFT_LIMIT) and z > CRITICAL_Z
