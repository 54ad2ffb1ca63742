"""What a graph is made of: layers, parameters, their shapes and what they count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from touchstone.errors import TouchstoneError
from touchstone.networks._initialisation import OwnStart, starts
from touchstone.schema import spec

Padding = int | str | tuple[int, int, int, int]
"""Pixels on every side, or (top, bottom, left, right), or "same": the output has the size
of the input / stride, rounded up, the odd pixel at the bottom and right (as TensorFlow)."""


BYTES = 256
"""The vocabulary: tokens are bytes, which every record format holds."""


ELEMENTWISE = (
    "relu", "relu6", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "dropout",
    "stochastic_depth", "add",
)  # fmt: skip
"""Operations whose output has the order of its input."""


class GraphError(TouchstoneError, ValueError):
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
    """An array that belongs to a layer: its name (`layer.weight`), canonical shape, start.

    `init` is a distribution of `runner/initial_weights.py`; None where the initialisation of a
    run decides (`_initialisation.py`). Running statistics are not trainable, nor is what belongs to
    a frozen layer. `l1` and `l2` are penalties: l1
    sign(w) + 2 l2 w joins the gradient, as from l1 sum |w| + l2 sum w^2 in the loss.
    """

    name: str
    shape: tuple[int, ...]
    init: str | None
    fan_in: int
    trainable: bool = True
    l1: float = 0.0
    l2: float = 0.0
    fan_out: int = 0

    @property
    def layer(self) -> str:
        """The name of its layer."""
        return self.name.partition(".")[0]


@dataclass
class GraphBase:
    """Layers in the order of computing; `vocabulary` is set where the input is tokens.

    `task` is a file of `runner/tasks/`, which says what the labels of an example are; None where
    it has one. With a task the output is a sequence: logits for each label.

    `initial` is what the network's source states of initial weights: a distribution by a pattern
    of the names of arrays, as {"*.weight": "normal_0.01"}; the first that matches counts.

    `graph.Graph` has a method for every kind of layer.
    """

    name: str
    input_shape: tuple[int, int, int]
    layers: list[Layer] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    vocabulary: int | None = None
    initial: dict[str, str] = field(default_factory=dict)
    task: str | None = None

    def __post_init__(self) -> None:
        self._shapes: dict[str, tuple[int, ...]] = {"input": self.input_shape}
        self._by_name: dict[str, Layer] = {}
        self._macs: dict[str, int] = {}
        self._frozen = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Layers added inside keep their initial weights; batch normalisation cannot be one."""
        self._frozen = True
        yield
        self._frozen = False

    def shape(self, name: str) -> tuple[int, ...]:
        """The output shape of the layer `name`, or of the input."""
        if name not in self._shapes:
            raise GraphError(f"no layer named {name!r} comes before its use")
        return self._shapes[name]

    def layer(self, name: str) -> Layer:
        """The layer of this name; raises KeyError."""
        return self._by_name[name]

    def check(self) -> None:
        """Raise GraphError if a layer's output is used by none, or the last is no vector, of a
        network with a task no sequence."""
        if not self.layers:
            raise GraphError("it has no layers")
        used = {source for layer in self.layers for source in layer.inputs}
        loose = [layer.name for layer in self.layers[:-1] if layer.name not in used]
        if loose:
            raise GraphError(f"nothing uses the output of {', '.join(loose)}")
        wanted = "(labels, classes)" if self.task else "(classes,)"
        if len(self.layers[-1].shape) != 1 + bool(self.task):
            raise GraphError(f"its output has shape {self.layers[-1].shape}, not {wanted}")

    @property
    def parameter_count(self) -> int:
        """Trainable parameters."""
        return sum(math.prod(p.shape) for p in self.parameters if p.trainable)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of convolutions, matrix products and recurrences for one example."""
        return sum(self._macs.values())

    @property
    def training_macs(self) -> int:
        """Those of a training step: each layer's forward, again for the gradient by its weights
        unless they are frozen, and by its inputs if anything before it is trained."""
        weighted = {parameter.layer for parameter in self.parameters}
        trained = {parameter.layer for parameter in self.parameters if parameter.trainable}
        macs, learning = 0, set[str]()
        for layer in self.layers:
            behind = any(source in learning for source in layer.inputs)
            if behind or layer.name in trained:
                learning.add(layer.name)
            # A product of two inputs has the gradients by both.
            other = layer.name in trained or (behind and layer.name not in weighted)
            macs += self._macs.get(layer.name, 0) * (1 + behind + other)
        return macs

    @property
    def activations(self) -> int:
        """Values that all the layers' outputs hold for one example."""
        return sum(math.prod(layer.shape) for layer in self.layers)

    def network(self, initialisation: str = "he", own: OwnStart | None = None) -> spec.Network:
        """The graph as specs have it; `initialisation` and `own` as in `starts`."""
        chosen = starts(self, initialisation, own)
        return spec.Network(
            name=self.name,
            input=list(self.input_shape),
            output=self.layers[-1].name,
            parameter_count=self.parameter_count,
            macs=self.macs,
            training_macs=self.training_macs,
            layers=[
                {
                    "name": layer.name,
                    "op": layer.op,
                    "inputs": list(layer.inputs),
                    "shape": list(layer.shape),
                    **layer.settings,
                }
                for layer in self.layers
            ],
            parameters=[
                spec.Parameter(**asdict(p) | {"shape": list(p.shape), "init": chosen[p.name]})
                for p in self.parameters
            ],
            vocabulary=self.vocabulary,
            task=self.task,
        )

    def _add(
        self, op: str, name: str, sources: tuple[str, ...], shape: tuple[int, ...], **settings: Any
    ) -> str:
        if name in self._shapes:
            raise GraphError(f"two layers are named {name!r}")
        if not name.isidentifier():
            raise GraphError(f"layer {name!r} wants a name of letters, digits and _")
        if not all(size > 0 for size in shape):
            shapes = ", ".join(str(self.shape(source)) for source in sources)
            raise GraphError(f"layer {name} ({op}) makes {shape} of {shapes}")
        layer = Layer(name, op, sources, settings, shape)
        self.layers.append(layer)
        self._shapes[name] = shape
        self._by_name[name] = layer
        return name

    def _weights(
        self,
        layer: str,
        shape: tuple[int, ...],
        fan_in: int,
        bias: bool,
        l1: float = 0.0,
        l2: float = 0.0,
    ) -> None:
        trained = not self._frozen
        name = f"{layer}.weight"
        fan_out = math.prod(shape) // math.prod(shape[1:2])
        parameter = Parameter(name, shape, None, fan_in, trained, l1, l2, fan_out)
        self.parameters.append(parameter)
        if bias:
            name = f"{layer}.bias"
            self.parameters.append(Parameter(name, shape[:1], "zeros", fan_in, trained))

    def _image(self, source: str, name: str, op: str) -> tuple[int, int, int]:
        shape = self.shape(source)
        if len(shape) != 3:
            raise GraphError(f"layer {name} ({op}) wants an image, {source} gives {shape}")
        return shape[0], shape[1], shape[2]

    def _features(self, source: str, name: str, op: str) -> tuple[int, ...]:
        shape = self.shape(source)
        if len(shape) not in (1, 2):
            raise GraphError(
                f"layer {name} ({op}) wants a flat input or a sequence, {source} gives {shape}"
            )
        return shape

    def _sequence(self, source: str, name: str, op: str) -> tuple[int, int]:
        shape = self.shape(source)
        if len(shape) != 2:
            raise GraphError(f"layer {name} ({op}) wants a sequence, {source} gives {shape}")
        return shape[0], shape[1]

    def _tokens(self, source: str, name: str, op: str) -> int:
        """How many tokens an input, or what is left of it, has."""
        shape = self.shape(source)
        cut = source == "input" or self._by_name[source].op == "all_but_last"
        if not cut or len(shape) != 3 or shape[1:] != (1, 1):
            raise GraphError(
                f"layer {name} ({op}) wants tokens, (steps, 1, 1), {source} gives {shape}"
            )
        return shape[0]

    def _array(
        self, name: str, shape: tuple[int, ...], init: str | None, fan_in: int, fan_out: int = 0
    ) -> None:
        trained = not self._frozen
        self.parameters.append(Parameter(name, shape, init, fan_in, trained, fan_out=fan_out))

    @staticmethod
    def _sides(
        padding: Padding, image: tuple[int, int], size: tuple[int, int], stride: int, dilation: int
    ) -> list[int]:
        """Padding as [top, bottom, left, right]."""
        if isinstance(padding, int):
            return [padding] * 4
        if not isinstance(padding, str):
            return list(padding)
        if padding != "same":
            raise GraphError(f'padding {padding!r} is neither a number, four sides, nor "same"')
        sides = []
        for length, window in zip(image, size, strict=True):
            out = -(-length // stride)
            reach = (window - 1) * dilation + 1
            total = max((out - 1) * stride + reach - length, 0)
            sides += [total // 2, total - total // 2]
        return sides

    @staticmethod
    def _windows(
        image: tuple[int, int], size: tuple[int, int], stride: int, sides: list[int], dilation: int
    ) -> tuple[int, int]:
        """How many windows fit, by row and by column."""
        height, width = (
            (length + sides[2 * i] + sides[2 * i + 1] - (size[i] - 1) * dilation - 1) // stride + 1
            for i, length in enumerate(image)
        )
        return height, width

    def _image_behind(self, source: str) -> list[int] | None:
        """The image shape that was flattened into `source`, if nothing has mixed it since."""
        while source != "input" and self._by_name[source].op in ELEMENTWISE:
            source = self._by_name[source].inputs[0]
        if source != "input" and self._by_name[source].op == "flatten":
            return list(self.shape(self._by_name[source].inputs[0]))
        return None
