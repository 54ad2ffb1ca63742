"""How often two configurations of one speed are called different in turns, by simulation.

Which rounds count, the model and the rule that stops at a `precision` are the product's; only the
speeds of rounds are drawn here. `simulate.py` prints the tables.
"""

from math import exp
from statistics import fmean

import numpy as np

from touchstone.commands.interleave import are_narrow
from touchstone.plan.parts import Interleave
from touchstone.results.interleaved import ADAPTIVE, LEAST_QUIET, speeds_by_set
from touchstone.schema.interleaved import APART, MeasuredSet, Round, Slice, Turns
from touchstone.statistics.groups import compare_groups

USUAL = Interleave()
PRECISIONS = (None, 0.1, 0.05, 0.03, 0.02)
NOISES = (0.01, 0.02, 0.05)
"""Standard deviation of the logarithm of a ratio between sets."""
NEAR_SHARES = (0.3, 0.5, 0.7)
"""Chance of a set that its cores are near in some rounds."""
NEAR, APART_NOISES = 0.01, (0.02, 0.05)
"""As `NOISES`, while the cores are near, and while they are apart."""


def draw(
    cells: int, noise: float, precision: float | None, studies: int, seed: int
) -> tuple[float, float]:
    """The share of studies that call two equal cells different, and the mean number of sets."""
    rng = np.random.default_rng([seed, cells, int(1000 * noise), int(1000 * (precision or 0))])

    def sets() -> list[MeasuredSet]:
        logs = noise / np.sqrt(2) * rng.standard_normal((USUAL.max_sets, cells))
        return [_set(n, [_round(row, 0.0)]) for n, row in enumerate(logs, 1)]

    return _shares([_outcome(sets(), precision) for _ in range(studies)])


def draw_moving(
    share: float, noise: float, precision: float | None, studies: int, seed: int
) -> tuple[float, float]:
    """As `draw` of two cells, where the cores are near in half of the rounds of a `share` of the
    sets, and apart in all others."""
    rng = np.random.default_rng(
        [seed, int(100 * share), int(1000 * noise), int(1000 * (precision or 0))]
    )

    def sets() -> list[MeasuredSet]:
        near = NEAR / np.sqrt(2) * rng.standard_normal((USUAL.max_sets, 2))
        apart = noise / np.sqrt(2) * rng.standard_normal((USUAL.max_sets, 2))
        are_near = (rng.random(USUAL.max_sets) < share).tolist()
        drawn = []
        for number, is_near in enumerate(are_near, 1):
            rounds = [_round(apart[number - 1], 2 * APART)]
            rounds += [_round(near[number - 1], 0.0)] if is_near else []
            drawn.append(_set(number, rounds))
        return drawn

    return _shares([_outcome(sets(), precision) for _ in range(studies)])


def _shares(outcomes: list[tuple[bool, int]]) -> tuple[float, float]:
    """The share that calls cells different, and the mean number of sets."""
    return fmean(differ for differ, _ in outcomes), fmean(count for _, count in outcomes)


def _round(logs: np.ndarray, core_latency: float) -> Round:
    """A quiet round, of the logarithms of its cells' speeds."""
    return Round([Slice(str(i), 0, exp(-log), 1, 0.0, core_latency) for i, log in enumerate(logs)])


def _set(number: int, rounds: list[Round]) -> MeasuredSet:
    """A set of as many rounds of each kind as let it count."""
    cells = [part.cell for part in rounds[0].slices]
    return MeasuredSet(number, "", 0.0, [Turns(cells, LEAST_QUIET * rounds, [])], {})


def _outcome(sets: list[MeasuredSet], precision: float | None) -> tuple[bool, int]:
    """Whether two cells are called different, and after how many sets."""
    cells = sets[0].turns[0].cells
    count = USUAL.sets
    while precision and count < USUAL.max_sets and not are_narrow(sets[:count], precision):
        count += 1
    (model,) = compare_groups([speeds_by_set(cells, sets[:count])])
    if precision:
        model = model._replace(variance=ADAPTIVE * model.variance)
    pairs = [(one, other) for i, one in enumerate(cells) for other in cells[:i]]
    ends = [ratio.interval() for pair in pairs if (ratio := model.ratio(*pair))]
    return any(low > 1 or high < 1 for low, high in filter(None, ends)), count


def print_table(studies: int, seed: int) -> None:
    """The tables of docs/measured.md."""
    names = ["without" if p is None else f"{p:g}" for p in PRECISIONS]
    head = f"{' | '.join(names)} |\n| --- | --- | {' | '.join('---' for _ in names)} |"
    print(
        f"\nEqual configurations called different / mean number of sets, {studies} studies each:\n"
    )
    print(f"| configurations | noise of a set | {head}")
    for cells in (2, 3):
        for noise in NOISES:
            found = [draw(cells, noise, precision, studies, seed) for precision in PRECISIONS]
            print(f"| {cells} | {noise:.0%} | {_row(found)} |", flush=True)
    print(f"\nThe same where the cores move, with a noise of {NEAR:.0%} while they are near:\n")
    print(f"| sets with near cores | noise while they are apart | {head}")
    for share in NEAR_SHARES:
        for noise in APART_NOISES:
            found = [draw_moving(share, noise, each, studies, seed) for each in PRECISIONS]
            print(f"| {share:.0%} | {noise:.0%} | {_row(found)} |", flush=True)


def _row(found: list[tuple[float, float]]) -> str:
    return " | ".join(f"{wrong:.1%} / {sets:.1f}" for wrong, sets in found)
