"""The graph of a network in the operations of the framework."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Iterator, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from touchstone.schema.spec import Layer

ORDER = ("NHWC", "HWIO", "NHWC")


def first_devices(platform: str) -> Tuple[List[Any], int]:
    """The devices of a platform, and how many threads XLA started with them."""
    before = len(_own_threads())
    devices = jax.devices(platform)
    return devices, len(_own_threads()) - before


def pool_threads(started: int) -> int:
    """The number of threads that XLA computes with on the CPU, by their name.

    Before JAX 0.8 they have none: then half of those that `started` with the first device, which
    were two for each (JAX 0.4.36 to 0.7.2).
    """
    return _own_threads().count("tf_XLAEigen") or started // 2


def _own_threads() -> List[str]:
    """The names of this process's threads."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over all labels of -log softmax(logits)[label]; classes are the last axis."""
    right = jnp.sum(logits * jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype), -1)
    return jnp.mean(jax.nn.logsumexp(logits, -1) - right)


def dropped(key: Any, layer: Layer, x: Any) -> Any:
    """What dropout leaves of its input; stochastic depth has one draw for each example."""
    shape = x.shape if layer["op"] == "dropout" else x.shape[:1] + (1,) * (x.ndim - 1)
    kept = jax.random.bernoulli(key, 1 - layer["rate"], shape)
    return jnp.where(kept, x / (1 - layer["rate"]), 0)


ACTIVATIONS = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),
}


def layer_of(layer: Layer, inputs: Any, own: Any) -> Any:
    """What a layer without dropout or batch statistics makes of its inputs, its bias left out."""
    op, x = layer["op"], inputs[0]
    if op == "conv":
        return _conv(layer, x, own["weight"])
    if op == "up_conv":
        # A product of pixels, put in order: XLA's own spreads the image with zeros first.
        return jnp.einsum("bhwc,ijfc->bhiwjf", x, own["weight"]).reshape(-1, *layer["shape"])
    if op == "dense":
        return x @ own["weight"]
    if op == "batch_norm":
        factor = own["scale"] * lax.rsqrt(own["variance"] + layer["epsilon"])
        return (x - own["mean"]) * factor + own["offset"]
    if op == "lrn":
        half = layer["size"] // 2
        squares = jnp.pad(x * x, [(0, 0), (0, 0), (0, 0), (half, half)])
        total = sum(squares[..., i : i + x.shape[3]] for i in range(layer["size"]))
        return x / (layer["k"] + layer["alpha"] / layer["size"] * total) ** layer["beta"]
    if op == "max_pool":
        return _max_pool(layer["size"], layer["stride"], _padded(x, layer["padding"], -np.inf))
    if op == "avg_pool":
        return _average(layer, x)
    if op == "global_avg_pool":
        return jnp.mean(x, (1, 2))
    if op in ACTIVATIONS:
        return ACTIVATIONS[op](x)
    if op == "add":
        return sum(inputs[1:], x)
    if op == "concat":
        return jnp.concatenate(inputs, -1)
    if op == "flatten":
        return x.reshape(len(x), -1)
    if op == "embedding":
        tokens = x[:, :, 0, 0].astype(np.int32)
        return own["weight"].at[tokens].get(mode="promise_in_bounds")
    if op == "position":
        return x + own["weight"]
    if op == "layer_norm":
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + layer["epsilon"]) * own["scale"] + own["offset"]
    if op == "attention":
        return _attention(layer["heads"], layer.get("causal", False), x)
    if op == "all_but_last":
        return x[:, :-1]
    if op == "unembedding":
        return x @ own["weight"].T
    if op == "lstm":
        return _lstm(layer, x, own)
    if op == "mean_over_steps":
        return jnp.mean(x, 1)
    if op == "multiply":
        return x * inputs[1][:, None, None]
    if op == "layer_scale":
        return x * own["scale"]
    if op == "to_sequence":
        return x.reshape(len(x), -1, x.shape[3])
    if op == "class_token":
        token = jnp.broadcast_to(own["weight"], (len(x), 1, x.shape[2]))
        return jnp.concatenate([token, x], 1)
    if op == "step":
        return x[:, layer["index"]]
    raise NotImplementedError("JAX's adapter has no layer " + op)


def _attention(heads: Any, causal: bool, x: Any) -> Any:
    """Self-attention of queries, keys and values that lie side by side."""
    batch, steps, features = x.shape
    q, k, v = jnp.moveaxis(x.reshape(batch, steps, 3, heads, -1), 2, 0)
    products = jnp.einsum("bqhd,bkhd->bhqk", q * q.shape[3] ** -0.5, k)
    if causal:
        products = jnp.where(np.tri(steps, dtype=bool), products, -np.inf)
    output = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(products), v)
    return output.reshape(batch, steps, features // 3)


def _lstm(layer: Layer, x: Any, own: Any) -> Any:
    """The states of an LSTM.

    On the CPU each step multiplies its own inputs: all products at once, and the gradients of all
    steps kept for one product, took twice the CPU time (docs/measured.md).
    """
    at_once = jax.default_backend() != "cpu"

    def gates(x: Any) -> Any:
        return x @ own["weight"] + own["bias"]

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split((x if at_once else gates(x)) + h @ own["recurrent"], 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h if layer["sequence"] else None

    start = jnp.zeros((len(x), layer["units"]), x.dtype)
    inputs = jnp.moveaxis(gates(x) if at_once else x, 1, 0)
    (last, _), states = lax.scan(step, (start, start), inputs)
    return jnp.moveaxis(states, 0, 1) if layer["sequence"] else last


def computed_once(x: Any) -> Any:
    """The array, computed once: XLA would compute it again for every reader, or for every place
    of a window that a reader looks through."""
    return _barrier()(x)


@lru_cache(maxsize=None)
def _barrier() -> Any:
    """JAX's optimisation barrier; with a derivative, which its first releases lack."""
    barrier = lax.optimization_barrier
    try:
        jax.eval_shape(jax.grad(barrier), jax.ShapeDtypeStruct((), "float32"))
    except NotImplementedError:
        differentiable = jax.custom_vjp(barrier)
        # As in later releases: the gradient is kept apart too.
        differentiable.defvjp(lambda x: (barrier(x), None), lambda _, g: (barrier(g),))
        return differentiable
    return barrier


def _padded(x: Any, padding: Any, value: Any) -> Any:
    top, bottom, left, right = padding
    if not any(padding):
        return x
    return jnp.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)], constant_values=value)


def _window(
    x: Any, size: Sequence[int], stride: Sequence[int] = (1, 1), dilation: int = 1
) -> Iterator[Any]:
    """What each place of a window sees of an image, place by place."""
    height, width = (
        (length - (side - 1) * dilation - 1) // step * step + 1
        for length, side, step in zip(x.shape[1:3], size, stride)
    )
    for i in range(size[0]):
        for j in range(size[1]):
            top, left = i * dilation, j * dilation
            yield x[:, top : top + height : stride[0], left : left + width : stride[1]]


def _window_by_rows(x: Any, size: Sequence[int], stride: int, dilation: int = 1) -> Iterator[Any]:
    """The same row by row: its gradient adds up each row of a window before the column."""
    if max(size) <= stride:  # nothing overlaps, so nothing is added up
        yield from _window(x, size, (stride, stride), dilation)
        return
    for row in _window(x, (size[0], 1), (stride, 1), dilation):
        yield from _window(computed_once(row), (1, size[1]), (1, stride), dilation)


def library_conv(layer: Layer, x: Any, weight: Any) -> Any:
    """A convolution by XLA's own operation."""
    top, bottom, left, right = layer["padding"]
    return lax.conv_general_dilated(
        x, weight, [layer["stride"]] * 2, [(top, bottom), (left, right)],
        rhs_dilation=[layer["dilation"]] * 2, dimension_numbers=ORDER,
        feature_group_count=layer["groups"],
    )  # fmt: skip


def _product_conv(layer: Layer, x: Any, weight: Any) -> Any:
    """A convolution as one matrix product of all windows, without groups."""
    x = _padded(x, layer["padding"], 0)
    windows = _window_by_rows(x, weight.shape[:2], layer["stride"], layer["dilation"])
    windows = computed_once(jnp.concatenate(list(windows), 3))
    return windows @ weight.reshape(-1, weight.shape[3])


def _single_conv(layer: Layer, x: Any, weight: Any) -> Any:
    """A convolution whose filters see a single channel, as a sum of scaled images."""
    x = _padded(x, layer["padding"], 0)
    channels = x.shape[3]
    places = weight.reshape(-1, channels, weight.shape[3] // channels)
    images = _window(x, weight.shape[:2], [layer["stride"]] * 2, layer["dilation"])
    # A sum of bfloat16 is one of single precision, as in a matrix product.
    wide = jnp.promote_types(x.dtype, np.float32)
    total = sum(i[..., None].astype(wide) * p.astype(wide) for i, p in zip(images, places))
    return computed_once(total.reshape(*total.shape[:3], -1).astype(x.dtype))


def _conv(layer: Layer, x: Any, weight: Any) -> Any:
    """A convolution on the CPU, each of its three parts in the form that is fast for its shape.

    XLA's operation is slow with one channel, with groups, with few output channels (which the
    gradient of an image with few channels has) and where padding adds many windows (the
    gradient of an image after a large filter without padding); in double precision it is a
    plain loop.
    """
    groups = layer["groups"]
    if 1 < groups and weight.shape[2] > 1:
        alone = dict(layer, groups=1)
        parts = zip(jnp.split(x, groups, 3), jnp.split(weight, groups, 3))
        return jnp.concatenate([_conv(alone, *part) for part in parts], 3)
    usual = _product_conv if x.dtype == np.float64 else library_conv
    forward = by_image = by_weight = usual
    if weight.shape[2] == 1:
        forward = by_image = _single_conv
        if groups > 1:
            by_weight = _single_conv
    else:
        height, width, _ = layer["shape"]
        wasted = x.shape[1] * x.shape[2] > 1.5 * height * width * layer["stride"] ** 2
        if x.shape[3] < 16 or wasted:
            by_image = _product_conv
    forms = [partial(form, layer) for form in (forward, by_image, by_weight)]
    # The gradient of the network's own input is not needed.
    wanted = layer["inputs"] != ["input"]
    return _assembled(forms[0], forms[1], forms[2], wanted)(x, weight)


def _assembled(forward: Any, by_image: Any, by_weight: Any, wanted: Any) -> Any:
    """The function `forward`, with the gradients of two others that compute the same; that of the
    images only where it is `wanted`."""

    @jax.custom_vjp
    def function(x: Any, weight: Any) -> Any:
        return forward(x, weight)

    def backward(kept: Any, gradient: Any) -> Any:
        x, weight = kept
        of_weight = jax.vjp(lambda weight: by_weight(x, weight), weight)[1](gradient)
        if not wanted:
            return (None, *of_weight)
        return jax.vjp(lambda x: by_image(x, weight), x)[1](gradient) + of_weight

    function.defvjp(lambda x, weight: (forward(x, weight), (x, weight)), backward)
    return function


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _max_pool(size: int, stride: int, x: Any) -> Any:
    """Maximum pooling without padding; the first of equal pixels has the gradient.

    XLA's own gradient goes through the windows one by one.
    """
    return _maximum(size, stride, x)[0]


def _maximum(size: int, stride: int, x: Any) -> Any:
    x = computed_once(x)
    largest, *images = _window(x, (size, size), (stride, stride))
    for image in images:
        largest = jnp.maximum(largest, image)
    largest = computed_once(largest)
    return largest, (x, largest)


def _maximum_gradient(size: int, stride: int, kept: Any, gradient: Any) -> Any:
    x, largest = kept
    spread = jax.vjp(lambda x: list(_window_by_rows(x, (size, size), stride)), x)[1]
    parts, taken = [], False
    for image in _window(x, (size, size), (stride, stride)):
        first = (image == largest) & ~jnp.asarray(taken)
        parts.append(jnp.where(first, gradient, 0))
        taken = first | taken
    return computed_once(spread(parts))


_max_pool.defvjp(_maximum, _maximum_gradient)


def _average(layer: Layer, x: Any) -> Any:
    """Average pooling in which padded pixels do not count."""
    size, stride, padding = layer["size"], layer["stride"], layer["padding"]
    counts = []
    for length, out, before in zip(x.shape[1:3], layer["shape"], padding[::2]):
        begin = np.arange(out) * stride - before
        counts.append(np.minimum(begin + size, length) - np.maximum(begin, 0))
    counted = np.multiply.outer(*counts)[..., None].astype(x.dtype)
    x = _padded(x, padding, 0)
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, window, strides, "VALID") / counted


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def batch_normalised(epsilon: Any, x: Any, scale: Any, offset: Any) -> Any:
    """Batch normalisation with the batch's statistics; its mean and biased variance.

    Its own gradient reads the images half as often as the one JAX derives. The statistics have
    none: only the running ones follow from them.
    """
    return _normalise(epsilon, x, scale, offset)[0]


def _normalise(epsilon: Any, x: Any, scale: Any, offset: Any) -> Any:
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, (0, 1, 2))
    root = lax.rsqrt(variance + epsilon)
    return ((x - mean) * (scale * root) + offset, mean, variance), (x, mean, root, scale)


def _normalise_gradient(epsilon: Any, kept: Any, gradients: Any) -> Any:
    x, mean, root, scale = kept
    gradient, count = gradients[0], x.size // x.shape[3]
    white = (x - mean) * root
    of_offset = jnp.sum(gradient, (0, 1, 2))
    of_scale = jnp.sum(gradient * white, (0, 1, 2))
    of_x = scale * root * (gradient - of_offset / count - white * (of_scale / count))
    return of_x, of_scale, of_offset


batch_normalised.defvjp(_normalise, _normalise_gradient)
