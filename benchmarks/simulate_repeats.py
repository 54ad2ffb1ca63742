"""How often the number of repeats that the answer names settles the question: by simulation."""

from collections.abc import Iterator
from math import log1p, sqrt
from typing import NamedTuple

import numpy as np

from touchstone.statistics.groups import Values, compare_groups
from touchstone.statistics.repeats import is_settled, rivals_of, settling_repeats

LEADS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5)
CVS = (0.01, 0.02, 0.05, 0.10, 0.20)
STARTS = ((2, 3), (3, 3), (2, 5), (3, 5))
"""Configurations, and repeats of the first study."""


class Counts(NamedTuple):
    """Studies; of these undecided; with a number of repeats; that it settled; called equal."""

    studies: int = 0
    undecided: int = 0
    named: int = 0
    settled: int = 0
    equal: int = 0

    def plus(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(self, other, strict=True)))


def simulate(lead: float, cv: float, cells: int, repeats: int, studies: int, seed: int) -> Counts:
    """Draw studies in which one configuration is `lead` times as fast as the others."""
    rng = np.random.default_rng([seed, round(1000 * lead), round(1000 * cv), cells, repeats])
    return sum_of(_study(rng, lead, cv, cells, repeats) for _ in range(studies))


def sum_of(counts: Iterator[Counts]) -> Counts:
    total = Counts()
    for one in counts:
        total = total.plus(one)
    return total


def _study(rng: np.random.Generator, lead: float, cv: float, cells: int, repeats: int) -> Counts:
    values = _draw(rng, lead, cv, cells, range(repeats))
    (group,) = compare_groups([values])
    if not rivals_of(group):
        return Counts(1)
    if is_settled(group):
        return Counts(1, equal=1)
    more = settling_repeats(group, repeats)
    if more is None:
        return Counts(1, 1)
    added = _draw(rng, lead, cv, cells, range(repeats, more))
    (longer,) = compare_groups([{cell: {**values[cell], **added[cell]} for cell in values}])
    return Counts(1, 1, 1, int(is_settled(longer)))


def _draw(rng: np.random.Generator, lead: float, cv: float, cells: int, blocks: range) -> Values:
    noise = np.exp(sqrt(log1p(cv**2)) * rng.standard_normal((cells, len(blocks))))
    speeds = [lead, *[1.0] * (cells - 1)]
    return {
        str(cell): {block: speed * float(x) for block, x in zip(blocks, row, strict=True)}
        for cell, (speed, row) in enumerate(zip(speeds, noise, strict=True))
    }


def print_table(studies: int, seed: int) -> None:
    print(
        "\nUndecided studies: with a number of repeats / of these, settled by it; called equal:\n"
    )
    print("| true lead |", " | ".join(f"CV {cv:.0%}" for cv in CVS), "| all |")
    print("| --- |", " | ".join("---" for _ in CVS), "| --- |")
    every = Counts()
    for lead in LEADS:
        row = []
        for cv in CVS:
            found = (simulate(lead, cv, *start, studies, seed) for start in STARTS)
            row.append(sum_of(found))
        total = sum_of(iter(row))
        every = every.plus(total)
        print(f"| {lead:g} |", " | ".join(map(_text, [*row, total])), "|", flush=True)
    print(f"\nOf all: {_text(every)}")


def _text(found: Counts) -> str:
    named = f"{found.named / found.undecided:.0%}" if found.undecided else "–"
    settled = f"{found.settled / found.named:.0%}" if found.named else "–"
    return f"{named} / {settled}; {found.equal / found.studies:.0%}"
