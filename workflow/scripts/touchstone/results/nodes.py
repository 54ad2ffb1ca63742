"""A run on several nodes, seen as one: what its other nodes left, on the first one's clock."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.measure import sensors

Series = list[tuple[float, float]]
"""Times (s) and values of a column of telemetry."""


class Node(NamedTuple):
    """Another node than the first: its name, env.json and telemetry, on the first one's clock.

    `uncertainty` (s) is by how much its times may be wrong against those of the first.
    """

    name: str
    env: dict[str, Any]
    telemetry: dict[str, Series]
    uncertainty: float


def folders(run: Path) -> list[Path]:
    """The folders of those other nodes of a run that came to its end."""
    return sorted(path.parent for path in run.glob("nodes/*/node.json"))


def shift(clock: Sequence[dict[str, float]], t: float) -> float:
    """A time of another node on the clock of the first (s).

    `clock` are readings of that clock (docs/contracts.md), at the beginning of the run and, if it
    went to its end, there: between them the clocks are taken to drift evenly.
    """
    first, last = clock[0], clock[-1]
    passed = (t - first["at"]) / ((last["at"] - first["at"]) or 1.0)
    return t + first["offset"] + (last["offset"] - first["offset"]) * min(max(passed, 0.0), 1.0)


def interpolate(series: Series, t: float) -> float | None:
    """A series at time `t`, linear between samples; None outside of them."""
    i = bisect_left(series, (t, -math.inf))
    if i < len(series) and series[i][0] == t:
        return series[i][1]
    if not 0 < i < len(series):
        return None
    (t0, v0), (t1, v1) = series[i - 1], series[i]
    return v0 + (v1 - v0) * (t - t0) / (t1 - t0)


def together(
    telemetry: dict[str, Series], others: Sequence[dict[str, Series]]
) -> dict[str, Series]:
    """The telemetry of all nodes, at the times of the first one's samples.

    What the nodes saw at a moment is put together as the kind of the column says; times at which
    another node was not watched are left out. Nothing is left of a column in which a node has
    nothing, or which no sensor of this version has.
    """
    columns = sensors.columns()
    return {
        name: _joined(columns[name], series, [other.get(name, []) for other in others])
        if name in columns
        else []
        for name, series in telemetry.items()
    }


def _joined(column: sensors.Column, first: Series, others: Sequence[Series]) -> Series:
    seen = ((t, [value, *(_at(column, series, t) for series in others)]) for t, value in first)
    return [(t, joined) for t, values in seen if (joined := column.together(values)) is not None]


def _at(column: sensors.Column, series: Series, t: float) -> float | None:
    """The value of a column at a time; of bits, those of the samples before and after it."""
    if column.kind != sensors.BITS:
        return interpolate(series, t)
    i = bisect_left(series, (t, -math.inf))
    near = [value for _, value in series[max(i - 1, 0) : i + 1]]
    return column.together(near) if near else None
