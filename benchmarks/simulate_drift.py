"""How often a run is called drifting whose speed is steady, and one that is not: by simulation.

The verdicts are those of the product (`touchstone.results.steadiness`); only the times of chunks
are drawn here. `simulate.py` prints the table.
"""

from collections.abc import Callable
from math import log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from touchstone.results.steadiness import Chunk, drifts

CV = 0.1
"""Of the time of a chunk."""
SPELL_BEGINS, SPELL_ENDS, SPELL = 0.02, 0.15, 4.0
"""Chance that a slow spell begins with a chunk, that it ends with one, and what it costs, in
standard deviations."""
Numbers = NDArray[np.float64]


def normal(rng: np.random.Generator, chunks: int) -> Numbers:
    return rng.standard_normal(chunks)


def correlated(rng: np.random.Generator, chunks: int, like: float = 0.8) -> Numbers:
    """AR(1): each chunk is like the one before."""
    noise = normal(rng, chunks)
    for chunk in range(1, chunks):
        noise[chunk] = like * noise[chunk - 1] + sqrt(1 - like**2) * noise[chunk]
    return noise


def slow_spells(rng: np.random.Generator, chunks: int) -> Numbers:
    """Some chunks in a row are slower."""
    noise, inside = normal(rng, chunks), False
    for chunk in range(chunks):
        inside = rng.random() < (1 - SPELL_ENDS if inside else SPELL_BEGINS)
        noise[chunk] += SPELL * inside
    return noise


NOISES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": normal,
    "AR(1) 0.8": correlated,
    "AR(1) 0.95": lambda rng, chunks: correlated(rng, chunks, 0.95),
    "slow spells": slow_spells,
}
SHAPES = ((20, 0.0), (60, 0.0), (200, 0.0), (60, 0.2), (60, 0.4), (200, 0.2), (200, 0.4))
"""Chunks of a run, and by how much its step time grows from the first to the last."""


def drifting_share(noise: str, chunks: int, runs: int, seed: int, change: float = 0.0) -> float:
    """The share of runs that are called drifting."""
    rng = np.random.default_rng([seed, chunks, *noise.encode()])
    trend = log1p(change) * np.arange(chunks) / (chunks - 1)
    found = 0
    for _ in range(runs):
        times = 0.05 * np.exp(sqrt(log1p(CV**2)) * NOISES[noise](rng, chunks) + trend)
        found += bool(drifts([Chunk(8, float(end)) for end in np.cumsum(times)], 0.0))
    return found / runs


def print_table(runs: int, seed: int) -> None:
    """The table of docs/measured.md."""
    print(f"\nRuns that are called drifting, chunks with CV {CV:.0%}:\n")
    print("| chunks | step time grows by |", " | ".join(NOISES), "|")
    print("| --- | --- |", " | ".join("---" for _ in NOISES), "|")
    for chunks, change in SHAPES:
        shares = [drifting_share(noise, chunks, runs, seed, change) for noise in NOISES]
        print(f"| {chunks} | {change:.0%} |", " | ".join(f"{x:.1%}" for x in shares), "|")
