"""MXNet: the graph and its loss as one Gluon HybridBlock, updated by a Gluon Trainer."""

import contextlib
import ctypes
import warnings

import numpy as np

warnings.filterwarnings("ignore", category=DeprecationWarning)

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

MODES = ("static", "hybrid", "imperative")
RECORD_FORMAT = "recordio"


NATIVE = {
    "weight": "weight",
    "bias": "bias",
    "scale": "gamma",
    "offset": "beta",
    "mean": "running_mean",
    "variance": "running_var",
}
"""What MXNet's layers call an array of the graph."""


class Network(nn.HybridBlock):
    """The layers of the graph; images are (batch, channels, height, width)."""

    def __init__(self, network, batch_size, supplied, precision):
        super().__init__()
        self.precision = precision
        self.layers, self.output = network["layers"], network["output"]
        self.blocks = {}
        shapes = {"input": network["input"]}
        shapes.update({layer["name"]: layer["shape"] for layer in self.layers})
        for layer in self.layers:
            if layer["op"] == "dropout" and supplied:
                shape = layer["shape"][2:] + layer["shape"][:2]
                mask = self.params.get(
                    layer["name"] + "_mask",
                    shape=[batch_size] + shape,
                    init="ones",
                    grad_req="null",
                )
                setattr(self, layer["name"], mask)
                continue
            block = _block(layer, shapes[layer["inputs"][0]][-1])
            if block is not None:
                self.blocks[layer["name"]] = block
                self.register_child(block)

    def hybrid_forward(self, F, x, **masks):
        values = {"input": x}
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            name, op, value = layer["name"], layer["op"], inputs[0]
            if op == "add":
                value = F.add_n(*inputs)
            elif op == "concat":
                value = F.concat(*inputs, dim=1)
            elif op == "lrn":
                value = self._lrn(F, value, layer)
            elif name in masks:
                value = value * masks[name]
            elif op == "avg_pool" and not _even(layer):
                ones = self.blocks[name](_padded(F, F.ones_like(value), layer))
                value = self.blocks[name](_padded(F, value, layer)) / ones
            else:
                value = self.blocks[name](_padded(F, value, layer))
            values[name] = value
        return values[self.output]

    def _lrn(self, F, x, layer):
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

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, images, labels):
        return self.loss(self.network(images), labels).mean()


class Adapter:
    """See runtime.py."""

    def __init__(self, spec, threads):
        self.spec = spec
        gpu = spec["execution"]["device"] == "gpu"
        if gpu and not mx.context.num_gpus():
            raise NotImplementedError("MXNet sees no GPU")
        self.context = mx.gpu() if gpu else mx.cpu()
        self.dtype = {"fp32": "float32", "fp64": "float64"}[spec["execution"]["precision"]]

    def read(self, stem, shape):
        reader = mx.recordio.MXIndexedRecordIO(stem + ".idx", stem + ".rec", "r")
        colour = 1 if shape[2] == 3 else 0
        images, labels = [], []
        for key in reader.keys:
            header, image = mx.recordio.unpack_img(reader.read_idx(key), colour)
            images.append(image[:, :, ::-1] if colour else image[:, :, None])
            labels.append(int(header.label))
        reader.close()
        return np.stack(images), labels

    def build(self, weights):
        supplied = self.spec["execution"].get("dropout") == "supplied"
        batch_size = self.spec["factors"]["batch_size"]
        self.network = Network(
            self.spec["network"], batch_size, supplied, self.spec["execution"]["precision"]
        )
        self.training = Training(self.network)
        self.training.initialize(mx.init.Zero(), ctx=self.context)
        self.training.cast(self.dtype)
        self.parameters = {}
        for name in weights:
            layer, kind = name.split(".")
            self.parameters[name] = getattr(self.network.blocks[layer], NATIVE[kind])
        for name, parameter in self.parameters.items():
            parameter.set_data(nd.array(weights[name], ctx=self.context, dtype=self.dtype))
        self.trained = [p for p in self.parameters.values() if p.grad_req != "null"]
        shapes = {layer["name"]: layer["shape"] for layer in self.spec["network"]["layers"]}
        # Running variances: their start, and what makes a batch's biased variance unbiased.
        self.variances = [
            (
                layer,
                nd.array(weights[layer["name"] + ".variance"], ctx=self.context, dtype=self.dtype),
                _unbiased(batch_size * int(np.prod(shapes[layer["name"]][:2]))),
            )
            for layer in self.spec["network"]["layers"]
            if layer["op"] == "batch_norm"
        ]
        self.steps = 0
        static = self.spec["execution"]["mode"] == "static"
        if self.spec["execution"]["mode"] != "imperative":
            self.training.hybridize(static_alloc=static, static_shape=static)
        optimizer = self.spec["optimizer"]
        settings = {
            "learning_rate": optimizer["learning_rate"],
            "momentum": optimizer["momentum"],
            "wd": optimizer["weight_decay"],
        }
        self.trainer = gluon.Trainer(self.trained, "sgd", settings, kvstore=None)

    def load(self, images, labels):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.images = nd.array(images, ctx=self.context, dtype=self.dtype)
        self.labels = nd.array(labels, ctx=self.context, dtype=self.dtype)

    def train(self, indices):
        # One gathering per chunk: every operation costs MXNet's engine about 20 us.
        rows = nd.array(indices.ravel(), ctx=self.context, dtype="int32")
        images = nd.take(self.images, rows).reshape(indices.shape + self.images.shape[1:])
        labels = nd.take(self.labels, rows).reshape(indices.shape)
        losses = []
        for i in range(len(indices)):
            with autograd.record():
                loss = self.training(images[i], labels[i])
            loss.backward()
            self.trainer.step(1)  # the loss is a mean already
            losses.append(loss)
        self.last = images[0]
        self.steps += len(indices)
        return losses

    def losses(self, handle):
        return nd.concat(*handle, dim=0).asnumpy()

    def synchronize(self):
        nd.waitall()

    def logits(self, images):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        for mask in self.network._reg_params.values():
            mask.set_data(nd.ones(mask.shape, ctx=self.context, dtype=self.dtype))
        with self._unbiased_variances():
            images = nd.array(images, ctx=self.context, dtype=self.dtype)
            return self.network(images).asnumpy()

    @contextlib.contextmanager
    def _unbiased_variances(self):
        """The running variances as the graph defines them, put back afterwards.

        MXNet's kernel averages biased variances. After t steps with momentum m from a start
        v it holds m^t v + s, of which only s is to be multiplied by n / (n - 1).
        """
        # The kernel's backward pass writes the statistics unknown to MXNet's engine.
        nd.waitall()
        kept = []
        for layer, first, factor in self.variances:
            parameter = self.parameters[layer["name"] + ".variance"]
            data = parameter.data(self.context).copy()
            kept.append((parameter, data))
            start = first * layer["momentum"] ** self.steps
            parameter.set_data(start + (data - start) * factor)
        yield
        for parameter, data in kept:
            parameter.set_data(data)
        nd.waitall()

    def set_masks(self, masks):
        for name, mask in masks.items():
            mask = mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask
            self.network._reg_params[name].set_data(
                nd.array(mask, ctx=self.context, dtype=self.dtype)
            )

    def weights(self):
        with self._unbiased_variances():
            return {n: p.data(self.context).asnumpy() for n, p in self.parameters.items()}

    def velocities(self):
        # MXNet keeps -rate v, one state per trained parameter in the trainer's order; its
        # kernels take the rate in single precision.
        states = self.trainer._updaters[0].states
        rate = float(np.float32(self.trainer.learning_rate))
        places = {id(parameter): i for i, parameter in enumerate(self.trained)}
        return {
            name: -states[places[id(parameter)]].asnumpy() / rate
            for name, parameter in self.parameters.items()
            if id(parameter) in places
        }

    def settings(self):
        optimizer = self.trainer.optimizer
        types = {np.dtype(p.dtype) for p in self.parameters.values()}
        decays = {optimizer._get_wd(i) for i in range(len(self.trained))}
        return {
            "learning_rate": self.trainer.learning_rate,
            "momentum": optimizer.momentum,
            "weight_decay": decays.pop() if len(decays) == 1 else sorted(decays),
            "batch_size": self.last.shape[0],
            # The OpenMP library that MXNet's operators run on, asked itself.
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "precision": types.pop().name.replace("float", "fp") if len(types) == 1 else str(types),
            "device": self.last.context.device_type,
            "mode": self._mode(),
            "parameters": sum(int(np.prod(p.shape)) for p in self.trained),
        }

    def _mode(self):
        """How the block that was trained is run: as its cached graph was made."""
        if self.training._cached_op is None:
            return "imperative"
        return "static" if dict(self.training._flags).get("static_shape") else "hybrid"

    def software(self):
        features = mx.runtime.Features()
        return {
            "framework": "mxnet",
            "version": mx.__version__,
            "cuda": features.is_enabled("CUDA"),
            "onednn": features.is_enabled("MKLDNN"),
        }

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        text = str(error)
        return "out of memory" in text or "bad_alloc" in text


def _unbiased(count):
    """The unbiased variance of `count` values is the biased one times this."""
    return count / (count - 1.0)


def _padded(F, x, layer):
    """The images with the padding that MXNet's layers, which pad evenly, cannot express."""
    if "padding" not in layer or _even(layer):
        return x
    value = -3.4e38 if layer["op"] == "max_pool" else 0
    return F.pad(
        x, mode="constant", pad_width=(0, 0, 0, 0) + tuple(layer["padding"]), constant_value=value
    )


def _even(layer):
    top, bottom, left, right = layer["padding"]
    return top == bottom and left == right


def _block(layer, features):
    """One layer of the graph as a Gluon block, or None where it is an operator alone."""
    op = layer["op"]
    if op == "conv":
        top, _, left, _ = layer["padding"]
        return nn.Conv2D(
            layer["filters"], layer["kernel"], layer["stride"],
            (top, left) if _even(layer) else (0, 0), layer["dilation"], layer["groups"],
            use_bias=layer["bias"], in_channels=features,
        )  # fmt: skip
    if op == "dense":
        return nn.Dense(layer["units"], use_bias=layer["bias"], in_units=features)
    if op == "batch_norm":
        return nn.BatchNorm(
            momentum=layer["momentum"], epsilon=layer["epsilon"], in_channels=features
        )
    if op in ("max_pool", "avg_pool"):
        padding = (layer["padding"][0], layer["padding"][2]) if _even(layer) else (0, 0)
        if op == "max_pool":
            return nn.MaxPool2D(layer["size"], layer["stride"], padding)
        return nn.AvgPool2D(layer["size"], layer["stride"], padding, count_include_pad=False)
    if op == "global_avg_pool":
        block = nn.HybridSequential()
        block.add(nn.GlobalAvgPool2D(), nn.Flatten())
        return block
    if op == "relu":
        return nn.Activation("relu")
    if op == "dropout":
        return nn.Dropout(layer["rate"])
    if op == "flatten":
        return nn.Flatten()
    if op in ("add", "concat", "lrn"):
        return None
    raise NotImplementedError("MXNet's adapter has no layer " + op)
