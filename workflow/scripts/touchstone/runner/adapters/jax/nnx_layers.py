"""The layers of a graph as modules and functions of Flax NNX."""

from typing import Any, Dict, Tuple

import jax.numpy as jnp
import numpy as np
from flax import nnx

from touchstone.runner.adapters.jax.network import ACTIVATIONS, layer_of
from touchstone.schema.spec import Layer
from touchstone.schema.spec import Network as Graph

PATHS: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "embedding": {"weight": ("embedding",)},
    "batch_norm": {
        "scale": ("scale",),
        "offset": ("bias",),
        "mean": ("mean",),
        "variance": ("var",),
    },
    "layer_norm": {"scale": ("scale",), "offset": ("bias",)},
    "lstm": {
        "weight": ("cell", "dense_i", "kernel"),
        "recurrent": ("cell", "dense_h", "kernel"),
        "bias": ("cell", "dense_h", "bias"),
    },
    "position": {"weight": ("embedding",)},
    "class_token": {"weight": ("embedding",)},
    "layer_scale": {"scale": ("scale",)},
}
"""By operation, where Flax's modules have an array of the graph; else in `kernel` and `bias`."""
SPARED = ("scale", "bias")
"""What Flax calls the arrays that weight decay may spare."""


def path_of(layer: Layer, kind: str) -> Tuple[str, ...]:
    """Where a `Network` has an array of a layer."""
    usual: Dict[str, Tuple[str, ...]] = {"weight": ("kernel",), "bias": ("bias",)}
    return ("modules", layer["name"], *PATHS.get(layer["op"], usual)[kind])


class Position(nnx.Module):
    """A sequence plus an array of its shape."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.embedding = nnx.Param(jnp.zeros(shape, dtype))

    def __call__(self, x: Any) -> Any:
        return x + self.embedding.astype(x.dtype)


class ClassToken(nnx.Module):
    """A sequence after a learned step."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.embedding = nnx.Param(jnp.zeros(shape, dtype))

    def __call__(self, x: Any) -> Any:
        token = jnp.broadcast_to(self.embedding.astype(x.dtype), (len(x), 1, x.shape[2]))
        return jnp.concatenate([token, x], axis=1)


class LayerScale(nnx.Module):
    """Images whose channels are multiplied by learned numbers."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.scale = nnx.Param(jnp.ones(shape, dtype))

    def __call__(self, x: Any) -> Any:
        return x * self.scale.astype(x.dtype)


OWN = {"position": Position, "class_token": ClassToken, "layer_scale": LayerScale}
"""Modules that Flax does not have."""


class Held:
    """A graph, as NNX wants what is no array: equal to itself only, so that it can be hashed."""

    def __init__(self, graph: Graph) -> None:
        self.layers, self.output = graph.layers, graph.output
        self.computed = ""
        """The type of the network's output, once it is known."""


class Network(nnx.Module):
    """The layers of the graph; images are (batch, height, width, channels).

    Arrays are kept in `dtype`, and layers compute in `computed`.
    """

    def __init__(self, graph: Graph, rngs: nnx.Rngs, dtype: Any, computed: Any) -> None:
        self.held, self.dtype, self.computed = Held(graph), dtype, computed
        shapes = {"input": graph.input}
        shapes.update({layer["name"]: layer["shape"] for layer in graph.layers})
        types = {"dtype": computed, "param_dtype": dtype, "rngs": rngs}
        modules = {}
        for layer in graph.layers:
            made = _module(layer, shapes[layer["inputs"][0]], types)
            if made is not None:
                modules[layer["name"]] = made
        self.modules = nnx.Dict(modules)

    def __call__(self, images: Any, masks: Any = None) -> Any:
        """The logits; layers that draw multiply by `masks`, if there are any."""
        values = {"input": images.astype(self.computed)}
        for layer in self.held.layers:
            name, inputs = layer["name"], [values[source] for source in layer["inputs"]]
            if masks and name in masks:
                values[name] = inputs[0] * masks[name].astype(inputs[0].dtype)
            elif layer["op"] == "unembedding":
                values[name] = self.modules[layer["embedding"]].attend(inputs[0])
            elif layer["op"] == "embedding":
                tokens = inputs[0][:, :, 0, 0].astype(np.int32)
                values[name] = self.modules[name](tokens)
            elif layer["op"] == "lstm":
                states = self.modules[name](inputs[0])
                values[name] = states if layer["sequence"] else states[:, -1]
            elif name in self.modules:
                values[name] = self.modules[name](inputs[0])
            else:
                values[name] = _function(layer, inputs)
        output = values[self.held.output]
        self.held.computed = output.dtype.name
        return output.astype(self.dtype)


def _module(layer: Layer, shape: Any, types: Dict[str, Any]) -> Any:
    """The module of a layer that has arrays or draws, else None."""
    op, features = layer["op"], shape[-1]
    if op == "conv":
        top, bottom, left, right = layer["padding"]
        return nnx.Conv(
            features, layer["filters"], layer["kernel"], layer["stride"],
            padding=[(top, bottom), (left, right)], kernel_dilation=layer["dilation"],
            feature_group_count=layer["groups"], use_bias=layer["bias"], **types,
        )  # fmt: skip
    if op == "up_conv":
        size = (layer["scale"], layer["scale"])
        return nnx.ConvTranspose(
            features, layer["filters"], size, size, padding="VALID", transpose_kernel=True, **types
        )
    if op == "dense":
        return nnx.Linear(features, layer["units"], use_bias=layer["bias"], **types)
    if op == "batch_norm":
        own = {"momentum": layer["momentum"], "epsilon": layer["epsilon"]}
        return nnx.BatchNorm(features, **own, **types)
    if op == "layer_norm":
        return nnx.LayerNorm(features, epsilon=layer["epsilon"], **types)
    if op == "embedding":
        return nnx.Embed(layer["vocabulary"], layer["width"], **types)
    if op == "lstm":
        return nnx.RNN(nnx.OptimizedLSTMCell(features, layer["units"], **types))
    if op == "dropout":
        return nnx.Dropout(layer["rate"], rngs=types["rngs"])
    if op == "stochastic_depth":
        others = tuple(range(1, 1 + len(layer["shape"])))
        return nnx.Dropout(layer["rate"], broadcast_dims=others, rngs=types["rngs"])
    if op in OWN:
        return OWN[op](shape if op == "position" else shape[-1:], types["param_dtype"])
    return None


def _function(layer: Layer, inputs: Any) -> Any:
    """What a layer without arrays makes of its inputs."""
    op, x = layer["op"], inputs[0]
    if op in ACTIVATIONS:
        return ACTIVATIONS[op](x)
    if op in ("max_pool", "avg_pool"):
        top, bottom, left, right = layer["padding"]
        window = (layer["size"], layer["size"]), (layer["stride"], layer["stride"])
        padding = [(top, bottom), (left, right)]
        if op == "max_pool":
            return nnx.max_pool(x, *window, padding=padding)
        return nnx.avg_pool(x, *window, padding=padding, count_include_pad=False)
    if op == "global_avg_pool":
        return jnp.mean(x, axis=(1, 2))
    if op == "mean_over_steps":
        return jnp.mean(x, axis=1)
    if op == "add":
        return sum(inputs[1:], x)
    if op == "concat":
        return jnp.concatenate(inputs, axis=-1)
    if op == "multiply":
        return x * inputs[1][:, None, None]
    if op == "flatten":
        return x.reshape(len(x), -1)
    if op == "to_sequence":
        return x.reshape(len(x), -1, x.shape[3])
    if op == "all_but_last":
        return x[:, :-1]
    if op == "step":
        return x[:, layer["index"]]
    if op == "attention":
        if x.dtype == np.float64:  # JAX's own has a softmax in single precision
            return layer_of(layer, inputs, {})
        parts = x.reshape(*x.shape[:2], 3, layer["heads"], -1)
        mask = nnx.make_causal_mask(x[:, :, 0]) if layer.get("causal") else None
        output = nnx.dot_product_attention(*(parts[:, :, i] for i in range(3)), mask=mask)
        return output.reshape(*x.shape[:2], -1)
    if op == "lrn":
        half = layer["size"] // 2
        squares = jnp.pad(x * x, [(0, 0), (0, 0), (0, 0), (half, half)])
        total = sum(squares[..., i : i + x.shape[3]] for i in range(layer["size"]))
        return x / (layer["k"] + layer["alpha"] / layer["size"] * total) ** layer["beta"]
    raise NotImplementedError("Flax is given no layer " + op)
