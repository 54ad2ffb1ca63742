"""A run on several nodes, seen as one: what its other nodes left, on the first one's clock."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

Column = list[tuple[float, float]]
"""Times (s) and values of a telemetry column."""
COMBINED: dict[str, Callable[[list[float]], float]] = {
    "gpu_utilization": fmean,
    "gpu_temperature": max,
    "gpu_sm_clock": fmean,
    "gpu_memory_clock": fmean,
}
"""How one number is made of several nodes', where it is not their sum."""
BITS = "gpu_throttle_reasons"


class Node(NamedTuple):
    """Another node than the first: its name, env.json and telemetry, on the first one's clock.

    `uncertainty` (s) is by how much its times may be wrong against those of the first.
    """

    name: str
    env: dict[str, Any]
    telemetry: dict[str, Column]
    uncertainty: float


def folders(run: Path) -> list[Path]:
    """The folders of those other nodes of a run that came to its end."""
    return sorted(path.parent for path in run.glob("nodes/*/node.json"))


def shift(clock: Sequence[dict[str, float]], t: float) -> float:
    """A time of another node on the clock of the first (s).

    `clock` are readings of that clock (docs/contracts.md), at the begin of the run and, if it
    went to its end, there: between them the clocks are taken to drift evenly.
    """
    first, last = clock[0], clock[-1]
    passed = (t - first["at"]) / ((last["at"] - first["at"]) or 1.0)
    return t + first["offset"] + (last["offset"] - first["offset"]) * min(max(passed, 0.0), 1.0)


def interpolate(column: Column, t: float) -> float | None:
    """A column at time `t`, linear between samples; None outside of them."""
    i = bisect_left(column, (t, -math.inf))
    if i < len(column) and column[i][0] == t:
        return column[i][1]
    if not 0 < i < len(column):
        return None
    (t0, v0), (t1, v1) = column[i - 1], column[i]
    return v0 + (v1 - v0) * (t - t0) / (t1 - t0)


def together(
    telemetry: dict[str, Column], others: Sequence[dict[str, Column]]
) -> dict[str, Column]:
    """The telemetry of all nodes, at the times of the first one's samples.

    It is the sum of what the first saw and of the others' at that moment, or what `COMBINED`
    makes of them; times at which another node was not watched are left out, and where one has
    nothing in a column, nothing is left of it.
    """
    return {
        name: [
            (t, _combined(name, [value, *there]))
            for t, value in column
            if None not in (there := [_at(name, other.get(name, []), t) for other in others])
        ]
        for name, column in telemetry.items()
    }


def _at(name: str, column: Column, t: float) -> float | None:
    """The value of a column at a time; of bits, those of the samples before and after it."""
    if name != BITS:
        return interpolate(column, t)
    i = bisect_left(column, (t, -math.inf))
    near = [int(value) for _, value in column[max(i - 1, 0) : i + 1]]
    return float(reduce(or_, near)) if near else None


def _combined(name: str, values: list[Any]) -> float:
    if name == BITS:
        return float(reduce(or_, map(int, values)))
    found: float = COMBINED.get(name, sum)(values)
    return found
