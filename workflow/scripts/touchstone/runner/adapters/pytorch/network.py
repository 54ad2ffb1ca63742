"""The graph of a network in the operations of the framework."""

import operator
from functools import partial
from typing import Any, Dict

import torch
from torch import nn

from touchstone.schema.spec import Layer, Network

LAYOUTS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}
"""How the numbers of images and filters follow one another in memory."""


def layouts_of(tensors: Any) -> Any:
    """The names of the layouts that all tensors are in; a single channel fits both."""
    return [
        name
        for name, kind in LAYOUTS.items()
        if all(tensor.is_contiguous(memory_format=kind) for tensor in tensors)
    ]


class Average(nn.Module):
    """Average pooling with any padding, whose pixels do not count."""

    def __init__(self, sides: Any, size: int, stride: int) -> None:
        super().__init__()
        self.sides, self.size, self.stride = sides, size, stride

    def forward(self, x: Any) -> Any:
        ones = self._mean(torch.ones_like(x[:1, :1]))
        return self._mean(x) / ones

    def _mean(self, x: Any) -> Any:
        x = nn.functional.pad(x, self.sides)
        return nn.functional.avg_pool2d(x, self.size, self.stride)


class StochasticDepth(nn.Module):
    """Drops all values of an example with a probability, and divides those of the others."""

    def __init__(self, rate: Any) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Any) -> Any:
        if not self.training:
            return x
        kept = x.new_empty([len(x)] + [1] * (x.dim() - 1)).bernoulli_(1 - self.rate)
        return x * kept.div_(1 - self.rate)


class Masked(nn.Module):
    """Dropout that multiplies by a given mask."""

    def __init__(self, rate: Any) -> None:
        super().__init__()
        self.mask = None

    def forward(self, x: Any) -> Any:
        return x * self.mask if self.training else x


class Embedding(nn.Embedding):
    """The rows of the tokens, which come as images (batch, 1, steps, 1)."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__(layer["vocabulary"], layer["width"])

    def forward(self, x: Any) -> Any:
        return super().forward(x.flatten(1).long())


class Unembedding(nn.Module):
    """The products with all rows of the table of an embedding, whose array it shares."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Any) -> Any:
        return nn.functional.linear(x, self.weight)


class Position(nn.Module):
    """A sequence plus an array of its shape."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(*shape))

    def forward(self, x: Any) -> Any:
        return x + self.weight


class Attention(nn.Module):
    """Self-attention of queries, keys and values that lie side by side."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__()
        self.heads, self.causal = layer["heads"], layer.get("causal", False)

    def forward(self, x: Any) -> Any:
        parts = x.view(x.shape[0], x.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        output = nn.functional.scaled_dot_product_attention(
            *parts.unbind(0), is_causal=self.causal
        )  # fmt: skip
        return output.transpose(1, 2).flatten(2)


class Lstm(nn.Module):
    """PyTorch's own LSTM, of whose two biases the second stays 0: the graph has one."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__()
        self.sequence = layer["sequence"]
        self.lstm = nn.LSTM(shape[-1], layer["units"], batch_first=True)
        nn.init.zeros_(self.lstm.bias_hh_l0).requires_grad_(False)

    weight = property(lambda self: self.lstm.weight_ih_l0)
    recurrent = property(lambda self: self.lstm.weight_hh_l0)
    bias = property(lambda self: self.lstm.bias_ih_l0)

    def forward(self, x: Any) -> Any:
        states, (last, _) = self.lstm(x)
        return states if self.sequence else last[0]


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of images, which come first."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _layer_norm(layer: Layer, shape: Any) -> Any:
    return (ChannelNorm if len(shape) == 3 else nn.LayerNorm)(shape[-1], layer["epsilon"])


class ClassToken(nn.Module):
    """A sequence after a learned step."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape[-1]))

    def forward(self, x: Any) -> Any:
        return torch.cat((self.weight.to(x.dtype).expand(len(x), 1, -1), x), 1)


class LayerScale(nn.Module):
    """Images whose channels are multiplied by learned numbers."""

    def __init__(self, layer: Layer, shape: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape[-1]))

    def forward(self, x: Any) -> Any:
        return x * self.weight[:, None, None]


LEARNED = {
    "embedding": Embedding,
    "position": Position,
    "layer_norm": _layer_norm,
    "attention": Attention,
    "lstm": Lstm,
    "class_token": ClassToken,
    "layer_scale": LayerScale,
}
"""What makes a layer, of the layer of the graph and the shape that it is given."""
PLAIN = {
    "flatten": nn.Flatten,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    # Their gradients need their inputs, so that in place they would copy these.
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, "tanh"),
}
"""Layers without settings."""


def _multiplied(x: Any, factors: Any) -> Any:
    """Images whose channels are multiplied by those of a vector."""
    return x * factors[:, :, None, None]


def _sequence(x: Any) -> Any:
    """Images (batch, channels, height, width) as sequences (batch, height width, channels)."""
    return x.flatten(2).transpose(1, 2)


DROPPED = {"dropout": nn.Dropout, "stochastic_depth": StochasticDepth}
"""Layers that draw in training."""


def module_of(network: Network, supplied: Any = False, tuned: bool = True) -> Any:
    """The graph as a torch.fx GraphModule: its generated forward costs what a written one does.

    Layers that draw multiply by masks where these are `supplied`. Only a `tuned` network writes
    over what nobody reads any more.
    """
    modules: Dict[str, Any] = {}
    graph = torch.fx.Graph()
    values = {"input": graph.placeholder("images")}
    shapes = {"input": network.input}
    shapes.update({layer["name"]: layer["shape"] for layer in network.layers})
    sources = [source for layer in network.layers for source in layer["inputs"]]
    ops = {layer["name"]: layer["op"] for layer in network.layers}

    def is_free(source: str) -> bool:
        """Whether nobody else reads what a layer gives, nor does its own gradient."""
        return _free(ops.get(source, "")) and sources.count(source) == 1

    for layer in network.layers:
        name, op, source = layer["name"], layer["op"], layer["inputs"][0]
        inputs = [values[s] for s in layer["inputs"]]
        if op == "add":
            # Into what nobody else reads, where there is such an input.
            free = [s for s in layer["inputs"] if tuned and is_free(s)]
            first = layer["inputs"].index(free[0]) if free else 0
            value = inputs.pop(first)
            for other in inputs:
                value = graph.call_function(operator.iadd if free else operator.add, (value, other))
        elif op == "concat":
            value = graph.call_function(torch.cat, (inputs, 1))
        elif op == "global_avg_pool":
            value = graph.call_method("mean", (inputs[0], (2, 3)))
        elif op == "mean_over_steps":
            value = graph.call_method("mean", (inputs[0], 1))
        elif op == "all_but_last":
            value = graph.call_method("narrow", (inputs[0], 2, 0, layer["shape"][0]))
        elif op == "unembedding":
            modules[name] = Unembedding(modules[layer["embedding"]].weight)
            value = graph.call_module(name, (inputs[0],))
        elif op == "step":
            value = graph.call_method("select", (inputs[0], 1, layer["index"]))
        elif op == "multiply":
            value = graph.call_function(_multiplied, tuple(inputs))
        elif op == "to_sequence":
            value = graph.call_function(_sequence, tuple(inputs))
        else:
            inplace = tuned and is_free(source)
            value = inputs[0]
            padding, module = _layer(layer, shapes[source], supplied, inplace)
            if padding is not None:
                modules[name + "_padding"] = padding
                value = graph.call_module(name + "_padding", (value,))
            modules[name] = module
            value = graph.call_module(name, (value,))
        value.meta["layer"] = name
        values[name] = value
    graph.output(values[network.output])
    return torch.fx.GraphModule(modules, graph)


def _free(op: str) -> bool:
    """Whether the gradient of such a layer does without its output."""
    return op in ("conv", "dense", "batch_norm", "add", "concat", "layer_scale")


def _layer(layer: Layer, shape: Any, supplied: Any, inplace: Any) -> Any:
    """One layer as a module, and the module that pads before it or None."""
    op = layer["op"]
    if op == "conv":
        top, bottom, left, right = layer["padding"]
        even = top == bottom and left == right
        module = nn.Conv2d(
            shape[-1], layer["filters"], layer["kernel"], layer["stride"],
            (top, left) if even else 0, layer["dilation"], layer["groups"], layer["bias"],
        )  # fmt: skip
        return None if even else nn.ZeroPad2d((left, right, top, bottom)), module
    if op in ("max_pool", "avg_pool"):
        return _pool(layer, shape)
    if op == "dense":
        return None, nn.Linear(shape[-1], layer["units"], layer["bias"])
    if op == "up_conv":
        scale = layer["scale"]
        return None, nn.ConvTranspose2d(shape[-1], layer["filters"], scale, scale)
    if op == "batch_norm":
        return None, nn.BatchNorm2d(shape[-1], layer["epsilon"], 1 - layer["momentum"])
    if op == "lrn":
        settings = layer["size"], layer["alpha"], layer["beta"], layer["k"]
        return None, nn.LocalResponseNorm(*settings)
    if op in ("relu", "relu6"):
        return None, (nn.ReLU if op == "relu" else nn.ReLU6)(inplace)
    if op in DROPPED:
        return None, (Masked if supplied else DROPPED[op])(layer["rate"])
    if op in PLAIN:
        return None, PLAIN[op]()
    if op in LEARNED:
        return None, LEARNED[op](layer, shape)
    raise NotImplementedError("PyTorch's adapter has no layer " + op)


def _pool(layer: Layer, shape: Any) -> Any:
    """A pooling layer; PyTorch's ceiling mode is up to a stride more at the bottom and right."""
    top, bottom, left, right = layer["padding"]
    size, stride = layer["size"], layer["stride"]
    ceil = (bottom, right) != (top, left)
    native = top == left and 2 * top <= size
    if native and ceil:
        out = [-((size - length - 2 * top) // stride) + 1 for length in shape[:2]]
        native = out == layer["shape"][:2]
    if layer["op"] == "avg_pool":
        if not native:
            return None, Average((left, right, top, bottom), size, stride)
        return None, nn.AvgPool2d(size, stride, top, ceil, count_include_pad=False)
    if native:
        return None, nn.MaxPool2d(size, stride, top, ceil_mode=ceil)
    return nn.ConstantPad2d((left, right, top, bottom), float("-inf")), nn.MaxPool2d(size, stride)
