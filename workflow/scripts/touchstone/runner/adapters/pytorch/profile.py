"""Steps under torch.profiler, its records by layer of the graph.

A step runs node by node of the `torch.fx` graph, and a span around each node says which layer its
operations belong to. A function of the backward pass has the sequence number of the operation that
it is the gradient of.
"""

import time
from typing import Any, Dict, List, Optional

import torch
from torch.profiler import ProfilerActivity, record_function

from touchstone.schema.profile import Span, StepTrace

LAYER, BACKWARD = "touchstone layer ", "autograd::engine::evaluate_function: "


class ByLayer(torch.fx.Interpreter):
    """Computes a graph node by node, each in a span that is named like its layer."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.layers: Dict[Any, str] = {}
        waiting: List[Any] = []
        for node in model.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            # A node without a name is a part of the layer that the next one ends.
            waiting.append(node)
            if "layer" in node.meta:
                self.layers.update(dict.fromkeys(waiting, node.meta["layer"]))
                waiting = []

    def run_node(self, n: Any) -> Any:
        if n not in self.layers:
            return super().run_node(n)
        with record_function(LAYER + self.layers[n]):
            return super().run_node(n)


NOT_COMPILED = "torch.compile makes kernels of several layers, and its profiler does not name them"


def profiled_steps(adapter: Any, batches: Any, rates: Any, draws: Any) -> StepTrace:
    """What torch.profiler recorded of these steps of an adapter."""
    usual, adapter.trained = adapter.trained, ByLayer(adapter.model).run
    try:
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profiler:
            begin = time.monotonic()
            adapter.losses(adapter.train_steps(batches, rates, draws))
            seconds = time.monotonic() - begin
    finally:
        adapter.trained = usual
    return StepTrace("torch.profiler", seconds, spans_of(profiler.events()))


def spans_of(events: Any) -> List[Span]:
    """The spans of layers among the events of a profile; those of gradients by the number of their
    operation."""
    spans = []
    layer_of_number: Dict[int, str] = {}
    for event in sorted(events, key=lambda event: event.time_range.start):
        if event.name.startswith(BACKWARD):
            layer: Optional[str] = layer_of_number.get(event.sequence_nr)
        elif event.name.startswith(LAYER):
            layer = event.name[len(LAYER) :]
        else:
            layer = None
            # The last operation with a number is the one whose gradient has it.
            if event.sequence_nr >= 0:
                layer_of_number[event.sequence_nr] = _layer_around(event)
        if layer:
            begin, end = event.time_range.start * 1e-6, event.time_range.end * 1e-6
            spans.append(Span(begin, end, (layer,), event.name.startswith(BACKWARD)))
    return spans


def _layer_around(event: Any) -> str:
    """The layer in whose span an event is; empty where it is in none."""
    while event is not None:
        if event.name.startswith(LAYER):
            return str(event.name[len(LAYER) :])
        event = event.cpu_parent
    return ""
