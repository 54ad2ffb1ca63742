"""Steps under TensorFlow's profiler, its records by layer of the graph.

The steps are traced again, each layer in a name scope of its own: so the names of all
operations say their layer, and those of gradients too.
"""

import glob
import os
import re
import tempfile
import time
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from touchstone.schema.profile import Span, StepTrace
from touchstone.schema.spec import Layer

SCOPE = "layer."
SCOPED = re.compile(r"(?:^|/)layer\.([^/:]+)")
GRADIENT = "gradient_tape/"
FUSED = re.compile(r":_\w*Fused(Conv2D|MatMul|DepthwiseConv2dNative)")
"""The type of an operation that computes a product with what follows it, under the name of that."""
PRODUCTS = ("conv", "dense")


def scoped_chunk(adapter: Any) -> Any:
    """The adapter's function of a chunk of steps, traced with a name scope for each layer."""
    usual = adapter._layer

    def scoped(layer: Layer, inputs: Any, training: Any) -> Any:
        with tf.name_scope(SCOPE + layer["name"]):
            return usual(layer, inputs, training)

    def chunk(*arguments: Any) -> Any:
        adapter._layer = scoped
        try:
            return adapter._chunk(*arguments)
        finally:
            del adapter._layer

    return tf.function(chunk, input_signature=adapter.signature, autograph=False)


NOT_OF_XLA = "XLA compiles a step as a whole, and its records name no layers"


def profiled_steps(adapter: Any, batches: Any, rates: Any, draws: Any) -> StepTrace:
    """What TensorFlow's profiler recorded of these steps of an adapter."""
    if not hasattr(adapter, "scoped"):
        adapter.scoped = scoped_chunk(adapter)
    usual, adapter.chunk = adapter.chunk, adapter.scoped
    options = tf.profiler.experimental.ProfilerOptions(2, 0, 0)
    try:
        with tempfile.TemporaryDirectory(prefix="touchstone-profile-") as folder:
            tf.profiler.experimental.start(folder, options)
            begin = time.monotonic()
            adapter.losses(adapter.train_steps(batches, rates, draws))
            seconds = time.monotonic() - begin
            tf.profiler.experimental.stop()
            (path,) = glob.glob(os.path.join(folder, "plugins/profile/*/*.xplane.pb"))
            with open(path, "rb") as file:
                space = xplane_pb2.XSpace.FromString(file.read())
    finally:
        adapter.chunk = usual
    return StepTrace("tf.profiler", seconds, spans_of(space, adapter.by_name))


def spans_of(space: Any, layers: Dict[str, Layer]) -> List[Span]:
    """The spans of layers among the records of all threads."""
    spans = []
    for plane in space.planes:
        owners = {
            number: owner_of(kind.name, layers) for number, kind in plane.event_metadata.items()
        }
        for line in plane.lines:
            for event in line.events:
                owner = owners[event.metadata_id]
                if owner:
                    begin = line.timestamp_ns * 1e-9 + event.offset_ps * 1e-12
                    spans.append(Span(begin, begin + event.duration_ps * 1e-12, *owner))
    return spans


def owner_of(name: str, layers: Dict[str, Layer]) -> Optional[Tuple[Tuple[str, ...], bool]]:
    """The layers that an operation of this name computes, and whether it computes gradients; None
    for an operation of no layer."""
    match = SCOPED.search(name)
    # Reading a variable takes no time, and would give a fused layer a time of its own.
    if match is None or match.group(1) not in layers or name.endswith(":ReadVariableOp"):
        return None
    layer = layers[match.group(1)]
    together = [layer["name"]]
    if FUSED.search(name):
        while layer["op"] not in PRODUCTS and layer["inputs"][0] in layers:
            layer = layers[layer["inputs"][0]]
            together.insert(0, layer["name"])
    return tuple(together), GRADIENT in name
