"""MXNet: the graph and its loss as one Gluon HybridBlock, updated by a Gluon Trainer."""

import ctypes
import warnings

import numpy as np

warnings.filterwarnings("ignore", category=DeprecationWarning)

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

MODES = ("static", "hybrid", "imperative")
RECORD_FORMAT = "recordio"


class Network(nn.HybridBlock):
    """The layers of the graph; images are (batch, channels, height, width)."""

    def __init__(self, network):
        super().__init__()
        self.layers, self.output = network["layers"], network["output"]
        self.blocks = {}
        shapes = {"input": network["input"]}
        shapes.update({layer["name"]: layer["shape"] for layer in self.layers})
        for layer in self.layers:
            block = _block(layer, shapes[layer["inputs"][0]][-1])
            self.blocks[layer["name"]] = block
            self.register_child(block)

    def hybrid_forward(self, F, x):
        values = {"input": x}
        for layer in self.layers:
            values[layer["name"]] = self.blocks[layer["name"]](values[layer["inputs"][0]])
        return values[self.output]


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
        self.network = Network(self.spec["network"])
        self.training = Training(self.network)
        self.training.initialize(mx.init.Zero(), ctx=self.context)
        self.parameters = {
            name + "." + kind: getattr(block, kind)
            for name, block in self.network.blocks.items()
            for kind in ("weight", "bias")
            if hasattr(block, kind)
        }
        for name, parameter in self.parameters.items():
            parameter.set_data(nd.array(weights[name], ctx=self.context))
        static = self.spec["execution"]["mode"] == "static"
        if self.spec["execution"]["mode"] != "imperative":
            self.training.hybridize(static_alloc=static, static_shape=static)
        optimizer = self.spec["optimizer"]
        settings = {
            "learning_rate": optimizer["learning_rate"],
            "momentum": optimizer["momentum"],
            "wd": optimizer["weight_decay"],
        }
        trained = self.training.collect_params()
        self.trainer = gluon.Trainer(trained, "sgd", settings, kvstore=None)

    def load(self, images, labels):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.images = nd.array(images, ctx=self.context)
        self.labels = nd.array(labels, ctx=self.context)

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
        return losses

    def losses(self, handle):
        return nd.concat(*handle, dim=0).asnumpy()

    def synchronize(self):
        nd.waitall()

    def logits(self, images):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return self.network(nd.array(images, ctx=self.context)).asnumpy()

    def weights(self):
        return {name: p.data(self.context).asnumpy() for name, p in self.parameters.items()}

    def settings(self):
        optimizer = self.trainer.optimizer
        types = {np.dtype(p.dtype) for p in self.parameters.values()}
        decays = {optimizer._get_wd(i) for i in range(len(self.parameters))}
        return {
            "learning_rate": self.trainer.learning_rate,
            "momentum": optimizer.momentum,
            "weight_decay": decays.pop() if len(decays) == 1 else sorted(decays),
            "batch_size": self.last.shape[0],
            # The OpenMP library that MXNet's operators run on, asked itself.
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "precision": "fp32" if types == {np.dtype("float32")} else str(types),
            "device": self.last.context.device_type,
            "mode": self._mode(),
            "parameters": sum(int(np.prod(p.shape)) for p in self.parameters.values()),
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


def _block(layer, features):
    """One layer of the graph as a Gluon block; `features` are its input's channels."""
    op = layer["op"]
    if op == "conv":
        return nn.Conv2D(
            layer["filters"], layer["kernel"], layer["stride"], layer["padding"],
            in_channels=features,
        )  # fmt: skip
    if op == "dense":
        return nn.Dense(layer["units"], in_units=features)
    if op == "max_pool":
        return nn.MaxPool2D(layer["size"], layer["stride"])
    if op == "relu":
        return nn.Activation("relu")
    if op == "flatten":
        return nn.Flatten()
    raise NotImplementedError("MXNet's adapter has no layer " + op)
