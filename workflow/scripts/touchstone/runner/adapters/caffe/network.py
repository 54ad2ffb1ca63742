"""The graph of a network in the operations of the framework."""

import collections
import json
from typing import Any

import caffe
import numpy as np
from caffe.proto import caffe_pb2

from touchstone.schema.spec import Layer, Network

FIRST_READ_AFTERWARDS = ("lrn", "sigmoid", "flatten", "global_avg_pool")
"""Layers whose result nothing may overwrite: the first two need it for their gradient, that of the
others shares the memory of what they flatten."""


WITHOUT = {
    "gelu": "Caffe has no error function, as gelu needs",
    "attention": "Caffe multiplies no two inputs as matrices, as attention does",
}
"""Layers that cannot be made of Caffe's own, and why."""


class BatchNormalization(caffe.Layer):
    """What Caffe's BatchNorm is in training, with its three arrays (docs/parity.md)."""

    def setup(self, bottom: Any, top: Any) -> None:
        self.epsilon, self.momentum = json.loads(self.param_str)
        for size in (bottom[0].channels, bottom[0].channels, 1):
            self.blobs.add_blob(size)

    def reshape(self, bottom: Any, top: Any) -> None:
        top[0].reshape(*bottom[0].shape)
        planes = (bottom[0].num, bottom[0].channels, bottom[0].height * bottom[0].width)
        self.normal, self.squares = (np.empty(planes, np.float32) for _ in range(2))
        self.count = planes[0] * planes[2]

    def forward(self, bottom: Any, top: Any) -> None:
        data = bottom[0].data.reshape(self.normal.shape)
        mean = self._means(data)
        np.subtract(data, mean[:, None], out=self.normal)
        variance = self._means(np.multiply(self.normal, self.normal, out=self.squares))
        self.scale = 1 / np.sqrt(variance + np.float32(self.epsilon))
        self.normal *= self.scale[:, None]
        top[0].data[...] = self.normal.reshape(top[0].data.shape)
        unbiased = variance * np.float32(self.count / (self.count - 1.0))
        for blob, value in zip(self.blobs, (mean, unbiased, 1)):
            blob.data[...] = np.float32(self.momentum) * blob.data + value

    def backward(self, top: Any, propagate_down: Any, bottom: Any) -> None:
        gradient = top[0].diff.reshape(self.normal.shape)
        np.multiply(gradient, self.normal, out=self.squares)
        along, mean = self._means(self.squares), self._means(gradient)
        np.multiply(self.normal, along[:, None], out=self.squares)
        np.subtract(gradient, self.squares, out=self.squares)
        self.squares -= mean[:, None]
        self.squares *= self.scale[:, None]
        bottom[0].diff[...] = self.squares.reshape(bottom[0].diff.shape)

    def _means(self, planes: Any) -> Any:
        """The mean of every channel."""
        return planes.sum(axis=2).sum(axis=0) / np.float32(self.count)


class Message:
    """A network as Caffe's message, layer by layer."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def add(self, kind: str, name: str, bottoms: Any, top: Any = None, **settings: Any) -> Any:
        """A layer; returns the name of its blob, `top`, or its own."""
        top = top or name
        self.message.layer.add(type=kind, name=name, bottom=bottoms, top=[top], **settings)
        return top

    def given(self, name: str, shape: Any) -> Any:
        """An input of that shape."""
        return self.add("Input", name, [], input_param=dict(shape=[dict(dim=shape)]))


class Prototxt(Message):
    """A graph as Caffe's message, without loss.

    In training, dropout draws, or multiplies by inputs `NAME/mask` where masks are `supplied`;
    without, it is left out. ReLU, dropout and batch normalisation work in place where they can.
    """

    def __init__(
        self,
        network: Network,
        batch_size: int,
        training: bool = False,
        supplied: bool = False,
        spared: Any = (),
    ) -> None:
        super().__init__(caffe_pb2.NetParameter(name=network.name))
        self.batch_size, self.training, self.supplied = batch_size, training, supplied
        self.spared = spared
        self.frozen = {p.name for p in network.parameters if not p.trainable}
        layers = network.layers
        self.shapes = {layer["name"]: layer["shape"] for layer in layers}
        self.shapes["input"] = network.input
        self.ops = {layer["name"]: layer["op"] for layer in layers}
        self.uses = collections.Counter(source for layer in layers for source in layer["inputs"])
        missing = sorted(op for op in set(self.ops.values()) if not hasattr(self, "_" + op))
        for op, reason in WITHOUT.items():
            if op in missing:
                raise NotImplementedError(reason)
        if network.task:
            raise NotImplementedError("Caffe's adapter trains on one label of each example")
        if missing:
            raise NotImplementedError("Caffe's adapter has no layer " + ", ".join(missing))
        self.tops = {"input": self.given("data", self._planes(network.input))}
        for layer in layers:
            bottoms = [self.tops[source] for source in layer["inputs"]]
            self.tops[layer["name"]] = getattr(self, "_" + layer["op"])(layer, bottoms)

    def _planes(self, shape: Any) -> Any:
        """The shape of a batch as Caffe has it."""
        return [self.batch_size] + list(shape[2:]) + list(shape[:2])

    def _top(self, layer: Layer) -> Any:
        """The blob that the layer may write to: that of its source if nothing else reads it."""
        (source,) = layer["inputs"]
        free = source != "input" and self.ops[source] not in FIRST_READ_AFTERWARDS
        return self.tops[source] if free and self.uses[source] == 1 else layer["name"]

    def _rates(self, layer: Layer, *kinds: Any) -> Any:
        """What multiplies the rate and the decay of a layer's arrays."""
        trained = [layer["name"] + "." + kind not in self.frozen for kind in kinds]
        return [
            dict(lr_mult=float(own), decay_mult=float(own and kind not in self.spared))
            for kind, own in zip(kinds, trained)
        ]

    def _cut(self, name: str, source: Any, skipped: Any, size: Any, image_size: Any) -> Any:
        """`size` rows and columns of an image of `image_size`, after those that are skipped."""
        if tuple(size) == tuple(image_size):
            return source
        like = self.given(name + "/size", [1, 1] + list(size))
        return self.add(
            "Crop", name + "/cut", [source, like], crop_param=dict(axis=2, offset=skipped)
        )

    def _conv(self, layer: Layer, bottoms: Any) -> Any:
        name, stride = layer["name"], layer["stride"]
        height, width, _ = self.shapes[layer["inputs"][0]]
        pads, skipped, counts = [], [], []
        for i, length in enumerate((height, width)):
            before, after = layer["padding"][2 * i : 2 * i + 2]
            # Caffe pads evenly: it gets more, by whole strides, and what is too much is cut off.
            pad = before + -(-max(after - before, 0) // stride) * stride
            reach = (layer["kernel"][i] - 1) * layer["dilation"] + 1
            pads.append(pad)
            skipped.append((pad - before) // stride)
            counts.append((length + 2 * pad - reach) // stride + 1)
        kinds = ("weight", "bias") if layer["bias"] else ("weight",)
        self.add(
            "Convolution", name, bottoms, param=self._rates(layer, *kinds),
            convolution_param=dict(
                num_output=layer["filters"], kernel_h=layer["kernel"][0],
                kernel_w=layer["kernel"][1], stride=[stride], pad_h=pads[0], pad_w=pads[1],
                dilation=[layer["dilation"]], group=layer["groups"], bias_term=layer["bias"],
            ),
        )  # fmt: skip
        return self._cut(name, name, skipped, layer["shape"][:2], counts)

    def _dense(self, layer: Layer, bottoms: Any) -> Any:
        kinds = ("weight", "bias") if layer["bias"] else ("weight",)
        # Of a sequence every step by itself.
        axis = len(layer["shape"])
        settings = dict(num_output=layer["units"], bias_term=layer["bias"], axis=axis)
        return self.add(
            "InnerProduct", layer["name"], bottoms, param=self._rates(layer, *kinds),
            inner_product_param=settings,
        )  # fmt: skip

    def _batch_norm(self, layer: Layer, bottoms: Any) -> Any:
        name, top = layer["name"], self._top(layer)
        if self.training:
            settings = dict(module=__name__, layer=BatchNormalization.__name__)
            settings["param_str"] = json.dumps([layer["epsilon"], layer["momentum"]])
            untrained = [dict(lr_mult=0, decay_mult=0)] * 3
            self.add("Python", name, bottoms, top, param=untrained, python_param=settings)
        else:
            settings = dict(eps=layer["epsilon"])
            self.add("BatchNorm", name, bottoms, top, batch_norm_param=settings)
        return self.add(
            "Scale", name + "/scale", [top], top, param=self._rates(layer, "scale", "offset"),
            scale_param=dict(bias_term=True),
        )  # fmt: skip

    def _lrn(self, layer: Layer, bottoms: Any) -> Any:
        if layer["size"] % 2 == 0:
            raise NotImplementedError("Caffe normalises over odd numbers of channels only")
        settings = dict(local_size=layer["size"], alpha=layer["alpha"], beta=layer["beta"])
        settings["k"] = layer["k"]
        return self.add("LRN", layer["name"], bottoms, lrn_param=settings)

    def _max_pool(self, layer: Layer, bottoms: Any) -> Any:
        return self._pool("MAX", layer, bottoms)

    def _avg_pool(self, layer: Layer, bottoms: Any) -> Any:
        pooled = self._pool("AVE", layer, bottoms)
        if np.all(_share(layer, self.shapes[layer["inputs"][0]]) == 1):
            return pooled
        return self.add(
            "Scale", layer["name"] + "/share", [pooled], param=[dict(lr_mult=0, decay_mult=0)],
            scale_param=dict(axis=2, num_axes=2),
        )  # fmt: skip

    def _pool(self, kind: str, layer: Layer, bottoms: Any) -> Any:
        name, size, stride = layer["name"], layer["size"], layer["stride"]
        source, image = bottoms[0], list(self.shapes[layer["inputs"][0]][:2])
        if stride > size:
            # Caffe may begin a window after the last pixel: it gets no more than windows see.
            if any(layer["padding"]):
                raise NotImplementedError("Caffe's adapter pads no windows with gaps between")
            seen = [(out - 1) * stride + size for out in layer["shape"][:2]]
            source = self._cut(name, source, [0, 0], seen, image)
            image = seen
        places = [_windows(layer, i, length) for i, length in enumerate(image)]
        pads, skipped, counts = zip(*places)
        settings = dict(pool=kind, kernel_size=size, stride=stride, pad_h=pads[0], pad_w=pads[1])
        self.add("Pooling", name + "/all", [source], pooling_param=settings)
        return self._cut(name, name + "/all", skipped, layer["shape"][:2], counts)

    def _global_avg_pool(self, layer: Layer, bottoms: Any) -> Any:
        settings = dict(pool="AVE", global_pooling=True)
        mean = self.add("Pooling", layer["name"] + "/mean", bottoms, pooling_param=settings)
        return self.add("Flatten", layer["name"], [mean])

    def _relu(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("ReLU", layer["name"], bottoms, self._top(layer))

    def _relu6(self, layer: Layer, bottoms: Any) -> Any:
        """max(0, x) - max(0, x - 6)."""
        name = layer["name"]
        less = self.add("Power", name + "/less", bottoms, power_param=dict(shift=-6.0))
        beyond = self.add("ReLU", name + "/beyond", [less], less)
        rectified = self.add("ReLU", name + "/all", bottoms)
        difference = dict(operation="SUM", coeff=[1.0, -1.0])
        return self.add("Eltwise", name, [rectified, beyond], eltwise_param=difference)

    def _sigmoid(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("Sigmoid", layer["name"], bottoms)

    def _tanh(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("TanH", layer["name"], bottoms)

    def _silu(self, layer: Layer, bottoms: Any) -> Any:
        gate = self.add("Sigmoid", layer["name"] + "/gate", bottoms)
        product = dict(operation="PROD")
        return self.add("Eltwise", layer["name"], bottoms + [gate], eltwise_param=product)

    def _multiply(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("Scale", layer["name"], bottoms, scale_param=dict(axis=0))

    def _dropout(self, layer: Layer, bottoms: Any) -> Any:
        if not self.training:
            return bottoms[0]
        if not self.supplied:
            settings = dict(dropout_ratio=layer["rate"])
            return self.add(
                "Dropout", layer["name"], bottoms, self._top(layer), dropout_param=settings
            )
        mask = self.given(layer["name"] + "/mask", self._planes(layer["shape"]))
        settings = dict(operation="PROD")
        return self.add("Eltwise", layer["name"], bottoms + [mask], eltwise_param=settings)

    def _stochastic_depth(self, layer: Layer, bottoms: Any) -> Any:
        if not self.training:
            return bottoms[0]
        name, size = layer["name"], [self.batch_size]
        if self.supplied:
            mask = self.given(name + "/mask", size)
        else:  # Caffe draws for each value: for one of each example
            filler = dict(type="constant", value=1.0)
            ones = dict(shape=[dict(dim=size)], data_filler=[filler])
            ones = self.add("DummyData", name + "/ones", [], dummy_data_param=ones)
            rate = dict(dropout_ratio=layer["rate"])
            mask = self.add("Dropout", name + "/mask", [ones], dropout_param=rate)
        return self.add("Scale", name, bottoms + [mask], scale_param=dict(axis=0))

    def _add(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("Eltwise", layer["name"], bottoms)

    def _concat(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("Concat", layer["name"], bottoms)

    def _flatten(self, layer: Layer, bottoms: Any) -> Any:
        return self.add("Flatten", layer["name"], bottoms)

    def _embedding(self, layer: Layer, bottoms: Any) -> Any:
        name = layer["name"]
        settings = dict(input_dim=layer["vocabulary"], num_output=layer["width"], bias_term=False)
        rates = self._rates(layer, "weight")
        rows = self.add("Embed", name, bottoms, name + "/rows", param=rates, embed_param=settings)
        return self._reshaped(layer, rows)

    def _reshaped(self, layer: Layer, bottom: Any) -> Any:
        """The blob with the shape of the layer's output."""
        settings = dict(shape=dict(dim=self._planes(layer["shape"])))
        return self.add(
            "Reshape", layer["name"] + "/shaped", [bottom], layer["name"], reshape_param=settings
        )

    def _lstm(self, layer: Layer, bottoms: Any) -> Any:
        name, units, batch = layer["name"], layer["units"], self.batch_size
        steps, _ = self.shapes[layer["inputs"][0]]
        by_step = dict(order=[1, 0, 2])
        given = self.add("Permute", name + "/by step", bottoms, permute_param=by_step)
        goes_on = self.given(name + "/goes on", [steps, batch])
        states = self.add(
            "LSTM", name, [given, goes_on], name + "/states",
            param=self._rates(layer, "weight", "bias", "recurrent"),
            recurrent_param=dict(num_output=units),
        )  # fmt: skip
        if layer["sequence"]:
            return self.add("Permute", name + "/sequence", [states], name, permute_param=by_step)
        like = self.given(name + "/size", [1, batch, units])
        settings = dict(axis=0, offset=[steps - 1, 0, 0])
        last = self.add("Crop", name + "/last", [states, like], crop_param=settings)
        return self._reshaped(layer, last)


def training_network(network: Network, batch_size: int, supplied: Any, spared: Any) -> Any:
    """The message of a graph with its loss, the mean cross-entropy of a batch."""
    net = Prototxt(network, batch_size, True, supplied, spared)
    net.given("label", [batch_size])
    net.add("SoftmaxWithLoss", "loss", [net.tops[network.output], "label"])
    return net.message


def _windows(layer: Layer, axis: Any, length: Any) -> Any:
    """How Caffe makes the windows of a pooling layer along an axis.

    Returns the padding that it gets on both sides, how many windows are too many at the
    beginning, and how many it makes (Caffe, src/caffe/layers/pooling_layer.cpp: as many as
    cover the image and its padding, that begin in the image or the padding before it).
    """
    size, stride = layer["size"], layer["stride"]
    before, out = layer["padding"][2 * axis], layer["shape"][axis]
    for pad in range(before, size, stride):
        count = -(-(length + 2 * pad - size) // stride) + 1
        if pad and (count - 1) * stride >= length + pad:
            count -= 1
        if count - (pad - before) // stride >= out:
            return pad, (pad - before) // stride, count
    raise NotImplementedError(
        "Caffe pads a window by less than its size: {} cannot be done".format(layer["name"])
    )


def _share(layer: Layer, image: Any) -> Any:
    """What the averages of Caffe, which count padding, are multiplied by: (height, width)."""
    sides = []
    for axis, length in enumerate(image[:2]):
        pad, skipped, _ = _windows(layer, axis, length)
        begin = (skipped + np.arange(layer["shape"][axis])) * layer["stride"] - pad
        end = np.minimum(begin + layer["size"], length + pad)
        sides.append((end - begin) / (np.minimum(end, length) - np.maximum(begin, 0)))
    return sides[0][:, None] * sides[1]


def shares_of(network: Network) -> Any:
    """By layer, what corrects the averages that count padding."""
    shapes = {layer["name"]: layer["shape"] for layer in network.layers}
    shapes["input"] = network.input
    shares = {}
    for layer in network.layers:
        if layer["op"] == "avg_pool" and layer["stride"] <= layer["size"]:
            share = _share(layer, shapes[layer["inputs"][0]])
            if np.any(share != 1):
                shares[layer["name"]] = share
    return shares
