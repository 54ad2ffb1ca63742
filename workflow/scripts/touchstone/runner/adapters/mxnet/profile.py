"""Steps under MXNet's profiler, its records by layer of the graph.

A record names an operator, as Convolution, and no layer. Operators of one name run in the order in
which they depend on each other: so the third record of a step is the third node of that name, and
the third gradient that of the third node from the end. Nodes that may change places, in branches of
the graph, have the sum of their times. Where a step has more records of a name than the graph has
nodes, as where gradients are computed with operators of the forward pass, they are no layer's.
"""

import json
import os
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import mxnet as mx

from touchstone.schema.profile import Span, StepTrace
from touchstone.schema.spec import Layer

BACKWARD = "_backward_"
ATTRIBUTE = "__layer__"


class Node(NamedTuple):
    """An operator of the graph.

    op: its name
    layer: whose it is; empty for the loss
    before: the numbers of all nodes that it depends on
    """

    op: str
    layer: str
    before: List[int]


class Record(NamedTuple):
    """What MXNet's engine did: an operator, begin and end in s."""

    op: str
    begin: float
    end: float


Owners = Dict[str, List[Tuple[str, ...]]]
"""By the name of an operator, the layers of each of its nodes, in their order."""


NOT_IMPERATIVE = (
    "MXNet runs all gradients of the imperative mode as one task, whose record names no operator"
)


def profiled_steps(adapter: Any, batches: Any, rates: Any, draws: Any) -> StepTrace:
    """What MXNet's profiler recorded of these steps of an adapter.

    Without the profiler MXNet's engine runs several operators as one task; here each is a task.
    """
    mode, profiler = adapter.job.execution.mode, mx.profiler
    network, training = adapter.network, adapter.training
    usual = network.value_of

    def named(F: Any, layer: Layer, inputs: Any, masks: Any) -> Any:
        with mx.AttrScope(**{ATTRIBUTE: layer["name"]}):
            return usual(F, layer, inputs, masks)

    def hybridize(**options: Any) -> None:
        static = mode == "static"
        training.hybridize(static_alloc=static, static_shape=static, **options)

    def steps() -> float:
        begin = time.monotonic()
        adapter.losses(adapter.train_steps(batches, rates, draws))
        adapter.synchronize()
        return time.monotonic() - begin

    network.value_of = named
    hybridize(forward_bulk_size=0, backward_bulk_size=0)
    bulk = mx.engine.set_bulk_size(0)
    try:
        steps()
        with tempfile.TemporaryDirectory(prefix="touchstone-profile-") as folder:
            path = os.path.join(folder, "profile.json")
            profiler.set_config(
                filename=path, profile_symbolic=True, profile_imperative=True,
                profile_memory=False, profile_api=False,
            )  # fmt: skip
            profiler.set_state("run")
            seconds = steps()
            profiler.set_state("stop")
            profiler.dump(finished=False)
            with open(path, encoding="utf-8") as file:
                records = records_of(file.read())
        owners = owners_of(nodes_of(json.loads(training._cached_graph[1].tojson())))
    finally:
        mx.engine.set_bulk_size(bulk)
        network.value_of = usual
        hybridize(forward_bulk_size=None, backward_bulk_size=None)
        steps()
    return StepTrace("mx.profiler", seconds, spans_of(records, owners, len(rates)))


def records_of(text: str) -> List[Record]:
    """The operators in a dump of the profiler, which is no whole JSON after the first one."""
    decoder, records = json.JSONDecoder(), []
    begun: Dict[Tuple[str, Any], float] = {}
    place = text.find("{", text.find("[") if '"traceEvents"' in text else 0)
    while place >= 0:
        event, end = decoder.raw_decode(text, place)
        key = (event.get("name", ""), event.get("tid"))
        if event["ph"] == "B":
            begun[key] = event["ts"] * 1e-6
        elif event["ph"] == "E" and key in begun:
            records.append(Record(key[0], begun.pop(key), event["ts"] * 1e-6))
        place = text.find("{", end)
    return sorted(records, key=lambda record: record.begin)


def nodes_of(graph: Dict[str, Any]) -> List[Node]:
    """The operators of a symbol's graph, in their order."""
    nodes: List[Node] = []
    number: Dict[int, int] = {}
    for place, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            continue
        before = {number[source[0]] for source in node["inputs"] if source[0] in number}
        for source in list(before):
            before.update(nodes[source].before)
        number[place] = len(nodes)
        layer = node.get("attrs", {}).get(ATTRIBUTE, "")
        nodes.append(Node(node["op"], layer, sorted(before)))
    return nodes


def owners_of(nodes: List[Node]) -> Owners:
    """By the name of an operator, the layers that each of its records in a step may belong to."""
    names: Dict[str, List[int]] = {}
    for number, node in enumerate(nodes):
        names.setdefault(node.op, []).append(number)
    owners: Owners = {}
    for op, numbers in names.items():
        group: List[int] = []
        owners[op] = []
        for place, number in enumerate(numbers):
            group.append(number)
            later = numbers[place + 1 :]
            # All so far come before all others.
            if all(set(group) <= set(nodes[other].before) for other in later):
                layers = tuple(dict.fromkeys(nodes[member].layer for member in group))
                owners[op] += [tuple(filter(None, layers))] * len(group)
                group = []
    return owners


def spans_of(records: List[Record], owners: Owners, steps: int) -> List[Span]:
    """The spans of layers among the records of so many steps."""
    by_name: Dict[str, List[Record]] = {}
    for record in records:
        by_name.setdefault(record.op, []).append(record)
    spans = []
    for name, calls in by_name.items():
        backward = name.startswith(BACKWARD)
        own: Optional[List[Tuple[str, ...]]] = owners.get(name[len(BACKWARD) * backward :])
        if own is None or len(calls) != len(own) * steps:
            continue
        own = own[::-1] if backward else own
        for place, record in enumerate(calls):
            layers = own[place % len(own)]
            if layers:
                spans.append(Span(record.begin, record.end, layers, backward))
    return spans
