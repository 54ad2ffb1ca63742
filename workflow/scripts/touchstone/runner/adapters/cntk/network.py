"""The graph of a network in the operations of the framework."""

import zlib
from typing import Any

import cntk as C
import numpy as np

from touchstone.runner.job import Job
from touchstone.schema.spec import Layer


def is_another(job: Job) -> Any:
    """Whether the update equation, of SGD, is one that CNTK's own learners have not.

    Their velocity is rate v, which a change of the rate would scale; they know no penalties
    of single arrays and coupled decay alone.
    """
    optimizer, schedule = job.optimizer, job.schedule
    if optimizer.decoupled and optimizer.weight_decay:
        return True
    arrays = [p for p in job.network.parameters if p.trainable]
    if any(p.l1 or p.l2 for p in arrays):
        return True
    constant = schedule.name == "constant" and not schedule.lr_warmup_epochs
    return bool(optimizer.settings["momentum"]) and not constant


def with_padding(x: Any, layer: Layer, shape: Any, window: Any, value: Any) -> Any:
    """The image as CNTK's convolution or pooling takes it, and how to make that pad it.

    That is a list of booleans by axis, and whether to use the ceiling. CNTK pads an axis with
    (window - 1) // 2 values in front and as many after as ceil(length / stride) windows want,
    or not at all, and takes no window larger than the image; what is none of these is padded
    before it, with `value`.
    """
    stride, sides = layer["stride"], layer["padding"]
    pads, whole, ceiling = [False], True, layer["op"] != "conv"
    for axis, (length, reach, windows) in enumerate(zip(shape, window, layer["shape"])):
        before = sides[2 * axis]
        none = before == 0 and windows == (length - reach) // stride + 1
        same = before == (reach - 1) // 2 and windows == -(-length // stride) and reach <= length
        pads.append(same and not none)
        whole &= none or same
        ceiling &= before == 0 and windows == -(-(length - reach) // stride) + 1
        ceiling &= reach <= length
    if whole:
        return x, pads, False
    pads = [False] * 3
    if ceiling:
        return x, pads, True
    pattern = [(0, 0), tuple(sides[:2]), tuple(sides[2:])]
    return C.pad(x, pattern, C.CONSTANT_PAD, value), pads, False


def covered(layer: Layer, shape: Any, axis: Any) -> Any:
    """How many pixels of the image every window of a pooling has along an axis, int array."""
    begin = np.arange(layer["shape"][axis]) * layer["stride"] - layer["padding"][2 * axis]
    return np.minimum(begin + layer["size"], shape[axis]) - np.maximum(begin, 0)


def dilated_filter(kernel: Any, dilation: Any) -> Any:
    """The kernel with zeros between its values; CNTK has no dilated convolution on CPUs."""
    filters, channels, height, width = kernel.shape
    gaps = [(0, 0), (0, 0), (0, 0), (0, dilation - 1), (0, 0), (0, dilation - 1)]
    spread = C.reshape(kernel, (filters, channels, height, 1, width, 1))
    spread = C.pad(spread, gaps, C.CONSTANT_PAD, 0)
    spread = C.reshape(spread, (filters, channels, height * dilation, width * dilation))
    ends = [size * dilation - dilation + 1 for size in (height, width)]
    return C.slice(spread, [2, 3], [0, 0], ends)


def depthwise(x: Any, kernel: Any, layer: Layer) -> Any:
    """The convolution of every channel by itself: a sum of moved images, each times its weights.

    CNTK's own takes minutes for a step of Xception; this takes 1.6 s (docs/parity.md).
    """
    sides, outs = layer["padding"], layer["shape"][:2]
    # CNTK refuses a stride over a single pixel.
    strides = [layer["stride"] if out > 1 else 1 for out in outs]
    reach = [(out - 1) * stride + 1 for out, stride in zip(outs, strides)]
    x = C.pad(x, [(0, 0), tuple(sides[:2]), tuple(sides[2:])], C.CONSTANT_PAD, 0)
    moved = []
    for row in range(kernel.shape[2]):
        for column in range(kernel.shape[3]):
            ends = [row + reach[0], column + reach[1]]
            window = C.slice(x, [1, 2], [row, column], ends, strides)
            weights = C.slice(kernel, [2, 3], [row, column], [row + 1, column + 1])
            moved.append(window * C.reshape(weights, (kernel.shape[0], 1, 1)))
    return sum(moved[1:], moved[0])


def mask_shape(layer: Layer) -> Any:
    """The shape of what a layer that draws multiplies an example by."""
    shape = tuple(layer["shape"][2:] + layer["shape"][:2])
    return shape if layer["op"] == "dropout" else (1,) * len(shape)


def dropped(layer: Layer, x: Any, mask: Any, seed: int) -> Any:
    """What dropout leaves of its input; stochastic depth has one draw for each example."""
    if mask is not None:
        return x * mask
    seed ^= zlib.crc32(layer["name"].encode())
    if layer["op"] == "dropout":
        return C.dropout(x, layer["rate"], seed)
    return x * C.dropout(C.ones_like(C.reduce_max(x)), layer["rate"], seed)


def has_avx2() -> bool:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " avx2 " in file.read()


ACTIVATIONS = {
    "relu": C.relu,
    "relu6": lambda x: C.clip(x, 0, 6),
    "sigmoid": C.sigmoid,
    "tanh": C.tanh,
    "silu": lambda x: x * C.sigmoid(x),
}


def require_able(job: Job) -> None:
    """Raise NotImplementedError where CNTK has no such function, or a partial batch would not be
    normalised as the others are."""
    if any(layer["op"] == "gelu" for layer in job.network.layers):
        raise NotImplementedError("CNTK has no error function, as gelu needs")
    if job.network.task:
        raise NotImplementedError("CNTK's adapter trains on one label of each example")
    if any(layer.get("causal") for layer in job.network.layers):
        raise NotImplementedError("CNTK's adapter has no causal attention")
    if job.rest and any(layer["op"] == "batch_norm" for layer in job.network.layers):
        raise NotImplementedError(
            "CNTK counts the momentum of running statistics in examples, so that a partial batch"
            " would change them less"
        )
