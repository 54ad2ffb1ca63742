"""The graph of a network in the operations of the framework."""

from typing import Any, Dict, Sequence

import numpy as np
import tensorflow as tf

from touchstone.runner.adapters import base
from touchstone.runner.channels_last import canonical, native, rows_last
from touchstone.runner.job import Job
from touchstone.schema.spec import Layer
from touchstone.schema.types import Array


def constant_of(op: Any, place: int) -> float:
    """A scalar that an operation of the graph was built with."""
    return float(tf.get_static_value(op.inputs[place]))


def compiled_graph(graph: Any) -> Any:
    """The graph of the function that `graph` calls and XLA must compile, or None."""
    for op in graph.get_operations():
        if "_XlaMustCompile" in op.node_def.attr and op.get_attr("_XlaMustCompile"):
            return graph._get_function(op.get_attr("f").name).graph
    return None


def has_condition(operations: Any) -> Any:
    """Those of the operations that run one of two branches."""
    return [op for op in operations if op.type in ("If", "StatelessIf")]


def with_branches(graph: Any) -> Any:
    """The operations of a graph, and those that it runs where a condition holds."""
    ops = graph.get_operations()
    for op in has_condition(ops):
        ops = ops + graph._get_function(op.get_attr("then_branch").name).graph.get_operations()
    return ops


def one_of_all(updates: Any) -> Any:
    """What all updates have alike; a list of what they have, where they differ."""
    settings = {}
    for key in updates[0]:
        values = {update[key] for update in updates}
        settings[key] = values.pop() if len(values) == 1 else sorted(values)
    return settings


def spread_filter(weight: Any, dilation: Any) -> Any:
    """A filter with the zeros of its dilation, where the kernels do not know it."""
    height, width, channels, filters = weight.shape
    wide = tf.reshape(weight, [height, 1, width, 1, channels, filters])
    more = [0, dilation - 1]
    wide = tf.pad(wide, [[0, 0], more, [0, 0], more, [0, 0], [0, 0]])
    wide = tf.reshape(wide, [height * dilation, width * dilation, channels, filters])
    return wide[: (height - 1) * dilation + 1, : (width - 1) * dilation + 1]


def neighbours(whole: Any, rows: Any) -> Any:
    """Those rows of an array, which lie together: where its alignment allows it, not a copy."""
    part = whole[rows[0] : rows[0] + (rows.shape[0] or tf.size(rows, rows.dtype))]
    part.set_shape([rows.shape[0], *whole.shape[1:]])
    return part


def lstm_states(layer: Layer, x: Any, w: Any, u: Any, b: Any) -> Any:
    """An LSTM, step by step; the inputs of all steps are multiplied at once.

    TensorFlow's own kernel, BlockLSTM, took 1.8 times the CPU time of a loop on a CPU, and knows
    neither double precision nor XLA (docs/architecture.md).
    """
    steps, features = x.shape[1:]
    rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, features])
    inputs = tf.reshape(tf.nn.bias_add(tf.matmul(rows, w), b), [steps, -1, 4 * layer["units"]])
    h = c = tf.zeros([tf.shape(x)[0], layer["units"]], x.dtype)
    states = []
    for own in tf.unstack(inputs):
        i, f, g, o = tf.split(own + tf.matmul(h, u), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        states.append(h)
    return tf.stack(states, 1) if layer["sequence"] else h


def self_attention(x: Any, heads: Any, causal: bool = False) -> Any:
    """Self-attention of queries, keys and values that lie side by side."""
    steps, width = x.shape[1], x.shape[2] // 3
    parts = tf.reshape(x, [-1, steps, 3, heads, width // heads])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    products = tf.matmul(q * (width // heads) ** -0.5, k, transpose_b=True)
    if causal:
        products = tf.where(np.tri(steps, dtype=bool), products, products.dtype.min)
    shares = tf.nn.softmax(products)
    output = tf.transpose(tf.matmul(shares, v), [0, 2, 1, 3])
    return tf.reshape(output, [-1, steps, width])


def with_padding(x: Any, layer: Layer, size: Sequence[int], value: Any) -> Any:
    """The images and the padding that TensorFlow's own kernels are fast with.

    Its convolution with explicit padding is a slow path on CPUs, so what is neither "VALID"
    nor "SAME" is an operation before the kernel, which pads with `value`.
    """
    top, bottom, left, right = layer["padding"]
    if not any(layer["padding"]):
        return x, "VALID"
    same = []
    for length, window in zip(x.shape[1:3], size):
        out = -(-length // layer["stride"])
        reach = (window - 1) * layer.get("dilation", 1) + 1
        total = max((out - 1) * layer["stride"] + reach - length, 0)
        same += [total // 2, total - total // 2]
    if layer["padding"] == same:
        return x, "SAME"
    sides = [[0, 0], [top, bottom], [left, right], [0, 0]]
    return tf.pad(x, sides, constant_values=value), "VALID"


def lrn(x: Any, layer: Layer) -> Any:
    """Local response normalisation; TensorFlow's kernel has single precision only."""
    size, k, beta = layer["size"], layer["k"], layer["beta"]
    if x.dtype != tf.float64:
        single = tf.cast(x, tf.float32)
        made = tf.nn.local_response_normalization(single, size // 2, k, layer["alpha"] / size, beta)
        return tf.cast(made, x.dtype)
    squares = tf.pad(x * x, [[0, 0], [0, 0], [0, 0], [size // 2, size // 2]])
    total = tf.add_n([squares[..., i : i + x.shape[3]] for i in range(size)])
    return x / (k + layer["alpha"] / size * total) ** beta


def average_pool(x: Any, layer: Layer) -> Any:
    """Average pooling in which padded pixels do not count."""
    size, stride = layer["size"], layer["stride"]
    padded, padding = with_padding(x, layer, [size] * 2, 0)
    pooled = tf.nn.avg_pool2d(padded, size, stride, padding)
    if padding == "SAME" or padded is x:
        return pooled
    ones, _ = with_padding(tf.ones([1, *x.shape[1:3], 1], x.dtype), layer, [size] * 2, 0)
    return pooled / tf.nn.avg_pool2d(ones, size, stride, padding)


def gelu(x: Any) -> Any:
    """GELU; in TensorFlow's own the root of 2 is rounded to single precision."""
    if x.dtype != tf.float64:
        return tf.nn.gelu(x)
    return 0.5 * x * (1 + tf.math.erf(x * 0.5**0.5))


def gelu_tanh(x: Any) -> Any:
    """The approximation of GELU; in TensorFlow's own a factor is rounded to single precision."""
    if x.dtype != tf.float64:
        return tf.nn.gelu(x, approximate=True)
    return 0.5 * x * (1 + tf.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "silu": tf.nn.silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


class Layers(base.TrainingAdapter):
    """The layers of a graph, and their arrays in TensorFlow's layout."""

    by_name: Any
    computed: Any
    dilates: Any
    dtype: Any
    layers: Any
    masks: Any
    places: Any
    job: Job
    supplied: Any
    variables: Any

    def _dilates(self) -> bool:
        """Whether the kernels have gradients of dilated convolutions: on CPUs only oneDNN's have,
        which TensorFlow uses by itself only on processors with VNNI, AVX-512 BF16 or AMX."""
        if all(layer.get("dilation", 1) == 1 for layer in self.layers):
            return True
        with tf.device(self.places[0]), tf.GradientTape() as tape:
            weight = tf.ones([2, 2, 1, 1])
            tape.watch(weight)
            output = tf.nn.conv2d(tf.ones([1, 3, 3, 1]), weight, 1, "VALID", dilations=2)
        try:
            tape.gradient(output, weight)
        except tf.errors.InvalidArgumentError:
            return False
        return True

    def _native(self, name: str, array: Any) -> Any:
        """A canonical array in TensorFlow's layout."""
        return native(self.by_name[name.split(".")[0]], array)

    def _canonical(self, name: str, array: Any) -> Any:
        """What `_native` was made from."""
        return canonical(self.by_name[name.split(".")[0]], array)

    def set_masks(self, masks: Dict[str, Array]) -> None:
        for name, mask in masks.items():
            mask = rows_last(mask, self.by_name[name]["image"])
            if name in self.masks:
                self.masks[name].assign(mask)
            else:
                self.masks[name] = tf.Variable(mask, trainable=False, dtype=self.dtype)

    def _forward(self, images: Array, training: Any) -> Any:
        values = {"input": tf.cast(images, self.computed)}  # the bytes of a text stay exact
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            values[layer["name"]] = self._layer(layer, inputs, training)
        return tf.cast(values[self.job.network.output], self.dtype)

    def _read(self, name: str) -> Any:
        """An array of a layer in the type that the network is computed in."""
        return tf.cast(self.variables[name], self.computed)

    def _layer(self, layer: Layer, inputs: Any, training: Any) -> Any:
        name, op, x = layer["name"], layer["op"], inputs[0]
        if op == "conv":
            x = self._conv(layer, x)
            return tf.nn.bias_add(x, self._read(name + ".bias")) if layer["bias"] else x
        if op == "dense":
            rows = tf.reshape(x, [-1, x.shape[-1]]) if len(x.shape) == 3 else x
            rows = tf.matmul(rows, self._read(name + ".weight"))
            if layer["bias"]:
                rows = tf.nn.bias_add(rows, self._read(name + ".bias"))
            return tf.reshape(rows, [-1, *layer["shape"]]) if len(x.shape) == 3 else rows
        if op == "up_conv":
            shape = [tf.shape(x)[0], *layer["shape"]]
            weight = self._read(name + ".weight")
            x = tf.nn.conv2d_transpose(x, weight, shape, layer["scale"], "VALID")
            return tf.nn.bias_add(x, self._read(name + ".bias"))
        if op == "batch_norm":
            return self._batch_norm(layer, x, training)
        if op == "lrn":
            return lrn(x, layer)
        if op == "max_pool":
            x, padding = with_padding(x, layer, [layer["size"]] * 2, x.dtype.min)
            return tf.nn.max_pool2d(x, layer["size"], layer["stride"], padding)
        if op == "avg_pool":
            return average_pool(x, layer)
        if op == "global_avg_pool":
            return tf.reduce_mean(x, [1, 2])
        if op in ACTIVATIONS:
            return ACTIVATIONS[op](x)
        if op in ("dropout", "stochastic_depth"):
            if not training:
                return x
            if self.supplied:
                return x * tf.cast(self.masks[name], x.dtype)
            noise_shape = None if op == "dropout" else [tf.shape(x)[0]] + [1] * (len(x.shape) - 1)
            return tf.nn.dropout(x, layer["rate"], noise_shape=noise_shape)
        if op == "add":
            return tf.add_n(inputs)
        if op == "concat":
            return tf.concat(inputs, 3)
        if op == "flatten":
            return tf.reshape(x, [tf.shape(x)[0], np.prod(x.shape[1:])])
        if op == "embedding":
            rows = tf.gather(self.variables[name + ".weight"], tf.cast(x[:, :, 0, 0], tf.int32))
            return tf.cast(rows, self.computed)
        if op == "position":
            return x + self._read(name + ".weight")
        if op == "layer_norm":
            scale, offset = (self._read(name + kind) for kind in (".scale", ".offset"))
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, layer["epsilon"])
        if op == "attention":
            return self_attention(x, layer["heads"], layer.get("causal", False))
        if op == "all_but_last":
            return x[:, :-1]
        if op == "unembedding":
            table = self._read(layer["embedding"] + ".weight")
            rows = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), table, transpose_b=True)
            return tf.reshape(rows, [-1, *layer["shape"]])
        if op == "mean_over_steps":
            return tf.reduce_mean(x, 1)
        if op == "multiply":
            return x * inputs[1][:, None, None]
        if op == "layer_scale":
            return x * self._read(name + ".scale")
        if op == "to_sequence":
            return tf.reshape(x, [-1, *layer["shape"]])
        if op == "class_token":
            token = self._read(name + ".weight")
            return tf.concat([tf.broadcast_to(token, [tf.shape(x)[0], 1, x.shape[2]]), x], 1)
        if op == "step":
            return x[:, layer["index"]]
        if op == "lstm":
            own = (self._read(name + kind) for kind in (".weight", ".recurrent", ".bias"))
            return lstm_states(layer, x, *own)
        raise NotImplementedError("TensorFlow's adapter has no layer " + op)

    def _conv(self, layer: Layer, x: Any) -> Any:
        weight, stride, dilation = (
            self._read(layer["name"] + ".weight"),
            layer["stride"],
            layer["dilation"],
        )
        x, padding = with_padding(x, layer, layer["kernel"], 0)
        if dilation > 1 and not self.dilates:
            weight, dilation = spread_filter(weight, dilation), 1
        groups = layer["groups"]
        if groups > 1 and weight.shape[2] == groups:
            strides = [1, stride, stride, 1]
            return tf.nn.depthwise_conv2d(
                x, weight, strides, padding, dilations=[dilation, dilation]
            )
        # TensorFlow's CPU kernel knows no groups.
        parts = (
            zip(tf.split(x, groups, 3), tf.split(weight, groups, 3))
            if groups > 1
            else [(x, weight)]
        )
        parts = [tf.nn.conv2d(a, w, stride, padding, dilations=dilation) for a, w in parts]
        return tf.concat(parts, 3) if groups > 1 else parts[0]

    def _batch_norm(self, layer: Layer, x: Any, training: Any) -> Any:
        scale, offset, mean, variance = (
            self.variables[layer["name"] + "." + kind]
            for kind in ("scale", "offset", "mean", "variance")
        )
        if self.dtype == tf.float64:
            return self._batch_norm_fp64(layer, x, scale, offset, mean, variance, training)
        if not training:
            return tf.compat.v1.nn.fused_batch_norm(
                x, scale, offset, mean, variance, layer["epsilon"], is_training=False
            )[0]
        # The kernel averages the running statistics itself, the variance as the unbiased one.
        x, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, mean, variance, layer["epsilon"], is_training=True,
            exponential_avg_factor=1 - layer["momentum"],
        )  # fmt: skip
        mean.assign(batch_mean)
        variance.assign(batch_variance)
        return x

    def _batch_norm_fp64(
        self, layer: Layer, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, training: Any
    ) -> Any:
        """TensorFlow's kernel has no double precision: the same in its operations."""
        if not training:
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, layer["epsilon"])
        batch_mean, biased = tf.nn.moments(x, [0, 1, 2])
        count = tf.cast(tf.size(x) / x.shape[3], x.dtype)
        keep = 1 - layer["momentum"]
        mean.assign_sub((mean - batch_mean) * keep)
        variance.assign_sub((variance - biased * count / (count - 1)) * keep)
        return tf.nn.batch_normalization(x, batch_mean, biased, offset, scale, layer["epsilon"])
