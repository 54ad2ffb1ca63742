"""How often the gate (`cli.py compare`) fails, passes or cannot tell, by simulation.

The verdicts are the product's (`touchstone.analysis.gate`); only speeds are drawn here.
`simulate.py` prints the tables.
"""

from collections import Counter
from collections.abc import Callable
from math import log
from typing import NamedTuple

import numpy as np

from touchstone.analysis.compare_in_turn import NEW, OLD
from touchstone.analysis.compare_results import Change
from touchstone.analysis.gate import (
    CANNOT_TELL,
    PASSED,
    SLOWER,
    Gate,
    judged_in_turn,
    judged_together,
)
from touchstone.plan.parts import Interleave
from touchstone.statistics.groups import compare_groups
from touchstone.statistics.intervals import (
    SESSION_SD,
    Ratio,
    logarithms,
    shared_noise,
    unpaired_ratio,
)

CELLS = (3, 6, 18)
RUNS = 5
"""Of a cell on each side."""
SETS = Interleave().sets
SITTINGS = (0.0, SESSION_SD)
"""Standard deviation of the logarithm between sittings, which all cells of one share."""
SMALL, LARGE = 0.05, 0.25
"""Tolerances."""


class Slowdown(NamedTuple):
    """Which share of its speed is lost, in one cell or in all."""

    share: float
    everywhere: bool

    def logs(self, cells: int) -> np.ndarray:
        """The logarithms of new / old, by cell."""
        slower = np.arange(cells) < (cells if self.everywhere else 1)
        return np.where(slower, log(1 - self.share), 0.0)

    def __str__(self) -> str:
        where = "all" if self.everywhere else "one"
        return f"{where} -{self.share:.0%}" if self.share else "unchanged"


UNCHANGED = Slowdown(0.0, True)
SLOWDOWNS = (
    UNCHANGED, Slowdown(0.05, False), Slowdown(0.1, False), Slowdown(0.25, False),
    Slowdown(0.05, True), Slowdown(0.1, True), Slowdown(0.25, True),
)  # fmt: skip


def around(tolerance: float) -> tuple[Slowdown, ...]:
    """Slowdowns within a tolerance, at it and beyond it."""
    beyond = Slowdown(2 * tolerance, False)
    at = Slowdown(tolerance, False), Slowdown(tolerance, True)
    return UNCHANGED, Slowdown(0.4 * tolerance, True), *at, beyond, beyond._replace(everywhere=True)


def of_sittings(
    rng: np.random.Generator, logs: np.ndarray, cv: float, sitting: float, tolerance: float | None
) -> Gate:
    """The gate of two results folders."""
    old, new = (
        np.exp(rng.normal(0, sitting) + shift[:, None] + rng.normal(0, cv, (len(logs), RUNS)))
        for shift in (np.zeros_like(logs), logs)
    )
    pairs = list(zip(new.tolist(), old.tolist(), strict=True))
    noise = shared_noise(logarithms(side) for pair in pairs for side in pair)
    ratios = [unpaired_ratio(*pair, noise=noise) for pair in pairs]
    return judged_together([_change(one) for one in ratios], "throughput", tolerance=tolerance)


def in_turn(
    rng: np.random.Generator, logs: np.ndarray, noise: float, tolerance: float | None
) -> Gate:
    """The gate of two installations; the ratio of a set has this noise."""
    drawn = np.exp(logs[:, None] + rng.normal(0, noise, (len(logs), SETS))).tolist()
    models = compare_groups(
        [{OLD: dict.fromkeys(range(SETS), 1.0), NEW: dict(enumerate(row))} for row in drawn]
    )
    ratios = [ratio._replace(groups=1) for m in models if (ratio := m.ratio(NEW, OLD))]
    return judged_in_turn([_change(one) for one in ratios], tolerance)


def _change(ratio: Ratio | None) -> Change:
    return Change("", [], [], ratio, "", "", [])


def shares(gates: list[Gate]) -> dict[int, float]:
    """The share of each exit status."""
    counts = Counter(gate.status for gate in gates)
    return {status: counts[status] / len(gates) for status in (PASSED, SLOWER, CANNOT_TELL)}


def print_table(studies: int, seed: int) -> None:
    """The tables of docs/measured.md."""
    rng = np.random.default_rng(seed)

    def fails(logs: np.ndarray, cv: float) -> str:
        """How often two folders fail, without and with a difference between sittings."""
        found = (
            [of_sittings(rng, logs, cv, sitting, None) for _ in range(studies)]
            for sitting in SITTINGS
        )
        return "{:.1%} ({:.1%})".format(*(shares(gates)[SLOWER] for gates in found))

    def of_folders(logs: np.ndarray, cv: float) -> str:
        gates = (of_sittings(rng, logs, cv, SESSION_SD, LARGE) for _ in range(studies))
        return _outcomes(list(gates))

    def of_installations(logs: np.ndarray, noise: float) -> str:
        return _outcomes([in_turn(rng, logs, noise, SMALL) for _ in range(studies)])

    print(
        f"\nExit status 1 of two results folders, {RUNS} runs a side, {studies} studies each, and"
    )
    print(f"in brackets where sittings differ by {SESSION_SD:.0%}:\n")
    _rows("CV", CELLS, SLOWDOWNS, (0.02, 0.05, 0.1), fails)
    print(f"\nExit status 0 / 1 / 3 with --tolerance {LARGE:.0%}, where sittings differ:\n")
    _rows("CV", CELLS, around(LARGE), (0.02, 0.05, 0.1), of_folders)
    print(f"\nThe same of installations in {SETS} sets of turns, with --tolerance {SMALL:.0%}:\n")
    _rows("noise of a set", (1, *CELLS), around(SMALL), (0.01, 0.02, 0.05), of_installations)


def _rows(
    name: str,
    cells: tuple[int, ...],
    slowdowns: tuple[Slowdown, ...],
    noises: tuple[float, ...],
    place: Callable[[np.ndarray, float], str],
) -> None:
    """A table: numbers of cells and noises, by slowdown."""
    print(f"| configurations | {name} | {' | '.join(map(str, slowdowns))} |")
    print(f"| --- | --- |{' --- |' * len(slowdowns)}")
    for n in cells:
        for noise in noises:
            row = [place(slowdown.logs(n), noise) for slowdown in slowdowns]
            print(f"| {n} | {noise:.0%} | {' | '.join(row)} |", flush=True)


def _outcomes(gates: list[Gate]) -> str:
    return " / ".join(f"{share:.0%}" for share in shares(gates).values())
