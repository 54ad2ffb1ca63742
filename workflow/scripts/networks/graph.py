"""A network as a graph of standard layers; framework-free.

Shapes are those of one example: (height, width, channels) for images, (features,) once
flattened. `flatten` puts the channels first (channel, row, column), whatever order a
framework keeps its images in; adapters reorder the weights behind it, once, at build.
Weights have one canonical layout: convolution (filters, channels, height, width), dense
(units, features).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


class GraphError(ValueError):
    """The layers of a network do not fit together."""


@dataclass(frozen=True)
class Layer:
    """One layer: `op` with its settings, the names of its inputs, and its output's shape."""

    name: str
    op: str
    inputs: tuple[str, ...]
    settings: dict[str, Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A trainable array: its name (`layer.weight`), canonical shape and fan-in.

    `init` is `he_normal` (normal with variance 2 / fan_in; He et al. 2015,
    arXiv:1502.01852, equation 10) or `zeros`.
    """

    name: str
    shape: tuple[int, ...]
    init: str
    fan_in: int


@dataclass
class Graph:
    """Layers in the order they are computed; every method that adds one returns its name."""

    name: str
    input_shape: tuple[int, int, int]
    layers: list[Layer] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    macs: int = 0

    def shape(self, name: str) -> tuple[int, ...]:
        """The output shape of the layer `name`, or of the input."""
        if name == "input":
            return self.input_shape
        for layer in self.layers:
            if layer.name == name:
                return layer.shape
        raise GraphError(f"no layer named {name!r} stands before its use")

    def _add(self, op: str, name: str, source: str, shape: tuple[int, ...], **settings: Any) -> str:
        if name == "input" or any(layer.name == name for layer in self.layers):
            raise GraphError(f"two layers are named {name!r}")
        if not all(size > 0 for size in shape):
            raise GraphError(f"layer {name} ({op}) makes {shape} of {self.shape(source)}")
        self.layers.append(Layer(name, op, (source,), settings, shape))
        return name

    def _image(self, source: str, name: str, op: str) -> tuple[int, int, int]:
        shape = self.shape(source)
        if len(shape) != 3:
            raise GraphError(f"layer {name} ({op}) wants an image, {source} gives {shape}")
        return shape[0], shape[1], shape[2]

    def conv(
        self, name: str, source: str, filters: int, kernel: int, stride: int = 1, padding: int = 0
    ) -> str:
        """2-D convolution (cross-correlation) with bias; zero `padding` on every side."""
        height, width, channels = self._image(source, name, "conv")
        out = [(size + 2 * padding - kernel) // stride + 1 for size in (height, width)]
        fan_in = channels * kernel * kernel
        self._weights(name, (filters, channels, kernel, kernel), fan_in)
        self.macs += out[0] * out[1] * filters * fan_in
        return self._add(
            "conv", name, source, (out[0], out[1], filters),
            filters=filters, kernel=kernel, stride=stride, padding=padding,
        )  # fmt: skip

    def dense(self, name: str, source: str, units: int) -> str:
        """Fully connected layer with bias."""
        shape = self.shape(source)
        if len(shape) != 1:
            raise GraphError(f"layer {name} (dense) wants a flat input, {source} gives {shape}")
        self._weights(name, (units, shape[0]), shape[0])
        self.macs += units * shape[0]
        return self._add(
            "dense", name, source, (units,), units=units, image=self._image_behind(source)
        )

    def max_pool(self, name: str, source: str, size: int, stride: int | None = None) -> str:
        """Maximum over `size` x `size` windows, no padding, the remainder dropped."""
        height, width, channels = self._image(source, name, "max_pool")
        stride = stride or size
        out = [(length - size) // stride + 1 for length in (height, width)]
        return self._add(
            "max_pool", name, source, (out[0], out[1], channels), size=size, stride=stride
        )

    def relu(self, name: str, source: str) -> str:
        """max(0, x)."""
        return self._add("relu", name, source, self.shape(source))

    def flatten(self, name: str, source: str) -> str:
        """An image as a vector in the order (channel, row, column)."""
        shape = self._image(source, name, "flatten")
        return self._add("flatten", name, source, (math.prod(shape),))

    def _weights(self, layer: str, shape: tuple[int, ...], fan_in: int) -> None:
        self.parameters.append(Parameter(f"{layer}.weight", shape, "he_normal", fan_in))
        self.parameters.append(Parameter(f"{layer}.bias", shape[:1], "zeros", fan_in))

    def _image_behind(self, source: str) -> list[int] | None:
        """The image shape that was flattened into `source`, if nothing has mixed it since."""
        layers = {layer.name: layer for layer in self.layers}
        while source in layers and layers[source].op == "relu":
            source = layers[source].inputs[0]
        if source in layers and layers[source].op == "flatten":
            return list(self.shape(layers[source].inputs[0]))
        return None

    def check(self) -> None:
        """Raise GraphError if a layer's output is used by none, or the last is no vector."""
        if not self.layers:
            raise GraphError("it has no layers")
        used = {source for layer in self.layers for source in layer.inputs}
        loose = [layer.name for layer in self.layers[:-1] if layer.name not in used]
        if loose:
            raise GraphError(f"nothing uses the output of {', '.join(loose)}")
        if len(self.layers[-1].shape) != 1:
            raise GraphError(f"its output has shape {self.layers[-1].shape}, not (classes,)")

    @property
    def parameter_count(self) -> int:
        """Trainable parameters."""
        return sum(math.prod(parameter.shape) for parameter in self.parameters)

    def as_dict(self) -> dict[str, Any]:
        """The graph as plain JSON values, the form in which runners get it."""
        return {
            "name": self.name,
            "input": list(self.input_shape),
            "output": self.layers[-1].name,
            "parameter_count": self.parameter_count,
            "macs": self.macs,
            "layers": [
                {
                    "name": layer.name,
                    "op": layer.op,
                    "inputs": list(layer.inputs),
                    "shape": list(layer.shape),
                    **layer.settings,
                }
                for layer in self.layers
            ],
            "parameters": [
                {"name": p.name, "shape": list(p.shape), "init": p.init, "fan_in": p.fan_in}
                for p in self.parameters
            ],
        }
