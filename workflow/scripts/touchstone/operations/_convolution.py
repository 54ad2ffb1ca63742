"""What the three directions of a two-dimensional convolution share.

Images x are (batch, channels, height, width), filters w (filters, channels, kernel height,
kernel width), and y, of the shape of the convolution, is what goes backward. A framework that
wants another order gets it before the first call.
"""

from typing import Any, Iterator

import numpy as np

SAMPLE = 2
"""Channels of the result that are compared."""


def _product(shape: Any) -> int:
    """The elements of an array, exactly: large ones would overflow NumPy's integers."""
    return int(np.prod(shape, dtype=object))


class Convolution:
    """What the operations inherit; each has `wanted`, the array that it makes: y is forward."""

    wanted: str

    dimensions = (
        "batch", "height", "width", "channels", "filters", "kernel_height", "kernel_width",
        "padding", "stride",
    )  # fmt: skip

    may_be_zero = ("padding",)

    def impossible(
        self, height: Any, width: Any, kernel_height: Any, kernel_width: Any, padding: Any,
        **others: Any
    ) -> str:  # fmt: skip
        """Whether the kernel is larger than its padded image, in words."""
        for name, image, kernel in (
            ("height", height, kernel_height), ("width", width, kernel_width)
        ):  # fmt: skip
            if kernel > image + 2 * padding:
                text = "the kernel's {0} of {1} is more than the image's of {2} with its padding"
                return text.format(name, kernel, image + 2 * padding)
        return ""

    def _shapes(
        self,
        batch: Any,
        height: Any,
        width: Any,
        channels: int,
        filters: int,
        kernel_height: Any,
        kernel_width: Any,
        padding: Any,
        stride: int,
    ) -> Any:
        out_height = (height + 2 * padding - kernel_height) // stride + 1
        out_width = (width + 2 * padding - kernel_width) // stride + 1
        return {
            "x": (batch, channels, height, width),
            "w": (filters, channels, kernel_height, kernel_width),
            "y": (batch, filters, out_height, out_width),
        }

    def flops(self, **dimensions: Any) -> Any:
        """The direct algorithm's, in every direction: a multiplication and an addition for every
        element of y and of a filter, padding included (as DeepBench counts,
        github.com/baidu-research/DeepBench)."""
        shapes = self._shapes(**dimensions)
        return 2 * _product(shapes["y"]) * _product(shapes["w"][1:])

    def traffic(self, **dimensions: Any) -> Any:
        return 4 * sum(map(_product, self._shapes(**dimensions).values()))

    def arrays(self, random: Any, **dimensions: Any) -> Any:
        shapes = self._shapes(**dimensions)
        made = {k: random.standard_normal(v).astype(np.float32) for k, v in shapes.items()}
        return dict(made, padding=dimensions["padding"], stride=dimensions["stride"])

    def pytorch(self, adapter: Any, x: Any, w: Any, y: Any, padding: Any, stride: int) -> Any:
        import torch

        x, w, y = (  # which PyTorch's convolutions are fast with
            torch.from_numpy(a).to(adapter.device, memory_format=torch.channels_last)
            for a in (x, w, y)
        )

        @torch.no_grad()
        def forward() -> Any:
            return (torch.nn.functional.conv2d(x, w, None, stride, padding),)

        mask = [self.wanted == "x", self.wanted == "w", False]

        def backward() -> Any:
            gradients = torch.ops.aten.convolution_backward(
                y, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask
            )
            return (gradients[mask.index(True)],)

        return forward if self.wanted == "y" else backward

    def tensorflow(self, adapter: Any, x: Any, w: Any, y: Any, padding: Any, stride: int) -> Any:
        import tensorflow as tf

        sides = _tensorflow_padding(x, w, y, padding, stride)
        x, y = (tf.constant(images.transpose(0, 2, 3, 1)) for images in (x, y))
        w = tf.constant(w.transpose(2, 3, 1, 0))
        sizes, strides = tf.shape(w), [1, stride, stride, 1]
        named = {"padding": sides}
        if not isinstance(sides, str):
            named = {"padding": "EXPLICIT", "explicit_paddings": np.ravel(sides).tolist()}
        calls = {
            "y": lambda: (tf.nn.conv2d(x, w, stride, sides),),
            "x": lambda: (tf.nn.conv2d_transpose(y, w, tf.shape(x), stride, sides),),
            "w": lambda: (
                tf.raw_ops.Conv2DBackpropFilter(
                    input=x, filter_sizes=sizes, out_backprop=y, strides=strides, **named
                ),
            ),
        }
        order = (3, 2, 0, 1) if self.wanted == "w" else (0, 3, 1, 2)
        return calls[self.wanted], lambda results: [results[0].transpose(order)]

    def mxnet(self, adapter: Any, x: Any, w: Any, y: Any, padding: Any, stride: int) -> Any:
        import mxnet as mx

        settings = {
            "num_filter": len(w), "kernel": w.shape[2:], "stride": (stride, stride),
            "pad": (padding, padding), "no_bias": True,
        }  # fmt: skip
        x, w, y = map(adapter.array, (x, w, y))
        if self.wanted == "y":
            return lambda: (mx.nd.Convolution(x, w, **settings),)
        # MXNet has no operation that is only a gradient: a bound graph's backward pass is one.
        graph = mx.sym.Convolution(mx.sym.var("x"), mx.sym.var("w"), **settings)
        operands = {"x": x, "w": w}
        gradient = mx.nd.zeros_like(operands[self.wanted])
        bound = graph.bind(
            adapter.context, operands, args_grad={self.wanted: gradient},
            grad_req={name: "write" if name == self.wanted else "null" for name in operands},
        )  # fmt: skip
        bound.forward(is_train=True)

        def backward() -> Any:
            bound.backward(y)
            return (gradient,)

        return backward

    def jax(self, adapter: Any, x: Any, w: Any, y: Any, padding: Any, stride: int) -> Any:
        import jax

        def convolve(x: Any, w: Any) -> Any:
            sides = [(padding, padding)] * 2
            return jax.lax.conv_general_dilated(x, w, (stride, stride), sides, precision="highest")

        calls = {
            "y": lambda x, w, y: (convolve(x, w),),
            "x": lambda x, w, y: jax.vjp(lambda x: convolve(x, w), x)[1](y),
            "w": lambda x, w, y: jax.vjp(lambda w: convolve(x, w), w)[1](y),
        }
        x, w, y = map(jax.device_put, (x, w, y))
        call = jax.jit(calls[self.wanted])
        return lambda: call(x, w, y)

    def deviation(self, results: Any, x: Any, w: Any, y: Any, padding: Any, stride: int) -> float:
        result = results[0]
        chosen = np.linspace(0, result.shape[self.wanted != "w"] - 1, SAMPLE).astype(int)
        result = result[chosen] if self.wanted == "w" else result[:, chosen]
        exact = {"y": _forward, "x": _by_images, "w": _by_filters}[self.wanted]
        exact = exact(x, w, y, padding, stride, chosen)
        return float(np.abs(result - exact).max() / np.abs(exact).max())


def _tensorflow_padding(x: Any, w: Any, y: Any, padding: Any, stride: int) -> Any:
    """The padding by the name under which TensorFlow's kernels are fast, or else in numbers."""
    if padding == 0:
        return "VALID"
    same = [
        out == -(-length // stride) and (out - 1) * stride + kernel - length == 2 * padding
        for out, kernel, length in zip(y.shape[2:], w.shape[2:], x.shape[2:])
    ]
    if all(same):
        return "SAME"
    return [[0, 0], [padding, padding], [padding, padding], [0, 0]]


def _padded(x: Any, padding: Any) -> Any:
    sides = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    return np.pad(x.astype(np.float64), sides, mode="constant")


def _windows(w: Any, y: Any, stride: int) -> Iterator[Any]:
    """For every element of the kernel: its row, its column, and what of the padded images it
    meets while it is moved over them."""
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            rows = slice(row, row + stride * (y.shape[2] - 1) + 1, stride)
            columns = slice(column, column + stride * (y.shape[3] - 1) + 1, stride)
            yield row, column, (slice(None), slice(None), rows, columns)


def _forward(x: Any, w: Any, y: Any, padding: Any, stride: int, chosen: Any) -> Any:
    """The `chosen` channels of the convolution, float64."""
    x, output = _padded(x, padding), 0.0
    for row, column, window in _windows(w, y, stride):
        part = w[chosen, :, row, column]
        output = output + np.einsum("ncij,fc->nfij", x[window], part, optimize=True)
    return output


def _by_images(x: Any, w: Any, y: Any, padding: Any, stride: int, chosen: Any) -> Any:
    """The `chosen` channels of the gradient of sum(convolution * y) by the images, float64."""
    gradient = _padded(np.zeros_like(x[:, chosen]), padding)
    for row, column, window in _windows(w, y, stride):
        part = w[:, chosen, row, column].astype(np.float64)
        gradient[window] += np.einsum("nfij,fc->ncij", y, part, optimize=True)
    return gradient[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]


def _by_filters(x: Any, w: Any, y: Any, padding: Any, stride: int, chosen: Any) -> Any:
    """The `chosen` filters of the gradient of sum(convolution * y) by the filters, float64."""
    x, gradient = _padded(x, padding), np.zeros(w[chosen].shape)
    for row, column, window in _windows(w, y, stride):
        part = np.einsum("ncij,nfij->fc", x[window], y[:, chosen], optimize=True)
        gradient[:, :, row, column] = part
    return gradient
