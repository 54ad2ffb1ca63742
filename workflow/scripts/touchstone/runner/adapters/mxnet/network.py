"""The graph of a network in the operations of the framework."""

from typing import Any, Callable, Dict

import numpy as np
from mxnet import gluon
from mxnet.gluon import nn

from touchstone.schema.spec import Layer
from touchstone.schema.spec import Network as Graph
from touchstone.schema.types import Array

DTYPES = {"fp32": "float32", "fp64": "float64", "bf16": "float32"}
"""What arrays are kept in."""
PIECE = 2**17
"""Numbers that are copied to or from MXNet at once. It copies more than 200,000 with OpenMP in the
calling thread (MXNET_CPU_PARALLEL_SIZE): a second team of threads beside that of its engine. Where
the threads of all teams outnumber the cores, libgomp lets waiting threads sleep at once, and every
parallel region of every operator then has to wake them (docs/measuring.md)."""


def to_numpy(array: Any) -> Any:
    """NumPy's array of MXNet's, copied in pieces."""
    flat = array.reshape((-1,))
    pieces = [flat[first : first + PIECE].asnumpy() for first in range(0, array.size, PIECE)]
    return np.concatenate(pieces).reshape(array.shape)


class Embedding(nn.HybridBlock):
    """The rows of the tokens, which come as images (batch, 1, steps, 1)."""

    def __init__(self, layer: Layer, shape: Any, precision: str) -> None:
        super().__init__()
        shape = layer["vocabulary"], layer["width"]
        self.settings = dict(zip(("input_dim", "output_dim"), shape), dtype=DTYPES[precision])
        self.weight = self.params.get("weight", shape=shape)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.Embedding(F.reshape(x, shape=(0, -1)), weight, **self.settings)


class Unembedding(nn.HybridBlock):
    """The products with all rows of the table of an embedding, whose array it shares."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight
        self.settings = dict(num_hidden=weight.shape[0], no_bias=True, flatten=False)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.FullyConnected(x, weight, **self.settings)


class Position(nn.HybridBlock):
    """A sequence plus an array of its shape."""

    def __init__(self, layer: Layer, shape: Any, precision: str) -> None:
        super().__init__()
        self.weight = self.params.get("weight", shape=shape)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.broadcast_add(x, F.expand_dims(weight, axis=0))


class Lstm(nn.HybridBlock):
    """MXNet's fused LSTM, of whose two biases the second stays 0: the graph has one."""

    def __init__(self, layer: Layer, shape: Any, precision: str) -> None:
        super().__init__()
        units = layer["units"]
        self.units, self.sequence = units, layer["sequence"]
        self.weight = self.params.get("weight", shape=(4 * units, shape[-1]))
        self.recurrent = self.params.get("recurrent", shape=(4 * units, units))
        self.bias = self.params.get("bias", shape=(4 * units,))

    def hybrid_forward(self, F: Any, x: Any, weight: Any, recurrent: Any, bias: Any) -> Any:
        arrays = [weight, recurrent, bias, F.zeros_like(bias)]
        arrays = F.concat(*[F.reshape(array, shape=(-1,)) for array in arrays], dim=0)
        x = F.swapaxes(x, 0, 1)
        start = F.zeros_like(F.slice(x, begin=(0, None, 0), end=(1, None, 1)))
        start = F.broadcast_axis(start, axis=2, size=self.units)
        states = F.RNN(x, arrays, start, start, mode="lstm", state_size=self.units, num_layers=1)
        if self.sequence:
            return F.swapaxes(states, 0, 1)
        return F.reshape(F.slice_axis(states, axis=0, begin=-1, end=None), shape=(-3, 0))


class ClassToken(nn.HybridBlock):
    """A sequence after a learned step."""

    def __init__(self, layer: Layer, shape: Any, precision: str) -> None:
        super().__init__()
        self.weight = self.params.get("weight", shape=shape[-1:])

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        token = F.reshape(weight, shape=(1, 1, -1))
        token = F.broadcast_like(token, x, lhs_axes=(0,), rhs_axes=(0,))
        return F.concat(token, x, dim=1)


class LayerScale(nn.HybridBlock):
    """Images whose channels are multiplied by learned numbers: a convolution of single pixels.

    A product with broadcasting takes 14 to 17 times the CPU time (docs/measured.md).
    """

    def __init__(self, layer: Layer, shape: Any, precision: str) -> None:
        super().__init__()
        self.gamma = self.params.get("gamma", shape=shape[-1:])
        self.settings = dict(num_filter=shape[-1], num_group=shape[-1], kernel=(1, 1), no_bias=True)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any) -> Any:
        return F.Convolution(x, F.reshape(gamma, shape=(-1, 1, 1, 1)), **self.settings)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of images, which are put last for it: MXNet's own way
    along the first axis takes 2.4 times the CPU time (docs/measured.md)."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        x = super().hybrid_forward(F, F.transpose(x, axes=(0, 2, 3, 1)), gamma, beta)
        return F.transpose(x, axes=(0, 3, 1, 2))


def _layer_norm(layer: Layer, shape: Any, precision: str) -> Any:
    kind = ChannelNorm if len(shape) == 3 else nn.LayerNorm
    return kind(epsilon=layer["epsilon"], in_channels=shape[-1])


LEARNED = {
    "embedding": Embedding,
    "position": Position,
    "layer_norm": _layer_norm,
    "lstm": Lstm,
    "class_token": ClassToken,
    "layer_scale": LayerScale,
}
"""What makes a block, of a layer of the graph, the shape that it is given and the precision."""


def _attention(F: Any, x: Any, layer: Layer) -> Any:
    """Self-attention of queries, keys and values that lie side by side."""
    (steps, width), heads = layer["shape"], layer["heads"]
    size = width // heads
    parts = F.transpose(F.reshape(x, shape=(0, 0, 3, heads, size)), axes=(2, 0, 3, 1, 4))
    parts = F.reshape(parts, shape=(3, -1, steps, size))
    q, k, v = F.split(parts, num_outputs=3, axis=0, squeeze_axis=True)
    products = F.batch_dot(q * size**-0.5, k, transpose_b=True)
    if layer.get("causal"):
        seen, seeing = (F.contrib.arange_like(products, axis=axis) for axis in (2, 1))
        later = F.broadcast_greater(F.reshape(seen, (1, 1, -1)), F.reshape(seeing, (1, -1, 1)))
        products = F.broadcast_add(products, later * -1e30)
    output = F.batch_dot(F.softmax(products), v)
    output = F.reshape(output, shape=(-1, heads, steps, size))
    return F.reshape(F.transpose(output, axes=(0, 2, 1, 3)), shape=(0, 0, -1))


def _gelu(F: Any, x: Any, precision: str) -> Any:
    """GELU; MXNet's kernel computes in single precision, which also rounds a factor of the
    gradient of its error function."""
    if precision != "fp64":
        return F.LeakyReLU(x, act_type="gelu")
    scaled = x * 0.5**0.5
    slope = F.BlockGrad(2 / np.pi**0.5 * F.exp(-F.square(scaled)))
    error = F.BlockGrad(F.erf(scaled) - slope * scaled) + slope * scaled
    return 0.5 * x * (1 + error)


def _relu6(F: Any, x: Any, layer: Layer) -> Any:
    """max(0, x) - max(0, x - 6): steps of MobileNetV2 take 1.4 times the CPU time with `clip`
    (docs/measured.md)."""
    return F.Activation(x, act_type="relu") - F.Activation(x - 6, act_type="relu")


def _gelu_tanh(F: Any, x: Any, layer: Layer) -> Any:
    """The approximation of GELU, which MXNet has no kernel for."""
    inner = (2 / np.pi) ** 0.5 * (x + 0.044715 * x * F.square(x))
    return 0.5 * x * (1 + F.Activation(inner, act_type="tanh"))


PLAIN: Dict[str, Callable[..., Any]] = {
    "relu6": _relu6,
    "sigmoid": lambda F, x, layer: F.Activation(x, act_type="sigmoid"),
    "tanh": lambda F, x, layer: F.Activation(x, act_type="tanh"),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda F, x, layer: x * F.Activation(x, act_type="sigmoid"),
    # The gradient of oneDNN's pooling has a layout of its own, with which batch
    # normalisation before it falls back to reference code: 40 times slower.
    "global_avg_pool": lambda F, x, layer: F.mean(x, axis=(2, 3)),
    "attention": _attention,
    "all_but_last": lambda F, x, layer: F.slice_axis(x, axis=2, begin=0, end=-1),
    "mean_over_steps": lambda F, x, layer: F.mean(x, axis=1),
    "to_sequence": lambda F, x, layer: F.transpose(F.reshape(x, shape=(0, 0, -1)), (0, 2, 1)),
    "step": lambda F, x, layer: F.reshape(
        F.slice_axis(x, axis=1, begin=layer["index"], end=layer["index"] + 1), shape=(0, -1)
    ),
}
"""Layers of one input and no arrays."""


class Network(nn.HybridBlock):
    """The layers of the graph; images are (batch, channels, height, width)."""

    def __init__(self, network: Graph, batch_size: int, supplied: Any, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self.layers, self.output = network.layers, network.output
        self.blocks: Dict[str, Any] = {}
        shapes = {"input": network.input}
        shapes.update({layer["name"]: layer["shape"] for layer in self.layers})
        for layer in self.layers:
            if layer["op"] in ("dropout", "stochastic_depth") and supplied:
                shape = layer["shape"][2:] + layer["shape"][:2]
                if layer["op"] == "stochastic_depth":
                    shape = [1] * len(shape)
                mask = self.params.get(
                    layer["name"] + "_mask",
                    shape=[batch_size] + shape,
                    init="ones",
                    grad_req="null",
                )
                setattr(self, layer["name"], mask)
                continue
            shape = shapes[layer["inputs"][0]]
            if layer["op"] == "unembedding":
                block = Unembedding(self.blocks[layer["embedding"]].weight)
            elif layer["op"] in LEARNED:
                block = LEARNED[layer["op"]](layer, shape, precision)
            else:
                block = _block(layer, shape[-1])
            if block is not None:
                self.blocks[layer["name"]] = block
                self.register_child(block)

    def hybrid_forward(self, F: Any, x: Any, **masks: Any) -> Any:
        values = {"input": x}
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            values[layer["name"]] = self.value_of(F, layer, inputs, masks)
        return values[self.output]

    def value_of(self, F: Any, layer: Layer, inputs: Any, masks: Any) -> Any:
        """What a layer makes of its inputs."""
        name, op, value = layer["name"], layer["op"], inputs[0]
        if op == "add":
            return F.elemwise_add(*inputs) if len(inputs) == 2 else F.add_n(*inputs)
        if op == "concat":
            if self.precision == "bf16":
                # Scalars make some of them float32, which MXNet does not join with others.
                inputs = F.amp_multicast(*inputs, num_outputs=len(inputs))
            return F.concat(*inputs, dim=1)
        if op == "multiply":
            # `broadcast_mul` takes 2.5 times the CPU time (docs/measured.md).
            factors = F.reshape(inputs[1], shape=(0, 0, 1, 1))
            return value * F.broadcast_like(factors, value)
        if op == "lrn":
            return self._lrn(F, value, layer)
        if op == "gelu":
            return _gelu(F, value, self.precision)
        if op in PLAIN:
            return PLAIN[op](F, value, layer)
        if name in masks:
            return value * F.broadcast_like(masks[name], value)
        if op == "avg_pool" and not _even(layer):
            ones = self.blocks[name](_padded(F, F.ones_like(value), layer))
            return self.blocks[name](_padded(F, value, layer)) / ones
        return self.blocks[name](_padded(F, value, layer))

    def _lrn(self, F: Any, x: Any, layer: Layer) -> Any:
        """Local response normalisation; MXNet's kernel has no double precision."""
        size, alpha, beta, k = layer["size"], layer["alpha"], layer["beta"], layer["k"]
        if self.precision != "fp64":
            return F.LRN(x, alpha=alpha, beta=beta, knorm=k, nsize=size)
        squares = F.square(x)
        zeros = F.zeros_like(F.slice_axis(squares, axis=1, begin=0, end=size // 2))
        squares = F.concat(zeros, squares, zeros, dim=1)
        channels = layer["shape"][2]
        windows = [F.slice_axis(squares, axis=1, begin=i, end=i + channels) for i in range(size)]
        return x / (k + alpha / size * F.add_n(*windows)) ** beta


class Training(nn.HybridBlock):
    """Network and mean loss together, so that one cached graph serves forward and backward."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, images: Array, labels: Array) -> Any:
        return self.loss(self.network(images), labels).mean()


def has_avx512() -> bool:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " avx512bw " in file.read()


def structures(file: Any, offsets: Any, kind: Any) -> Any:
    """Copies of the structures of this NumPy type at these places of a file's bytes."""
    shape = len(file) - kind.itemsize + 1, kind.itemsize
    windows = np.lib.stride_tricks.as_strided(file, shape, (1, 1), writeable=False)
    return windows[offsets].view(kind)[:, 0]


def _padded(F: Any, x: Any, layer: Layer) -> Any:
    """The images with the padding that MXNet's layers, which pad evenly, cannot express."""
    if "padding" not in layer or _even(layer):
        return x
    value = -3.4e38 if layer["op"] == "max_pool" else 0
    return F.pad(
        x, mode="constant", pad_width=(0, 0, 0, 0) + tuple(layer["padding"]), constant_value=value
    )


def _even(layer: Layer) -> Any:
    top, bottom, left, right = layer["padding"]
    return top == bottom and left == right


def _block(layer: Layer, features: Any) -> Any:
    """One layer of the graph as a Gluon block, or None where it is only an operator."""
    op = layer["op"]
    if op == "conv":
        top, _, left, _ = layer["padding"]
        return nn.Conv2D(
            layer["filters"], layer["kernel"], layer["stride"],
            (top, left) if _even(layer) else (0, 0), layer["dilation"], layer["groups"],
            use_bias=layer["bias"], in_channels=features,
        )  # fmt: skip
    if op == "dense":
        flat = len(layer["shape"]) == 1
        return nn.Dense(layer["units"], use_bias=layer["bias"], in_units=features, flatten=flat)
    if op == "up_conv":
        scale = layer["scale"]
        return nn.Conv2DTranspose(layer["filters"], scale, scale, in_channels=features)
    if op == "batch_norm":
        return nn.BatchNorm(
            momentum=layer["momentum"], epsilon=layer["epsilon"], in_channels=features
        )
    if op in ("max_pool", "avg_pool"):
        padding = (layer["padding"][0], layer["padding"][2]) if _even(layer) else (0, 0)
        if op == "max_pool":
            return nn.MaxPool2D(layer["size"], layer["stride"], padding)
        return nn.AvgPool2D(layer["size"], layer["stride"], padding, count_include_pad=False)
    if op == "relu":
        return nn.Activation("relu")
    if op == "dropout":
        return nn.Dropout(layer["rate"])
    if op == "stochastic_depth":
        return nn.Dropout(layer["rate"], axes=tuple(range(1, 1 + len(layer["shape"]))))
    if op == "flatten":
        return nn.Flatten()
    if op in PLAIN or op in ("add", "concat", "multiply", "lrn", "gelu"):
        return None
    raise NotImplementedError("MXNet's adapter has no layer " + op)
