"""Where the time of a training step goes, layer by layer.

Times are in s on a monotonic clock.
"""

from statistics import median
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

FORMAT = 1


class Span(NamedTuple):
    """What one thread of a framework did for layers.

    begin: of the span, s
    end: s
    layers: their names; several where the framework computes them in one operation
    backward: whether it computed gradients
    """

    begin: float
    end: float
    layers: Tuple[str, ...]
    backward: bool


class StepTrace(NamedTuple):
    """What the framework's own profiler recorded of some steps.

    profiler: its name
    seconds: that the steps took, s
    spans: what was done for layers
    """

    profiler: str
    seconds: float
    spans: List[Span]


class LayerTime(NamedTuple):
    """The time of a layer, or of layers that the framework computes in one operation.

    layers: their names, in order of the graph
    forward: to compute them, s in a step; null where no operation does that for just these layers
    backward: to compute their gradients, s in a step; null as above
    """

    layers: List[str]
    forward: Optional[float]
    backward: Optional[float]

    @property
    def total(self) -> float:
        """Both together, s in a step."""
        return (self.forward or 0.0) + (self.backward or 0.0)


class Profile(NamedTuple):
    """Where the time of a cell's steps goes: `results/profiles/<cell>.json`.

    format: version of this file's format
    cell: the name of the cell
    status: `ok`, or why there are no numbers
    reason: in words
    profiler: of the framework, whose records these are
    rounds: of steps, without the profiler and with it; times of layers and `other` are medians
    steps: of a round
    layers: in order of the graph
    other: of a step, in no operation of a layer: its input, the loss, the update and waiting, s
    step: duration of a step without the profiler, s: `profiled_step` / the rounds' median ratio
    profiled_step: the sum of `layers` and `other`, s: duration of a step with the profiler
    ops: the operation of every layer of the graph, by its name, in their order
    """

    format: int
    cell: str
    status: str
    reason: Optional[str]
    profiler: str
    rounds: int
    steps: int
    layers: List[LayerTime]
    other: float
    step: float
    profiled_step: float
    ops: Dict[str, str]


def without_numbers(cell: str, status: str, reason: str) -> Profile:
    """The profile of a cell that has none."""
    return Profile(FORMAT, cell, status, reason, "", 0, 0, [], 0.0, 0.0, 0.0, {})


Key = Tuple[Tuple[str, ...], bool]
"""Layers, and whether their gradients are computed."""


def shared_time(spans: Iterable[Span]) -> Dict[Key, float]:
    """The time of every layer and direction, s.

    Each moment belongs to the span that it is in, and in equal parts to all of them where there
    are several: so that the sum is at most the time in which they lie.
    """
    edges = []
    for number, span in enumerate(spans):
        if span.end > span.begin:
            key = (span.layers, span.backward)
            edges += [(span.begin, 1, number, key), (span.end, -1, number, key)]
    edges.sort(key=lambda edge: edge[:3])
    times: Dict[Key, float] = {}
    active: Dict[int, Key] = {}
    last = 0.0
    for time, step, number, key in edges:
        for other in active.values():
            times[other] = times.get(other, 0.0) + (time - last) / len(active)
        last = time
        if step > 0:
            active[number] = key
        else:
            del active[number]
    return times


def layer_times(
    traces: Sequence[StepTrace], steps: int, names: List[str]
) -> Tuple[List[LayerTime], float]:
    """The time of layers in one step, and of a step the rest: medians of rounds of so many steps.

    `names` are all layers, in order of the graph.
    """
    place = {name: number for number, name in enumerate(names)}
    rounds = [shared_time(trace.spans) for trace in traces]
    rest = [trace.seconds - sum(times.values()) for trace, times in zip(traces, rounds)]
    keys = {key for times in rounds for key in times}
    seconds = {key: median(times.get(key, 0.0) for times in rounds) / steps for key in keys}
    groups = sorted(
        {layers for layers, _ in keys},
        key=lambda layers: (min(place[name] for name in layers), len(layers), layers),
    )
    layers = [
        LayerTime(
            sorted(layers, key=place.__getitem__),
            seconds.get((layers, False)),
            seconds.get((layers, True)),
        )
        for layers in groups
    ]
    return layers, median(rest) / steps
