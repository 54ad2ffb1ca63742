"""A network as a graph of standard layers; framework-free.

Shapes are those of one example: (height, width, channels) for images, (features,) once
flattened; (steps, 1, 1) for tokens, (steps, features) for the sequence made of them or of an
image.
`flatten` puts the channels first (channel, row, column), whatever order a framework keeps its
images in; adapters reorder the weights after it, once, at build. Weights have one canonical
layout: convolution (filters, channels / groups, height, width), dense (units, features), LSTM
(4 units, features), its gates in the order input, forget, cell, output.
"""

from __future__ import annotations

import math

from touchstone.networks._base import BYTES, GraphBase, GraphError, Padding, Parameter
from touchstone.networks._initialisation import OwnStart

__all__ = ["Graph", "GraphError", "OwnStart"]


class Graph(GraphBase):
    """A network: every method adds a layer and returns its name."""

    def conv(
        self,
        name: str,
        source: str,
        filters: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: Padding = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> str:
        """2-D convolution (cross-correlation); the padding is zeros.

        `groups` divides channels and filters into independent convolutions; as many groups
        as channels are a depthwise convolution.
        """
        height, width, channels = self._image(source, name, "conv")
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        if min(filters, *size, stride, dilation, groups) < 1:
            raise GraphError(f"layer {name} (conv) has a setting below 1")
        if channels % groups or filters % groups:
            raise GraphError(
                f"layer {name} (conv) has {channels} channels and {filters} filters, which "
                f"{groups} groups do not divide"
            )
        sides = self._sides(padding, (height, width), size, stride, dilation)
        out = self._windows((height, width), size, stride, sides, dilation)
        fan_in = channels // groups * size[0] * size[1]
        shape = (filters, channels // groups, *size)
        self._macs[name] = max(out[0], 0) * max(out[1], 0) * filters * fan_in
        self._add(
            "conv", name, (source,), (*out, filters), filters=filters, kernel=list(size),
            stride=stride, padding=sides, dilation=dilation, groups=groups, bias=bias,
        )  # fmt: skip
        self._weights(name, shape, fan_in, bias)
        return name

    def up_conv(self, name: str, source: str, filters: int, scale: int = 2) -> str:
        """Transposed convolution whose stride is its kernel's size, with a bias: every pixel
        becomes `scale` x `scale` pixels (Ronneberger et al. 2015, arXiv:1505.04597, section 2).

        Its weight is (channels, filters, scale, scale): pixel (i, j) of those that a pixel becomes
        has the sum over its channels times weight[:, filter, i, j].
        """
        height, width, channels = self._image(source, name, "up_conv")
        if min(filters, scale) < 1:
            raise GraphError(f"layer {name} (up_conv) has a setting below 1")
        self._macs[name] = height * width * channels * filters * scale**2
        shape = (scale * height, scale * width, filters)
        self._add("up_conv", name, (source,), shape, filters=filters, scale=scale)
        weight = (channels, filters, scale, scale)
        self._array(f"{name}.weight", weight, None, channels, filters * scale**2)
        self._array(f"{name}.bias", (filters,), "zeros", channels)
        return name

    def dense(
        self,
        name: str,
        source: str,
        units: int,
        bias: bool = True,
        l1: float = 0.0,
        l2: float = 0.0,
    ) -> str:
        """Fully connected layer, of every step of a sequence alike.

        `l1` and `l2` are penalties on its weights, not on its bias.
        """
        if min(l1, l2) < 0:
            raise GraphError(f"layer {name} (dense) has a penalty below 0")
        shape = self._features(source, name, "dense")
        features = shape[-1]
        self._macs[name] = math.prod(shape[:-1]) * units * features
        self._add(
            "dense", name, (source,), (*shape[:-1], units), units=units, bias=bias,
            image=self._image_behind(source),
        )  # fmt: skip
        self._weights(name, (units, features), features, bias, l1, l2)
        return name

    def batch_norm(
        self, name: str, source: str, epsilon: float = 1e-5, momentum: float = 0.9
    ) -> str:
        """Batch normalisation over each channel, with scale and offset.

        Training normalises with the batch's biased variance. The running statistics, which
        evaluation uses, are momentum x old + (1 - momentum) x batch, the variance unbiased,
        as in Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 2.
        """
        shape = self.shape(source)
        if len(shape) != 3:
            raise GraphError(f"layer {name} (batch_norm) wants an image, {source} gives {shape}")
        if self._frozen:
            raise GraphError(f"layer {name} (batch_norm) cannot be frozen")
        channels = shape[-1:]
        self._add("batch_norm", name, (source,), shape, epsilon=epsilon, momentum=momentum)
        for kind, init, trainable in (
            ("scale", "ones", True), ("offset", "zeros", True),
            ("mean", "zeros", False), ("variance", "ones", False),
        ):  # fmt: skip
            self.parameters.append(Parameter(f"{name}.{kind}", channels, init, 0, trainable))
        return name

    def lrn(self, name: str, source: str, size: int, alpha: float, beta: float, k: float) -> str:
        """Local response normalisation across channels: x / (k + alpha / size x sum)^beta.

        The sum is of the squares of the `size` channels around (Krizhevsky et al. 2012,
        section 3.3, whose alpha is ours / size).
        """
        shape = self._image(source, name, "lrn")
        settings = {"size": size, "alpha": alpha, "beta": beta, "k": k}
        return self._add("lrn", name, (source,), shape, **settings)

    def max_pool(
        self,
        name: str,
        source: str,
        size: int,
        stride: int | None = None,
        padding: Padding = 0,
        ceil: bool = False,
    ) -> str:
        """Maximum over windows; padded pixels never win.

        `ceil` keeps the windows that begin inside the image and end beyond it.
        """
        return self._pool("max_pool", name, source, size, stride or size, padding, ceil)

    def avg_pool(
        self,
        name: str,
        source: str,
        size: int,
        stride: int | None = None,
        padding: Padding = 0,
        ceil: bool = False,
    ) -> str:
        """Mean over windows; padded pixels do not count."""
        return self._pool("avg_pool", name, source, size, stride or size, padding, ceil)

    def _pool(
        self, op: str, name: str, source: str, size: int, stride: int, padding: Padding, ceil: bool
    ) -> str:
        height, width, channels = self._image(source, name, op)
        if min(size, stride) < 1:
            raise GraphError(f"layer {name} ({op}) has a setting below 1")
        sides = self._sides(padding, (height, width), (size, size), stride, 1)
        if ceil:
            # More pixels at the bottom and right: as many as whole windows want, if the
            # window so completed begins inside the image or its first padding.
            for side, length in ((1, height), (3, width)):
                padded = length + sides[side - 1] + sides[side]
                rest = (padded - size) % stride
                begins = padded - size - rest + stride
                if padded >= size and rest and begins < length + sides[side - 1]:
                    sides[side] += stride - rest
        out = self._windows((height, width), (size, size), stride, sides, 1)
        return self._add(
            op, name, (source,), (*out, channels), size=size, stride=stride, padding=sides
        )

    def global_avg_pool(self, name: str, source: str) -> str:
        """The mean of every channel, as a vector."""
        shape = self._image(source, name, "global_avg_pool")
        return self._add("global_avg_pool", name, (source,), shape[-1:])

    def relu(self, name: str, source: str) -> str:
        """max(0, x)."""
        return self._add("relu", name, (source,), self.shape(source))

    def relu6(self, name: str, source: str) -> str:
        """min(max(0, x), 6) (Sandler et al. 2018, arXiv:1801.04381)."""
        return self._add("relu6", name, (source,), self.shape(source))

    def sigmoid(self, name: str, source: str) -> str:
        """1 / (1 + exp(-x))."""
        return self._add("sigmoid", name, (source,), self.shape(source))

    def silu(self, name: str, source: str) -> str:
        """x sigmoid(x), also called swish (Elfwing et al. 2017, arXiv:1702.03118)."""
        return self._add("silu", name, (source,), self.shape(source))

    def gelu(self, name: str, source: str) -> str:
        """x (1 + erf(x / sqrt(2))) / 2, not its approximation (Hendrycks and Gimpel 2016,
        arXiv:1606.08415)."""
        return self._add("gelu", name, (source,), self.shape(source))

    def gelu_tanh(self, name: str, source: str) -> str:
        """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the approximation of GELU (Hendrycks
        and Gimpel 2016, arXiv:1606.08415, section 2)."""
        return self._add("gelu_tanh", name, (source,), self.shape(source))

    def tanh(self, name: str, source: str) -> str:
        """The hyperbolic tangent."""
        return self._add("tanh", name, (source,), self.shape(source))

    def dropout(self, name: str, source: str, rate: float) -> str:
        """In training, each value is 0 with probability `rate`, else divided by 1 - rate."""
        return self._dropped("dropout", name, source, rate, self._image_behind(source))

    def stochastic_depth(self, name: str, source: str, rate: float) -> str:
        """In training, all values of an example are 0 with probability `rate`, else divided by
        1 - rate: the example skips a branch that is added (Huang et al. 2016, arXiv:1603.09382).
        Rate 0 adds no layer."""
        if not rate:
            return source
        return self._dropped("stochastic_depth", name, source, rate, None)

    def _dropped(
        self, op: str, name: str, source: str, rate: float, image: list[int] | None
    ) -> str:
        if not 0 <= rate < 1:
            raise GraphError(f"layer {name} ({op}) has the rate {rate}, not one in [0, 1)")
        return self._add(op, name, (source,), self.shape(source), rate=rate, image=image)

    def add(self, name: str, *sources: str) -> str:
        """The sum of inputs of one shape."""
        shapes = [self.shape(source) for source in sources]
        if len(sources) < 2 or len(set(shapes)) != 1:
            raise GraphError(f"layer {name} (add) has inputs of shapes {shapes}")
        images = [self._image_behind(source) for source in sources]
        if any(image != images[0] for image in images):
            raise GraphError(f"layer {name} (add) has inputs that were flattened differently")
        return self._add("add", name, sources, shapes[0])

    def multiply(self, name: str, source: str, factors: str) -> str:
        """An image, each channel of which is multiplied by its number of the vector `factors`.

        So does squeeze-and-excitation (Hu et al. 2017, arXiv:1709.01507).
        """
        shape, vector = self._image(source, name, "multiply"), self.shape(factors)
        if vector != shape[-1:]:
            raise GraphError(
                f"layer {name} (multiply) wants a number for each channel of {source}, "
                f"{shape}; {factors} gives {vector}"
            )
        if self._image_behind(factors):
            raise GraphError(
                f"layer {name} (multiply) wants a number for each channel; {factors} has pixels"
            )
        return self._add("multiply", name, (source, factors), shape)

    def layer_scale(self, name: str, source: str) -> str:
        """An image, each channel of which is multiplied by a learned number.

        The numbers begin at 1 where the network does not state another start (Touvron et al.
        2021, arXiv:2103.17239, section 2).
        """
        shape = self._image(source, name, "layer_scale")
        self._add("layer_scale", name, (source,), shape)
        self._array(f"{name}.scale", shape[-1:], "ones", 0)
        return name

    def concat(self, name: str, *sources: str) -> str:
        """Inputs of one height and width put together along the channels."""
        shapes = [self._image(source, name, "concat") for source in sources]
        if len(sources) < 2 or len({shape[:2] for shape in shapes}) != 1:
            raise GraphError(f"layer {name} (concat) has inputs of shapes {shapes}")
        channels = sum(shape[2] for shape in shapes)
        return self._add("concat", name, sources, (*shapes[0][:2], channels))

    def flatten(self, name: str, source: str) -> str:
        """An image as a vector in the order (channel, row, column)."""
        shape = self._image(source, name, "flatten")
        return self._add("flatten", name, (source,), (math.prod(shape),))

    def to_sequence(self, name: str, source: str) -> str:
        """An image as the sequence of its pixels, row by row, each with its channels.

        After a convolution whose stride is its kernel's size these are the patches of an image
        (Dosovitskiy et al. 2020, arXiv:2010.11929).
        """
        height, width, channels = self._image(source, name, "to_sequence")
        return self._add("to_sequence", name, (source,), (height * width, channels))

    def class_token(self, name: str, source: str) -> str:
        """The sequence after a learned step, which is the same for every example."""
        steps, features = self._sequence(source, name, "class_token")
        self._add("class_token", name, (source,), (steps + 1, features))
        self._array(f"{name}.weight", (features,), "zeros", 1)
        return name

    def step(self, name: str, source: str, index: int) -> str:
        """The features of the step `index`, the first of which is 0, as a vector."""
        steps, features = self._sequence(source, name, "step")
        if not 0 <= index < steps:
            raise GraphError(f"layer {name} (step) wants step {index} of {steps}, counted from 0")
        return self._add("step", name, (source,), (features,), index=index)

    def all_but_last(self, name: str, source: str) -> str:
        """The tokens of the input without the last: each has one after it to be predicted."""
        steps = self._tokens(source, name, "all_but_last")
        return self._add("all_but_last", name, (source,), (steps - 1, 1, 1))

    def embedding(self, name: str, source: str, width: int, vocabulary: int = BYTES) -> str:
        """The row of a table that belongs to each token of the input: a sequence.

        The table has `vocabulary` rows. The input has bytes only, whatever rows there are.
        """
        steps = self._tokens(source, name, "embedding")
        if vocabulary < BYTES:
            raise GraphError(f"layer {name} (embedding) has {vocabulary} rows for {BYTES} tokens")
        self.vocabulary = BYTES
        self._add(
            "embedding", name, (source,), (steps, width), vocabulary=vocabulary, width=width
        )  # fmt: skip
        self._array(f"{name}.weight", (vocabulary, width), "standard_normal", 1)
        return name

    def unembedding(self, name: str, source: str, embedding: str) -> str:
        """The product of every step with each row of the table of the layer `embedding`, which
        both layers train (Press and Wolf 2016, arXiv:1608.05859)."""
        steps, features = self._sequence(source, name, "unembedding")
        table = self._by_name.get(embedding)
        if not table or table.op != "embedding" or table.shape[1] != features:
            raise GraphError(
                f"layer {name} (unembedding) wants an embedding of width {features}, "
                f"{embedding} is none"
            )
        vocabulary = table.settings["vocabulary"]
        self._macs[name] = steps * features * vocabulary
        return self._add(
            "unembedding", name, (source,), (steps, vocabulary), embedding=embedding
        )  # fmt: skip

    def position(self, name: str, source: str) -> str:
        """The sequence plus an array of its shape (Gehring et al. 2017, arXiv:1705.03122)."""
        shape = self._sequence(source, name, "position")
        self._add("position", name, (source,), shape)
        self._array(f"{name}.weight", shape, "standard_normal", 1)
        return name

    def layer_norm(self, name: str, source: str, epsilon: float = 1e-5) -> str:
        """Layer normalisation over the features of a vector or of each step, or over the channels
        of each pixel, with scale and offset.

        It divides by the root of the biased variance plus epsilon (Ba et al. 2016,
        arXiv:1607.06450).
        """
        shape = self.shape(source)
        if self._image_behind(source):
            raise GraphError(f"layer {name} (layer_norm) wants no flattened image, as {source} is")
        self._add("layer_norm", name, (source,), shape, epsilon=epsilon)
        self._array(f"{name}.scale", shape[-1:], "ones", 0)
        self._array(f"{name}.offset", shape[-1:], "zeros", 0)
        return name

    def attention(self, name: str, source: str, heads: int, causal: bool = False) -> str:
        """Multi-head scaled dot-product self-attention (Vaswani et al. 2017, arXiv:1706.03762).

        The features of the source are queries, keys and values, each a third, each third divided
        into heads: softmax(q k' / sqrt(width of a head)) v of every head, side by side. Every
        step sees all steps, or, in `causal` attention, itself and those before it. What projects
        into and out of it are dense layers.

        The multiply-accumulates are those with all steps, also of causal attention.
        """
        steps, features = self._sequence(source, name, "attention")
        if heads < 1 or features % (3 * heads):
            raise GraphError(
                f"layer {name} (attention) has {features} features, which are no queries, keys "
                f"and values for {heads} heads"
            )
        self._macs[name] = 2 * steps * steps * (features // 3)
        settings = {"heads": heads, "causal": True} if causal else {"heads": heads}
        return self._add("attention", name, (source,), (steps, features // 3), **settings)

    def lstm(self, name: str, source: str, units: int, sequence: bool = False) -> str:
        """Long short-term memory: the state after the last step, or with `sequence` after each.

        From c = h = 0, with the gates i, f, g, o in this order of the rows of weight w,
        recurrent weight u and bias b (Hochreiter and Schmidhuber 1997, with the forget gate of
        Gers et al. 2000): c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c) of
        (i, f, g, o) = w x + u h + b.
        """
        steps, features = self._sequence(source, name, "lstm")
        self._macs[name] = steps * 4 * units * (features + units)
        shape = (steps, units) if sequence else (units,)
        self._add("lstm", name, (source,), shape, units=units, sequence=sequence)
        # A gate has `units` outputs.
        self._array(f"{name}.weight", (4 * units, features), None, features, units)
        self._array(f"{name}.recurrent", (4 * units, units), None, units, units)
        self._array(f"{name}.bias", (4 * units,), "forget_ones", features)
        return name

    def mean_over_steps(self, name: str, source: str) -> str:
        """The mean of every feature over the steps, as a vector."""
        shape = self._sequence(source, name, "mean_over_steps")
        return self._add("mean_over_steps", name, (source,), shape[1:])
