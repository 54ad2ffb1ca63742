"""The losses of a run from its `spec.json` and its data: layers, gradients and SGD in NumPy.

Weights are float32 as the spec says, all else is computed in double precision. Images are arrays
of (examples, channels, rows, columns).
"""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

MAGIC = 0xCED7230A


def read_recordio(stem, count):
    """Pixels, uint8 of (count, rows, columns), and labels of grey BMP images in RecordIO.

    A record is a magic number, a length, a header with the label, and the image.
    """
    records = Path(f"{stem}.rec").read_bytes()
    offsets = [int(line.split()[1]) for line in Path(f"{stem}.idx").read_text().splitlines()]
    assert len(offsets) == count
    images, labels = [], []
    for offset in offsets:
        magic, length, _, label = struct.unpack_from("<IIIf", records, offset)
        assert magic == MAGIC and length < 2**29, "a record in parts"
        image = records[offset + 32 : offset + 8 + length]
        (begin,) = struct.unpack_from("<I", image, 10)
        columns, rows = struct.unpack_from("<ii", image, 18)
        stride = -(-columns // 4) * 4
        pixels = np.frombuffer(image, np.uint8, rows * stride, begin).reshape(rows, stride)
        images.append(pixels[::-1, :columns])  # the bottom row is the first
        labels.append(int(label))
    return np.stack(images), np.array(labels)


def first_weights(parameters, seed):
    """The arrays that training starts from; each has a stream of its own."""
    found = {}
    for one in parameters:
        random = np.random.RandomState([seed, zlib.crc32(one["name"].encode())])
        deviation = {
            "he_normal": np.sqrt(2 / one["fan_in"]),
            "small_normal": 0.1 / np.sqrt(one["fan_in"]),
            "zeros": 0.0,
        }[one["init"]]
        drawn = (random.standard_normal(one["shape"]) * deviation).astype(np.float32)
        found[one["name"]] = drawn.astype(np.float64)
    return found


def batches(seed, examples, size, steps, keep=False):
    """The examples of each step: epochs in an order of their own, without the partial batch unless
    that is kept."""
    found, epoch = [], 0
    while len(found) < steps:
        order = np.random.RandomState([seed, epoch]).permutation(examples)
        found += [order[first : first + size] for first in range(0, examples, size)]
        if len(found[-1]) < size and not keep:
            found.pop()
        epoch += 1
    return found[:steps]


def convolve(x, weight):
    """Products of windows of x with each filter; windows come back for the gradient."""
    windows = sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    products = np.tensordot(windows, weight, axes=([1, 4, 5], [1, 2, 3]))
    return products.transpose(0, 3, 1, 2), windows


class Layers:
    """The layers of a spec, computed forward and backward one after the other."""

    def __init__(self, layers, weights):
        self.layers, self.weights, self.kept = layers, weights, {}

    def forward(self, x):
        for layer in self.layers:
            name, op = layer["name"], layer["op"]
            if op == "conv":
                top, left, bottom, right = (layer["padding"][i] for i in (0, 1, 2, 3))
                x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
                out, self.kept[name] = convolve(x, self.weights[f"{name}.weight"])
                x = out + self.weights[f"{name}.bias"][None, :, None, None]
            elif op == "relu":
                self.kept[name] = x > 0
                x = np.maximum(x, 0)
            elif op == "max_pool":
                examples, channels, rows, columns = x.shape
                parts = x.reshape(examples, channels, rows // 2, 2, columns // 2, 2)
                parts = parts.transpose(0, 1, 2, 4, 3, 5).reshape(*parts.shape[:3], columns // 2, 4)
                self.kept[name] = parts.argmax(-1)
                x = parts.max(-1)
            elif op == "flatten":
                self.kept[name] = x.shape
                x = x.reshape(len(x), -1)
            elif op == "dense":
                self.kept[name] = x
                x = x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]
            else:
                raise ValueError(f"no layer {op}")
        return x

    def backward(self, slope):
        """The gradients by parameter, from that by the output."""
        found = {}
        for layer in reversed(self.layers):
            name, op, kept = layer["name"], layer["op"], self.kept[layer["name"]]
            if op == "conv":
                weight = self.weights[f"{name}.weight"]
                found[f"{name}.weight"] = np.tensordot(slope, kept, axes=([0, 2, 3], [0, 2, 3]))
                found[f"{name}.bias"] = slope.sum((0, 2, 3))
                if layer is self.layers[0]:
                    continue  # nobody needs the gradient by the images
                rows, columns = weight.shape[2:]
                around = ((0, 0), (0, 0), (rows - 1,) * 2, (columns - 1,) * 2)
                turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
                slope, _ = convolve(np.pad(slope, around), turned)
                top, left, bottom, right = layer["padding"]
                height, width = slope.shape[2:]
                slope = slope[:, :, top : height - bottom, left : width - right]
            elif op == "relu":
                slope = slope * kept
            elif op == "max_pool":
                parts = np.zeros((*slope.shape, 4))
                np.put_along_axis(parts, kept[..., None], slope[..., None], -1)
                examples, channels, rows, columns = slope.shape
                parts = parts.reshape(*slope.shape, 2, 2).transpose(0, 1, 2, 4, 3, 5)
                slope = parts.reshape(examples, channels, 2 * rows, 2 * columns)
            elif op == "flatten":
                slope = slope.reshape(kept)
            else:
                found[f"{name}.weight"] = slope.T @ kept
                found[f"{name}.bias"] = slope.sum(0)
                slope = slope @ self.weights[f"{name}.weight"]
        return found


def losses(spec, images, labels, steps):
    """The training losses of the first steps: mean cross-entropy before each update.

    Args:
        spec: the object in spec.json, of SGD with a constant rate.
        images: pixels, uint8 of (examples, rows, columns).
    """
    data, optimizer = spec["data"], spec["optimizer"]
    assert optimizer["name"] == "sgd" and spec["schedule"]["name"] == "constant"
    own = optimizer["settings"]
    assert not (own["nesterov"] or optimizer["decoupled"] or spec["augmentation"])
    x = (images / data["pixel_maximum"] - data["mean"][0]) / data["std"][0]
    weights = first_weights(spec["network"]["parameters"], spec["seed"])
    velocity = {name: np.zeros_like(weight) for name, weight in weights.items()}
    layers, found = Layers(spec["network"]["layers"], weights), []
    size = spec["factors"]["batch_size"]
    keep = spec["phases"]["last_batch"] == "keep"
    for batch in batches(spec["seed"], data["train_examples"], size, steps, keep):
        logits = layers.forward(x[batch][:, None])
        logits -= logits.max(axis=1, keepdims=True)
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rows = np.arange(len(batch))
        found.append(float(-np.log(chances[rows, labels[batch]]).mean()))
        chances[rows, labels[batch]] -= 1
        for name, slope in layers.backward(chances / len(batch)).items():
            spared = name.endswith(".bias") and "bias" in optimizer["spared"]
            decay = 0 if spared else optimizer["weight_decay"]
            step = slope + decay * weights[name]
            velocity[name] = own["momentum"] * velocity[name] + step
            weights[name] -= optimizer["learning_rate"] * velocity[name]
    return found
