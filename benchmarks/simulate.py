"""How often the answer of a study is wrong, and how often it names the fastest: by simulation.

PYTHONPATH=workflow/scripts .venv/bin/python benchmarks/simulate.py [--studies 2000] [--seed 1]

Prints the tables of docs/measured.md. The verdicts are those of the product
(`touchstone.statistics.groups`); only the speeds are drawn here.
"""

import argparse
from collections.abc import Callable
from math import log1p, sqrt
from typing import NamedTuple

import numpy as np
import simulate_claims
import simulate_drift
import simulate_gate
import simulate_repeats
import simulate_turns
from numpy.typing import NDArray

from touchstone.statistics.groups import Group, compare_groups

REPEATS = 3
SPELL_BEGINS, SPELL_ENDS, SPELL = 0.1, 0.4, 4.0
"""Chance that a slow spell begins with a run, that it ends with one, and what it costs."""
STEPS = 0.8
"""Correlation of one run with the next."""

Numbers = NDArray[np.float64]
Noise = Callable[[np.random.Generator, "Places"], Numbers]


class Places(NamedTuple):
    """The cell and the group of each run, by study and order of time."""

    cell: Numbers
    group: Numbers


def normal(rng: np.random.Generator, places: Places) -> Numbers:
    return rng.standard_normal(places.cell.shape)


def heavy(rng: np.random.Generator, places: Places) -> Numbers:
    """Student's t with 3 degrees of freedom, of variance 1."""
    return rng.standard_t(3, places.cell.shape) / sqrt(3)


def correlated(rng: np.random.Generator, places: Places) -> Numbers:
    """AR(1): each run is like the one before."""
    noise = normal(rng, places)
    for run in range(1, noise.shape[1]):
        noise[:, run] = STEPS * noise[:, run - 1] + sqrt(1 - STEPS**2) * noise[:, run]
    return noise


def slow_spells(rng: np.random.Generator, places: Places) -> Numbers:
    """Some runs in a row are slower, by as much as `SPELL` standard deviations."""
    noise = normal(rng, places)
    inside = np.zeros(len(noise), bool)
    for run in range(noise.shape[1]):
        inside = rng.random(len(noise)) < np.where(inside, 1 - SPELL_ENDS, SPELL_BEGINS)
        noise[:, run] -= SPELL * inside
    return noise


def _scaled(noise: Numbers, place: Numbers) -> Numbers:
    """With variances from 1 to 4 by place, on average 1."""
    variances = np.linspace(1, 4, int(place.max()) + 1)
    return noise * np.sqrt(variances / variances.mean())[place]


NOISES: dict[str, Noise] = {
    "normal": normal,
    "t3": heavy,
    "AR(1) 0.8": correlated,
    "slow spells": slow_spells,
    "variances 1 to 4 by framework": lambda rng, p: _scaled(normal(rng, p), p.cell),
    "variances 1 to 4 by group": lambda rng, p: _scaled(normal(rng, p), p.group),
}


class Shape(NamedTuple):
    """A study: groups of cells, and how fast each cell of a group is."""

    groups: int
    speeds: tuple[float, ...]

    @property
    def winner(self) -> int | None:
        """The cell that is rightly called the fastest."""
        best = max(self.speeds)
        return self.speeds.index(best) if self.speeds.count(best) == 1 else None


def named(group: Group) -> str | None:
    """The cell that the answer calls the fastest."""
    first, *others = group.ranked
    ratios = [group.ratio(first, other) for other in others]
    shown = (ratio is not None and ratio.verdict() == "faster" for ratio in ratios)
    return first if all(shown) else None


def simulate(shape: Shape, noise: str, cv: float, studies: int, seed: int) -> tuple[float, float]:
    """The share of studies that name a wrong cell, and of groups that name the fastest."""
    rng = np.random.default_rng([seed, *noise.encode()])
    each = len(shape.speeds)
    cells = each * shape.groups
    # Each block has every cell of the study once, in random order.
    order = rng.permuted(np.tile(np.arange(cells), (studies, REPEATS, 1)), axis=2)
    places = order.reshape(studies, -1)
    drawn = NOISES[noise](rng, Places(places % each, places // each))
    speeds = np.exp(sqrt(log1p(cv**2)) * drawn) * np.array(shape.speeds)[places % each]
    # Sorted by block and cell, as the product has them.
    by_cell = np.take_along_axis(
        speeds.reshape(order.shape), np.argsort(order, axis=2), axis=2
    ).reshape(studies, REPEATS, shape.groups, each)
    wrong = right = 0
    for study in by_cell.transpose(0, 2, 3, 1).tolist():
        groups = [
            {str(cell): dict(enumerate(values)) for cell, values in enumerate(group)}
            for group in study
        ]
        names = [name for group in compare_groups(groups) if (name := named(group))]
        good = sum(name == str(shape.winner) for name in names)
        wrong += good < len(names)
        right += good
    return wrong / studies, right / studies / shape.groups


WRONG = (
    Shape(1, (1.0, 1.0)), Shape(2, (1.0, 1.0)),
    Shape(1, (1.0, 1.0, 1.0)), Shape(2, (1.0, 1.0, 1.0)),
    Shape(2, (1.0, 1.0, 0.5)), Shape(6, (1.0, 1.0, 1.0)), Shape(6, (1.0, 1.0, 0.5)),
)  # fmt: skip
"""No cell is the fastest: any name is wrong. Hardest are two that are alike, and slower ones."""
RIGHT = tuple(
    Shape(groups, speeds)
    for speeds in ((2.25, 1.5, 1.0), (1.5, 1.0, 1.0), (1.5, 1.0))
    for groups in (1, 2, 6)
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--studies", type=int, default=4000, help="studies in each place of a table"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    drawn = options.studies, options.seed
    print(f"{REPEATS} repeats, {drawn[0]} studies each, seed {drawn[1]}\n")
    print("Studies that name a wrong framework, CV 10 %:\n")
    print("| groups | speeds |", " | ".join(NOISES), "|")
    print("| --- | --- |", " | ".join("---" for _ in NOISES), "|")
    for shape in WRONG:
        found = [simulate(shape, noise, 0.10, *drawn)[0] for noise in NOISES]
        print(_row(shape, found), flush=True)
    print("\nGroups that name the fastest, normal noise:\n")
    print("| groups | speeds | CV 5 % | CV 10 % | CV 15 % |\n| --- | --- | --- | --- | --- |")
    for shape in RIGHT:
        found = [simulate(shape, "normal", cv, *drawn)[1] for cv in (0.05, 0.10, 0.15)]
        print(_row(shape, found), flush=True)
    simulate_repeats.print_table(options.studies // 20, options.seed)
    simulate_claims.print_table(options.studies // 2, options.seed)
    simulate_drift.print_table(options.studies // 4, options.seed)
    simulate_turns.print_table(options.studies // 2, options.seed)
    simulate_gate.print_table(options.studies // 4, options.seed)


def _row(shape: Shape, shares: list[float]) -> str:
    speeds = ", ".join(f"{speed:g}" for speed in shape.speeds)
    return f"| {shape.groups} | {speeds} | " + " | ".join(f"{x:.1%}" for x in shares) + " |"


if __name__ == "__main__":
    main()
