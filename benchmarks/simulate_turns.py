"""How often two configurations of one speed are called different in turns, by simulation.

The model and the rule that stops at a `precision` are the product's; only the logarithms of the
ratios of sets are drawn here. `simulate.py` prints the table.
"""

from math import exp

import numpy as np

from touchstone.plan.parts import Interleave
from touchstone.results.interleaved import ADAPTIVE, reach
from touchstone.statistics.groups import compare_groups

USUAL = Interleave()
PRECISIONS = (None, 0.1, 0.05, 0.03, 0.02)
NOISES = (0.01, 0.02, 0.05)
"""Standard deviation of the logarithm of a ratio between sets."""


def draw(
    cells: int, noise: float, precision: float | None, studies: int, seed: int
) -> tuple[float, float]:
    """The share of studies that call two equal cells different, and the mean number of sets."""
    rng = np.random.default_rng([seed, cells, int(1000 * noise), int(1000 * (precision or 0))])
    wrong = used = 0
    for _ in range(studies):
        logs = noise / np.sqrt(2) * rng.standard_normal((USUAL.max_sets, cells))
        drawn = [[exp(x - row[0]) for x in row] for row in logs]
        sets = USUAL.sets
        while precision and sets < USUAL.max_sets:
            reached = reach(_ratios(drawn[:sets]))
            if reached is not None and reached <= 1 + precision:
                break
            sets += 1
        (model,) = compare_groups([_ratios(drawn[:sets])])
        if precision:
            model = model._replace(variance=ADAPTIVE * model.variance)
        pairs = [(str(i), str(j)) for i in range(cells) for j in range(i)]
        ends = [ratio.interval() for pair in pairs if (ratio := model.ratio(*pair))]
        wrong += any(low > 1 or high < 1 for low, high in filter(None, ends))
        used += sets
    return wrong / studies, used / studies


def _ratios(sets: list[list[float]]) -> dict[str, dict[int, float]]:
    return {str(i): {n: row[i] for n, row in enumerate(sets, 1)} for i in range(len(sets[0]))}


def print_table(studies: int, seed: int) -> None:
    """The table of docs/statistics.md."""
    print(
        f"\nEqual configurations called different / mean number of sets, {studies} studies each:\n"
    )
    names = ["without" if p is None else f"{p:g}" for p in PRECISIONS]
    print("| configurations | noise of a set |", " | ".join(names), "|")
    print("| --- | --- |", " | ".join("---" for _ in names), "|")
    for cells in (2, 3):
        for noise in NOISES:
            found = [draw(cells, noise, precision, studies, seed) for precision in PRECISIONS]
            row = " | ".join(f"{wrong:.1%} / {sets:.1f}" for wrong, sets in found)
            print(f"| {cells} | {noise:.0%} | {row} |", flush=True)
