"""The layers of a graph as layers and operations of Keras."""

from functools import partial
from typing import Any, Dict, Optional, Tuple

import keras
import numpy as np
from keras import layers, ops

from touchstone.schema.spec import Layer

KINDS = {
    "embedding": {"weight": "embeddings"},
    "batch_norm": {
        "scale": "gamma",
        "offset": "beta",
        "mean": "moving_mean",
        "variance": "moving_variance",
    },
    "layer_norm": {"scale": "gamma", "offset": "beta"},
    "position": {"weight": "weight"},
    "class_token": {"weight": "weight"},
    "layer_scale": {"scale": "weight"},
}
"""By operation, what Keras's layers call an array of the graph; else `kernel` and `bias`."""
ACTIVATIONS = ("relu", "relu6", "sigmoid", "tanh", "silu")
"""Those that Keras calls as the graph does."""


class Masked(layers.Layer):
    """Dropout that multiplies by a given mask."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.mask = self.add_weight(shape=shape, initializer="ones", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        return x * ops.cast(self.mask, x.dtype) if training else x


class Weighted(layers.Layer):
    """A layer with one array."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.weight = self.add_weight(shape=shape, initializer="zeros")


class Position(Weighted):
    """A sequence plus an array of its shape."""

    def call(self, x: Any) -> Any:
        return x + self.weight


class LayerScale(Weighted):
    """Images whose channels are multiplied by learned numbers."""

    def call(self, x: Any) -> Any:
        return x * self.weight


class ClassToken(Weighted):
    """A sequence after a learned step."""

    def call(self, x: Any) -> Any:
        token = ops.broadcast_to(self.weight, (ops.shape(x)[0], 1, x.shape[2]))
        return ops.concatenate([ops.cast(token, x.dtype), x], 1)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], shape[1] + 1, shape[2])


class Unembedding(layers.Layer):
    """The products with all rows of the table of an embedding, whose array it shares."""

    def __init__(self, embedding: Any) -> None:
        super().__init__()
        self.embedding = embedding

    def call(self, x: Any) -> Any:
        return ops.matmul(x, ops.transpose(ops.cast(self.embedding.embeddings, x.dtype)))


class LocalResponse(layers.Layer):
    """Local response normalisation, which Keras does not have."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.settings = layer

    def call(self, x: Any) -> Any:
        own = self.settings
        half, channels = own["size"] // 2, x.shape[3]
        squares = ops.pad(ops.square(x), [(0, 0), (0, 0), (0, 0), (half, half)])
        total = sum(squares[..., i : i + channels] for i in range(own["size"]))
        return x / ops.power(own["k"] + own["alpha"] / own["size"] * total, own["beta"])


def arrays_of(layer: Layer, made: Any) -> Dict[str, Any]:
    """By their kind in the graph, the arrays of a layer that `layer_of` made."""
    if layer["op"] == "lstm":
        cell = made.cell
        return {"weight": cell.kernel, "recurrent": cell.recurrent_kernel, "bias": cell.bias}
    kinds = KINDS.get(layer["op"], {"weight": "kernel", "bias": "bias"})
    return {kind: getattr(made, name) for kind, name in kinds.items() if hasattr(made, name)}


def layer_of(
    layer: Layer, inputs: Any, built: Dict[str, Any], masked: Optional[int]
) -> Tuple[Any, Any]:
    """What a layer makes of its inputs, and the layer of Keras that has its arrays, or None.

    Args:
        built: by name, what this made of the layers before.
        masked: the batch size, where layers that draw multiply by masks that they are given.
    """
    op, x = layer["op"], inputs[0]
    if op in ("dropout", "stochastic_depth"):
        made = _dropout(layer) if masked is None else _masked(layer, masked)
        return made(x), made
    if op in LAYERS:
        made = LAYERS[op](layer, x)
        return made(x), made
    if op == "unembedding":
        return Unembedding(built[layer["embedding"]])(x), None
    if op == "conv":
        made = _conv(layer, x)
        return made(_padded(x, layer, layer["kernel"], 0.0)), made
    if op == "max_pool":
        size, stride = layer["size"], layer["stride"]
        x = _padded(x, layer, [size] * 2, float("-inf"))
        return layers.MaxPooling2D(size, stride, _same(layer, inputs[0], [size] * 2))(x), None
    if op == "avg_pool":
        return _average(layer, x), None
    if op in OPERATIONS:
        return OPERATIONS[op](layer, inputs), None
    raise NotImplementedError("Keras is given no layer " + op)


def _dropout(layer: Layer) -> Any:
    noise_shape = None if layer["op"] == "dropout" else (None,) + (1,) * len(layer["shape"])
    return layers.Dropout(layer["rate"], noise_shape=noise_shape)


def _gelu(approximate: bool) -> Any:
    """GELU; in TensorFlow's own, which Keras calls, a factor is rounded to single precision."""
    if keras.config.floatx() != "float64":
        return partial(keras.activations.gelu, approximate=approximate)
    if approximate:
        return lambda x: 0.5 * x * (1 + ops.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    return lambda x: 0.5 * x * (1 + ops.erf(x * 0.5**0.5))


def _masked(layer: Layer, batch_size: int) -> Any:
    shape = layer["shape"]
    return Masked([batch_size] + (shape if layer["op"] == "dropout" else [1] * len(shape)))


LAYERS: Dict[str, Any] = {
    "dense": lambda layer, x: layers.Dense(layer["units"], use_bias=layer["bias"]),
    "up_conv": lambda layer, x: layers.Conv2DTranspose(
        layer["filters"], layer["scale"], layer["scale"]
    ),
    "batch_norm": lambda layer, x: layers.BatchNormalization(
        momentum=layer["momentum"], epsilon=layer["epsilon"]
    ),
    "layer_norm": lambda layer, x: layers.LayerNormalization(epsilon=layer["epsilon"]),
    "embedding": lambda layer, x: Tokens(layer["vocabulary"], layer["width"]),
    "position": lambda layer, x: Position(x.shape[1:]),
    "class_token": lambda layer, x: ClassToken(x.shape[2:]),
    "layer_scale": lambda layer, x: LayerScale(x.shape[3:]),
    "lrn": lambda layer, x: LocalResponse(layer),
    "lstm": lambda layer, x: layers.LSTM(layer["units"], return_sequences=layer["sequence"]),
    "flatten": lambda layer, x: layers.Flatten(),
    "global_avg_pool": lambda layer, x: layers.GlobalAveragePooling2D(),
    "mean_over_steps": lambda layer, x: layers.GlobalAveragePooling1D(),
    "to_sequence": lambda layer, x: layers.Reshape(layer["shape"]),
    "gelu": lambda layer, x: layers.Activation(_gelu(False)),
    "gelu_tanh": lambda layer, x: layers.Activation(_gelu(True)),
    **dict.fromkeys(ACTIVATIONS, lambda layer, x: layers.Activation(layer["op"])),
}
"""What makes a layer of Keras with one input, of a layer of the graph and its input."""


class Tokens(layers.Embedding):
    """The rows of the tokens, which come as images (batch, steps, 1, 1)."""

    def call(self, x: Any) -> Any:
        return super().call(x[:, :, 0, 0])

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], shape[1], self.output_dim)


def _attention(layer: Layer, inputs: Any) -> Any:
    """Self-attention of queries, keys and values that lie side by side, in the operations of
    Keras's layers; `ops.dot_product_attention` has no double precision."""
    (steps, features), heads = layer["shape"], layer["heads"]
    parts = ops.reshape(inputs[0], (-1, steps, 3, heads, features // heads))
    q, k, v = (parts[:, :, i] for i in range(3))
    products = ops.einsum("bqhd,bkhd->bhqk", q * (features // heads) ** -0.5, k)
    if layer.get("causal", False):
        products = ops.where(np.tri(steps, dtype=bool), products, -1e9)
    output = ops.einsum("bhqk,bkhd->bqhd", ops.softmax(products), v)
    return ops.reshape(output, (-1, steps, features))


OPERATIONS: Dict[str, Any] = {
    "add": lambda layer, inputs: layers.Add()(inputs),
    "concat": lambda layer, inputs: layers.Concatenate()(inputs),
    "multiply": lambda layer, inputs: layers.Multiply()(
        [inputs[0], layers.Reshape((1, 1, inputs[1].shape[1]))(inputs[1])]
    ),
    "attention": _attention,
    "all_but_last": lambda layer, inputs: inputs[0][:, :-1],
    "step": lambda layer, inputs: inputs[0][:, layer["index"]],
}
"""What makes the output of a layer without arrays, of a layer of the graph and its inputs."""


def _same(layer: Layer, x: Any, size: Any) -> str:
    """The padding as Keras knows it: `same`, or `valid` for what is padded before."""
    same = []
    for length, window in zip(x.shape[1:3], size):
        reach = (window - 1) * layer.get("dilation", 1) + 1
        total = max((-(-length // layer["stride"]) - 1) * layer["stride"] + reach - length, 0)
        same += [total // 2, total - total // 2]
    return "same" if any(same) and layer["padding"] == same else "valid"


def _zeros_around(x: Any, layer: Layer) -> Any:
    if not any(layer["padding"]):
        return x
    top, bottom, left, right = layer["padding"]
    return layers.ZeroPadding2D(((top, bottom), (left, right)))(x)


def _padded(x: Any, layer: Layer, size: Any, value: float) -> Any:
    if _same(layer, x, size) == "same":
        return x
    if value == 0:
        return _zeros_around(x, layer)
    if not any(layer["padding"]):
        return x
    top, bottom, left, right = layer["padding"]
    sides = [(0, 0), (top, bottom), (left, right), (0, 0)]
    return ops.pad(x, sides, constant_values=value)


def _conv(layer: Layer, x: Any) -> Any:
    own: Dict[str, Any] = {
        "strides": layer["stride"],
        "padding": _same(layer, x, layer["kernel"]),
        "dilation_rate": layer["dilation"],
        "use_bias": layer["bias"],
    }
    channels, groups = x.shape[3], layer["groups"]
    if groups > 1 and groups == channels:
        return layers.DepthwiseConv2D(
            layer["kernel"], depth_multiplier=layer["filters"] // channels, **own
        )
    return layers.Conv2D(layer["filters"], layer["kernel"], groups=groups, **own)


def _average(layer: Layer, x: Any) -> Any:
    """Average pooling in which padded pixels do not count."""
    size, stride = layer["size"], layer["stride"]
    # On PyTorch, Keras counts the pixels of `same`.
    same = _same(layer, x, [size] * 2) if keras.backend.backend() != "torch" else "valid"
    pool = layers.AveragePooling2D(size, stride, same)
    padded = x if same == "same" else _zeros_around(x, layer)
    if padded is x:
        return pool(x)
    ones = _zeros_around(ops.ones_like(x[:1, ..., :1]), layer)
    return pool(padded) / pool(ones)
