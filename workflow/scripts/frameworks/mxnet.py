"""MXNet: the graph and its loss as one Gluon HybridBlock, updated by a Gluon Trainer."""

import contextlib
import ctypes
import os
import struct
import threading
import warnings

import numpy as np

warnings.filterwarnings("ignore", category=DeprecationWarning)

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.contrib import amp  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

MODES = ("static", "hybrid", "imperative")
WAITS = True
"""Its threads are those of OpenMP (libgomp)."""
RECORD_FORMAT = "recordio"
RELEASED = "2022-05"
REPLICAS = "devices"
NO_NODES = (
    "MXNet exchanges between machines through parameter servers (kvstore dist_sync), processes"
    " that are not started here"
)


DTYPES = {"fp32": "float32", "fp64": "float64", "bf16": "float32"}
"""What arrays are kept in."""

NATIVE = {
    "weight": "weight",
    "recurrent": "recurrent",
    "bias": "bias",
    "scale": "gamma",
    "offset": "beta",
    "mean": "running_mean",
    "variance": "running_var",
}
"""What MXNet's layers call an array of the graph."""

DEVIATIONS = {
    "batch_norm": "MXNet keeps the momentum and epsilon of batch normalisation in single "
    "precision, whatever the precision of the network",
}


COLOUR, GREY = 1 | 128, 0 | 128
"""How OpenCV decodes an image: with three channels or one, not turned by an EXIF tag."""
MAGIC = 0xCED7230A
"""What every record begins with (dmlc-core, include/dmlc/recordio.h)."""
HEAD = np.dtype(
    [
        ("magic", "<u4"), ("length", "<u4"), ("flag", "<u4"), ("label", "<f4"), ("ids", "<u8", 2),
        ("bm", "S2"), ("bytes", "<u4"), ("zero", "<u4"), ("offset", "<u4"), ("header", "<u4"),
        ("width", "<i4"), ("height", "<i4"), ("planes", "<u2"), ("bits", "<u2"),
        ("compression", "<u4"), ("rest", "V20"),
    ]
)  # fmt: skip
"""A record, its image header (python/mxnet/recordio.py), and the head of a BMP file."""


PIECE = 2**17
"""Numbers that are copied to or from MXNet at once. It copies more than 200,000 with OpenMP in the
calling thread (MXNET_CPU_PARALLEL_SIZE): a second team of threads beside that of its engine. Where
the threads of all teams outnumber the cores, libgomp lets waiting threads sleep at once, and every
parallel region of every operator then has to wake them (docs/measuring.md)."""
LACKING = {
    "tf32": "TF32 is arithmetic of NVIDIA's GPUs, which no CPU has",
    "fp16-amp": "MXNet has mixed precision in fp16 on GPUs alone, for which it has no build here",
}
"""Why MXNet cannot compute in a precision."""


def _to_numpy(array):
    """NumPy's array of MXNet's, copied in pieces."""
    flat = array.reshape((-1,))
    pieces = [flat[first : first + PIECE].asnumpy() for first in range(0, array.size, PIECE)]
    return np.concatenate(pieces).reshape(array.shape)


class Embedding(nn.HybridBlock):
    """The rows of the tokens, which come as images (batch, 1, steps, 1)."""

    def __init__(self, layer, shape, precision):
        super().__init__()
        shape = layer["vocabulary"], layer["width"]
        self.settings = dict(zip(("input_dim", "output_dim"), shape), dtype=DTYPES[precision])
        self.weight = self.params.get("weight", shape=shape)

    def hybrid_forward(self, F, x, weight):
        return F.Embedding(F.reshape(x, shape=(0, -1)), weight, **self.settings)


class Position(nn.HybridBlock):
    """A sequence plus an array of its shape."""

    def __init__(self, layer, shape, precision):
        super().__init__()
        self.weight = self.params.get("weight", shape=shape)

    def hybrid_forward(self, F, x, weight):
        return F.broadcast_add(x, F.expand_dims(weight, axis=0))


class Lstm(nn.HybridBlock):
    """MXNet's fused LSTM, of whose two biases the second stays 0: the graph has one."""

    def __init__(self, layer, shape, precision):
        super().__init__()
        units = layer["units"]
        self.units, self.sequence = units, layer["sequence"]
        self.weight = self.params.get("weight", shape=(4 * units, shape[-1]))
        self.recurrent = self.params.get("recurrent", shape=(4 * units, units))
        self.bias = self.params.get("bias", shape=(4 * units,))

    def hybrid_forward(self, F, x, weight, recurrent, bias):
        arrays = [weight, recurrent, bias, F.zeros_like(bias)]
        arrays = F.concat(*[F.reshape(array, shape=(-1,)) for array in arrays], dim=0)
        x = F.swapaxes(x, 0, 1)
        start = F.zeros_like(F.slice(x, begin=(0, None, 0), end=(1, None, 1)))
        start = F.broadcast_axis(start, axis=2, size=self.units)
        states = F.RNN(x, arrays, start, start, mode="lstm", state_size=self.units, num_layers=1)
        if self.sequence:
            return F.swapaxes(states, 0, 1)
        return F.reshape(F.slice_axis(states, axis=0, begin=-1, end=None), shape=(-3, 0))


def _layer_norm(layer, shape, precision):
    return nn.LayerNorm(epsilon=layer["epsilon"], in_channels=shape[-1])


TEXT = {"embedding": Embedding, "position": Position, "layer_norm": _layer_norm, "lstm": Lstm}
"""What makes the blocks of a sequence, of a layer of the graph, the shape that it is given and
the precision."""


def _attention(F, x, layer):
    """Self-attention of queries, keys and values that lie side by side."""
    (steps, width), heads = layer["shape"], layer["heads"]
    size = width // heads
    parts = F.transpose(F.reshape(x, shape=(0, 0, 3, heads, size)), axes=(2, 0, 3, 1, 4))
    parts = F.reshape(parts, shape=(3, -1, steps, size))
    q, k, v = F.split(parts, num_outputs=3, axis=0, squeeze_axis=True)
    products = F.batch_dot(q * size**-0.5, k, transpose_b=True)
    found = F.batch_dot(F.softmax(products), v)
    found = F.reshape(found, shape=(-1, heads, steps, size))
    return F.reshape(F.transpose(found, axes=(0, 2, 1, 3)), shape=(0, 0, -1))


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
            shape = shapes[layer["inputs"][0]]
            if layer["op"] in TEXT:
                block = TEXT[layer["op"]](layer, shape, precision)
            else:
                block = _block(layer, shape[-1])
            if block is not None:
                self.blocks[layer["name"]] = block
                self.register_child(block)

    def hybrid_forward(self, F, x, **masks):
        values = {"input": x}
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            name, op, value = layer["name"], layer["op"], inputs[0]
            if op == "add":
                value = F.elemwise_add(*inputs) if len(inputs) == 2 else F.add_n(*inputs)
            elif op == "concat":
                value = F.concat(*inputs, dim=1)
            elif op == "global_avg_pool":
                # The gradient of oneDNN's pooling has a layout of its own, with which batch
                # normalisation before it falls back to reference code: 40 times slower.
                value = F.mean(value, axis=(2, 3))
            elif op == "lrn":
                value = self._lrn(F, value, layer)
            elif op == "attention":
                value = _attention(F, value, layer)
            elif op == "mean_over_steps":
                value = F.mean(value, axis=1)
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

    DIFFERS = {
        "cpu": ("as many threads as cores; by itself MXNet takes half of the logical processors",),
    }

    def __init__(self, spec, threads):
        self.spec = spec
        gpu = spec["execution"]["device"] == "gpu"
        if gpu and not mx.context.num_gpus():
            raise NotImplementedError("MXNet sees no GPU")
        self.replicas = spec["execution"].get("replicas", 1)
        if gpu and mx.context.num_gpus() < self.replicas:
            message = "MXNet sees {} GPUs of the {} asked for"
            raise NotImplementedError(message.format(mx.context.num_gpus(), self.replicas))
        # One context for each replica: those of the CPU have a thread of MXNet's engine each.
        self.contexts = [(mx.gpu if gpu else mx.cpu)(i) for i in range(self.replicas)]
        self.context = self.contexts[0]
        precision = spec["execution"]["precision"]
        if precision in LACKING:
            raise NotImplementedError(LACKING[precision])
        if precision == "bf16" and not gpu and not _has_avx512():
            raise NotImplementedError("MXNet has bf16 only on processors with AVX-512")
        self.dtype = DTYPES[precision]
        self.mixed = precision == "bf16"
        if self.mixed:  # before there is a network, since it replaces the operators
            amp.init("bfloat16")

    def make_deterministic(self):
        if self.context.device_type == "cpu":
            raise NotImplementedError("MXNet can ask cuDNN alone for deterministic algorithms")
        mx.random.seed(self.spec["seed"])
        os.environ["MXNET_ENFORCE_DETERMINISM"] = "1"
        os.environ["MXNET_CUDNN_AUTOTUNE_DEFAULT"] = "0"

    def asked(self):
        convolves = any(layer["op"] == "conv" for layer in self.spec["network"]["layers"])
        return {"inter_op_threads": None, "layout": "NCHW" if convolves else ""}

    def array(self, values, dtype="float32", context=None):
        """MXNet's array of these values, copied in pieces."""
        whole = nd.empty(np.shape(values), context or self.context, dtype)
        flat, values = whole.reshape((-1,)), np.ravel(values)
        for first in range(0, values.size, PIECE):
            piece = values[first : first + PIECE]
            flat[first : first + piece.size]._sync_copyfrom(piece)
        return whole

    def read(self, stems, shape):
        cut = self.spec["data"]["encoding"] == "jpeg"
        found = [each for stem in stems for each in _read(stem, shape, cut=cut).values()]
        images, labels = zip(*found)
        return np.stack(images), labels

    def open(self, stems):
        channels, height, width = (self.spec["data"]["shape"][i] for i in (2, 0, 1))
        planes = np.ones((channels, height, width), np.float32)
        self.mean, self.std = (
            planes * np.float32(self.spec["data"][key])[:, None, None] for key in ("mean", "std")
        )
        if self.spec["data"]["encoding"] == "jpeg":
            self.pixels = self._photos
            return self._open_photos(stems)
        self.pixels = self._images
        return self._open_images(stems)

    def _open_photos(self, stems):
        self.shards = [
            mx.recordio.MXIndexedRecordIO(stem + ".idx", stem + ".rec", "r") for stem in stems
        ]
        self.ends = np.cumsum([len(shard.keys) for shard in self.shards])
        self.reading = threading.Lock()  # a reader has one place in its file
        return int(self.ends[-1])

    def _photos(self, batch):
        """Pixels (batch size, height, width, channels), red first, and labels of photos."""
        found = []
        for number in batch:
            shard = int(np.searchsorted(self.ends, number, "right"))
            first = self.ends[shard - 1] if shard else 0
            with self.reading:
                record = self.shards[shard].read_idx(int(number - first))
            found.append(_image(record, self.spec["data"]["shape"], cut=True))
        images, labels = zip(*found)
        if max(labels) >= self.spec["data"]["classes"]:
            raise ValueError("a photo has the label {}".format(max(labels)))
        return np.stack(images), labels

    def _open_images(self, stems):
        # MXNet's own iterator follows no permutation and miscounts where the batch size does
        # not divide the examples; its indexed reader costs more than twice as much CPU time.
        height, width, channels = self.spec["data"]["shape"]
        row = width * channels + -(width * channels) % 4
        palette = 1024 if channels == 1 else 0
        fields = [("head", HEAD), ("palette", "V%d" % palette), ("rows", "u1", (height, row))]
        self.record = np.dtype(fields)
        self.shards, self.joined, count = [], {}, 0
        for stem in stems:
            file, offsets, joined = self._checked(stem)
            self.shards.append((file, offsets))
            self.joined.update({count + number: found for number, found in joined.items()})
            count += len(offsets)
        self.ends = np.cumsum([len(offsets) for _, offsets in self.shards])
        return count

    def _checked(self, stem):
        """Bytes and places of a file of BMP images, and those that are stored in parts.

        Raises ValueError if a record is not what the spec says.
        """
        data, path = self.spec["data"], stem + ".rec"
        height, width, channels = data["shape"]
        file, offsets = _mapped(path, stem + ".idx", self.record.itemsize)
        heads = _structures(file, offsets, HEAD)
        offset = self.record.fields["rows"][1] - HEAD.fields["bm"][1]
        expected = {
            "magic": MAGIC, "flag": 0, "bm": b"BM", "offset": offset, "width": width,
            "height": height, "bits": 8 * channels, "compression": 0,
        }  # fmt: skip
        usual = np.all([heads[key] == value for key, value in expected.items()], axis=0)
        _require(path, "is no uncompressed BMP image of {}".format(data["shape"]), usual)
        labels = heads["label"]
        known = (labels >= 0) & (labels < data["classes"]) & (labels == np.floor(labels))
        _require(path, "has a label outside the {} classes".format(data["classes"]), known)
        # A record whose image holds the magic number at a multiple of 4 bytes is stored in
        # parts: perhaps one of millions, which MXNet joins here.
        whole = heads["length"] == self.record.itemsize - 8
        joined = heads["length"] >> 29 != 0
        _require(path, "has another length than its image", whole | joined)
        parts = _read(stem, data["shape"], np.flatnonzero(joined)) if joined.any() else {}
        return file, offsets, parts

    def _records(self, batch):
        """The records of these numbers, as structures."""
        shards = np.searchsorted(self.ends, batch, "right")
        records = np.empty(len(batch), self.record)
        for shard in np.unique(shards):
            file, offsets = self.shards[shard]
            there = shards == shard
            places = offsets[batch[there] - (self.ends[shard] - len(offsets))]
            if there.all():
                return _structures(file, places, self.record)
            records[there] = _structures(file, places, self.record)
        return records

    def _images(self, batch):
        """Pixels (batch size, height, width, channels), red first, and labels of BMP images."""
        height, width, channels = self.spec["data"]["shape"]
        records = self._records(batch)
        rows = records["rows"][:, ::-1, : width * channels]  # the bottom row is first
        images = rows.reshape(-1, height, width, channels)[..., ::-1]  # blue is first
        for number, (pixels, _) in self.joined.items():
            if (batch == number).any():
                images = np.where((batch == number)[:, None, None, None], pixels, images)
        return images, records["head"]["label"]

    def fetch(self, indices):
        images = np.empty(indices.shape + self.mean.shape, np.float32)
        labels = np.empty(indices.shape, np.float32)
        for batch, image, label in zip(indices, images, labels):
            pixels, label[:] = self.pixels(batch)
            image[:] = pixels.transpose(0, 3, 1, 2)
            image /= np.float32(self.spec["data"].get("white", 255))
            image -= self.mean
            image /= self.std
        return images, labels

    def build(self, weights):
        supplied = self.spec["execution"].get("dropout") == "supplied"
        batch_size = self.spec["factors"]["batch_size"]
        self.network = Network(
            self.spec["network"], batch_size, supplied, self.spec["execution"]["precision"]
        )
        self.training = Training(self.network)
        self.training.initialize(mx.init.Zero(), ctx=self.contexts)
        self.training.cast(self.dtype)
        self.parameters = {}
        for name in weights:
            layer, kind = name.split(".")
            self.parameters[name] = getattr(self.network.blocks[layer], NATIVE[kind])
        for name, parameter in self.parameters.items():
            parameter.set_data(self.array(weights[name], self.dtype))
        self.trained, self.penalised = {}, []
        for told in self.spec["network"]["parameters"]:
            parameter = self.parameters[told["name"]]
            if not told["trainable"]:
                parameter.grad_req = "null"
                continue
            self.trained[told["name"]] = parameter
            if told["l1"] or told["l2"]:
                self.penalised.append((parameter, told["l1"], told["l2"]))
        shapes = {layer["name"]: layer["shape"] for layer in self.spec["network"]["layers"]}
        # Running variances: their start, and what makes a batch's biased variance unbiased.
        self.variances = [
            (
                layer,
                self.array(weights[layer["name"] + ".variance"], self.dtype),
                _unbiased(batch_size // self.replicas * int(np.prod(shapes[layer["name"]][:2]))),
            )
            for layer in self.spec["network"]["layers"]
            if layer["op"] == "batch_norm"
        ]
        self.steps = 0
        static = self.spec["execution"]["mode"] == "static"
        if self.spec["execution"]["mode"] != "imperative":
            self.training.hybridize(static_alloc=static, static_shape=static)
        self._optimize()

    def _optimize(self):
        asked = self.spec["optimizer"]
        own = {"learning_rate": asked["learning_rate"], "wd": asked["weight_decay"]}
        keys = ("beta1", "beta2", "epsilon") if asked["name"] == "adam" else ("momentum",)
        own.update({key: asked[key] for key in keys})
        decayed = {n: p for n, p in self.trained.items() if n.split(".")[1] not in asked["spared"]}
        for name, parameter in self.trained.items():
            parameter.wd_mult = float(name in decayed and not asked["decoupled"])
        # MXNet's optimisers know coupled decay alone: else the weights shrink before their step.
        self.shrunk = []
        if asked["decoupled"] and asked["weight_decay"]:
            self.shrunk = list(decayed.values())
        name = "nag" if asked.get("nesterov") else asked["name"]
        kind = "device" if self.context.device_type == "gpu" else "local"
        self.trainer = gluon.Trainer(
            list(self.trained.values()), name, own, kvstore=kind if self.replicas > 1 else None,
            update_on_kvstore=False,
        )  # fmt: skip

    def load(self, images, labels):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.sets = {
            context: [self.array(a, self.dtype, context) for a in (images, labels)]
            for context in self.contexts
        }

    def _examples(self, batches, context, share):
        """The images of all steps, one after the other, and labels (steps, batch size).

        Of every batch, the `share` of the replica on this context.
        """
        # One operation per chunk: each costs MXNet's engine about 20 us.
        if isinstance(batches, np.ndarray):
            batches = batches[:, share]
            rows = self.array(batches.ravel(), "int32", context)
            images, labels = (nd.take(whole, rows) for whole in self.sets[context])
            return images, labels.reshape(batches.shape)
        images, labels = (np.concatenate(p) if len(p) > 1 else p[0] for p in zip(*batches))
        images, labels = images[:, share], labels[:, share]
        images = images.reshape((-1,) + images.shape[2:])
        return (self.array(a, self.dtype, context) for a in (images, labels))

    def _prepared(self, batches, draws, context, share):
        """Images and labels as the steps of the replica on this context take them."""
        if self.spec["factors"]["input"] == "synthetic" and draws is None:
            spans = [(int(batch[0]), int(batch[-1]) + 1) for batch in batches[:, share]]
            return [[whole[first:end] for first, end in spans] for whole in self.sets[context]]
        images, labels = self._examples(batches, context, share)
        if draws is not None:
            images = self._augmented(images, draws[:, share].reshape(-1, 3), context)
        return images.reshape(labels.shape + images.shape[1:]), labels

    def train(self, batches, rates, draws):
        size = self.spec["factors"]["batch_size"] // self.replicas
        shares = [slice(i * size, (i + 1) * size) for i in range(self.replicas)]
        parts = [
            self._prepared(batches, draws, context, share)
            for context, share in zip(self.contexts, shares)
        ]
        losses = []
        # MXNet hands rates to its kernels as text, which NumPy's numbers are slow to become.
        for i, rate in enumerate(rates.tolist()):
            with autograd.record():
                each = [self.training(images[i], labels[i]) for images, labels in parts]
            autograd.backward(each)
            self._update(rate)
            losses.append(each)
        self.last = [images[0] for images, _ in parts]
        return losses

    def _update(self, rate):
        """One step of the update equation; MXNet's own differs from it where the rate changes."""
        optimizer, asked = self.trainer.optimizer, self.spec["optimizer"]
        self.steps += 1
        for parameter, l1, l2 in self.penalised:
            for data, gradient in zip(parameter.list_data(), parameter.list_grad()):
                gradient += l1 * nd.sign(data) + 2 * l2 * data
        for parameter in self.shrunk:
            for data in parameter.list_data():
                data *= 1 - rate * asked["weight_decay"]
        ratio = rate / self.trainer.learning_rate
        if asked["name"] == "adam":
            # Its kernel adds epsilon before the correction of the square root.
            optimizer.epsilon = asked["epsilon"] * (1 - asked["beta2"] ** self.steps) ** 0.5
        elif ratio != 1 and asked["momentum"] and self.steps > 1:
            # The states hold rate x v, of the rate before.
            if asked["nesterov"]:
                for updater in self.trainer._updaters:
                    for state in updater.states.values():
                        state *= ratio
            else:
                optimizer.momentum = asked["momentum"] * ratio
        self.trainer.set_learning_rate(rate)
        # Losses are means already, and the gradients of all replicas are added.
        self.trainer.step(self.replicas)
        if asked["name"] == "sgd":
            optimizer.momentum = asked["momentum"]

    def _augmented(self, images, draws, context):
        """Images cut out of themselves with zeros around, and mirrored, as their draws say."""
        height, width, _ = self.spec["data"]["shape"]
        sides = (self.spec["augmentation"]["crop_padding"],) * 4
        images = nd.pad(images, mode="constant", pad_width=(0, 0, 0, 0) + sides, constant_value=0)
        top, left, mirrored = draws.T[:, :, None]
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        rows = top + np.arange(height)
        places = np.broadcast_arrays(
            np.arange(len(draws))[:, None, None], rows[:, :, None], columns[:, None, :]
        )
        places = self.array(np.stack(places), "int32", context)
        return nd.gather_nd(images.transpose((0, 2, 3, 1)), places).transpose((0, 3, 1, 2))

    def losses(self, handle):
        replicas = [nd.concat(*losses, dim=0).asnumpy() for losses in zip(*handle)]
        return np.mean(replicas, axis=0, dtype=np.float64)

    def synchronize(self):
        nd.waitall()

    def logits(self, images):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        for mask in self.network._reg_params.values():
            mask.set_data(nd.ones(mask.shape, ctx=self.context, dtype=self.dtype))
        with self._unbiased_variances():
            images = self.array(images, self.dtype)
            return self._host(self.network(images))

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
            self.network._reg_params[name].set_data(self.array(mask, self.dtype))

    def prepare(self, images):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)

    def predict(self, batch):
        self.last = self.array(batch, self.dtype)
        return self.network(self.last)

    def fetched(self, handle):
        return self._host(handle)

    def predicting(self):
        blocks = self.network.blocks.values()
        mode = "imperative"
        if self.network._cached_op is not None:
            mode = "static" if dict(self.network._flags).get("static_shape") else "hybrid"
        return {
            "batch_size": self.last.shape[0],
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "inter_op_threads": int(mx.util.getenv("MXNET_CPU_WORKER_NTHREADS") or 1),
            "deterministic": mx.util.getenv("MXNET_ENFORCE_DETERMINISM") in ("1", "true"),
            "precision": self._precision(self.last),
            "layout": ", ".join(
                sorted({b._kwargs["layout"] for b in blocks if isinstance(b, nn.Conv2D)})
            ),
            "device": self.last.context.device_type,
            "mode": mode,
            "parameters": sum(int(np.prod(p.shape)) for p in self.trained.values()),
        }

    def weights(self):
        with self._unbiased_variances():
            return {n: _to_numpy(p.data(self.context)) for n, p in self.parameters.items()}

    def velocities(self):
        # MXNet keeps -rate v, one state per trained parameter in the trainer's order; its
        # kernels take the rate in single precision.
        states = self.trainer._updaters[0].states
        rate = float(np.float32(self.trainer.learning_rate))
        return {name: -_to_numpy(states[i]) / rate for i, name in enumerate(self.trained)}

    def products(self, a, b):
        a, b = (self.array(array, self.dtype) for array in (a, b))
        images, filters = a.reshape(0, 0, 1, 1), b.T.reshape(0, 0, 1, 1)
        convolved = nd.Convolution(
            images, filters, kernel=(1, 1), num_filter=b.shape[1], no_bias=True
        )
        # The product of dense layers: mixed precision leaves the bare one alone.
        product = nd.FullyConnected(a, b.T, num_hidden=b.shape[1], no_bias=True)
        return self._host(product), self._host(convolved)[:, :, 0, 0]

    def _host(self, array):
        """A network's result as NumPy's array, in the type of the weights."""
        return _to_numpy(nd.amp_cast(array, dtype=self.dtype) if self.mixed else array)

    def settings(self):
        optimizer = self.trainer.optimizer
        decays = {optimizer._get_wd(i) for i in range(len(self.trained))} - {0.0}
        if self.shrunk:
            decays = {self.spec["optimizer"]["weight_decay"]}
        kind = type(optimizer).__name__.lower()
        if kind == "adam":
            correction = (1 - optimizer.beta2**self.steps) ** 0.5
            own = {"beta1": optimizer.beta1, "beta2": optimizer.beta2}
            own["epsilon"] = optimizer.epsilon / correction
        else:
            own = {"momentum": optimizer.momentum, "nesterov": kind == "nag"}
        if self.replicas > 1:
            own["replicas"] = len({images.context for images in self.last})
        return {
            **own,
            "optimizer": "adam" if kind == "adam" else "sgd",
            "learning_rate": self.trainer.learning_rate,
            "weight_decay": decays.pop() if len(decays) == 1 else float(max(decays, default=0)),
            "batch_size": sum(images.shape[0] for images in self.last),
            # The OpenMP library that MXNet's operators run on, asked itself.
            "threads": ctypes.CDLL("libgomp.so.1").omp_get_max_threads(),
            "precision": self._precision(self.last[0]),
            # As its engine asked the C library when it started; 1 where nobody sets it.
            "inter_op_threads": int(mx.util.getenv("MXNET_CPU_WORKER_NTHREADS") or 1),
            "deterministic": mx.util.getenv("MXNET_ENFORCE_DETERMINISM") in ("1", "true")
            and mx.util.getenv("MXNET_CUDNN_AUTOTUNE_DEFAULT") == "0",
            "layout": ", ".join(
                sorted(
                    {
                        b._kwargs["layout"]
                        for b in self.network.blocks.values()
                        if isinstance(b, nn.Conv2D)
                    }
                )
            ),
            "device": self.last[0].context.device_type,
            "mode": self._mode(),
            "parameters": sum(int(np.prod(p.shape)) for p in self.trained.values()),
        }

    def _precision(self, images):
        """That of the weights, and where it is mixed that of the network's output for `images`."""
        types = {np.dtype(p.dtype) for p in self.parameters.values()}
        kept = types.pop().name.replace("float", "fp") if len(types) == 1 else str(types)
        if not self.mixed:
            return kept
        output = self.network(images).dtype  # NumPy has no name for MXNet's bfloat16
        both = kept == "fp32" and np.dtype(output).names == ("bfloat16",)
        return "bf16" if both else "{} with {}".format(kept, output)

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


def _has_avx512():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " avx512bw " in file.read()


def _read(stem, shape, numbers=None, cut=False):
    """Image and label of these records or of all, by MXNet's own reader, by their numbers.

    Raises ValueError if one is damaged or has another shape.
    """
    reader = mx.recordio.MXIndexedRecordIO(stem + ".idx", stem + ".rec", "r")
    found = {}
    for number in reader.keys if numbers is None else numbers:
        try:
            image, label = _image(reader.read_idx(number), shape, cut)
        except (mx.MXNetError, TypeError, struct.error, ValueError) as fault:
            message = "{}.rec: record {} is damaged: {}"
            raise ValueError(message.format(stem, number, str(fault).splitlines()[-1])) from None
        found[number] = image, label
    reader.close()
    return found


def _image(record, shape, cut):
    """A record's image, uint8 of `shape`, or with `cut` its middle, and its label.

    Raises ValueError if the image has another shape or is smaller.
    """
    header, image = mx.recordio.unpack_img(record, COLOUR if shape[2] == 3 else GREY)
    image = image[:, :, ::-1] if shape[2] == 3 else image[:, :, None]
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0 or (not cut and image.shape != tuple(shape)):
        raise ValueError("its image is {}, not {}".format(image.shape, tuple(shape)))
    return image[top : top + shape[0], left : left + shape[1]], int(header.label)


def _mapped(path, index, size):
    """The bytes of a record file, and where its records of at least `size` bytes begin."""
    try:
        lines = np.loadtxt(index, np.int64, delimiter="\t", ndmin=2)
        offsets = lines[:, 1]
    except (ValueError, IndexError) as fault:
        raise ValueError("{}: {}".format(index, fault)) from None
    if not np.array_equal(lines[:, 0], np.arange(len(lines))):
        raise ValueError("{}: does not count the records from 0 on".format(index))
    length = os.path.getsize(path)
    _require(path, "is cut off", (offsets >= 0) & (offsets + size <= length))
    return np.asarray(np.memmap(path, np.uint8, "r")), offsets


def _structures(file, offsets, kind):
    """Copies of the structures of this NumPy type at these places of a file's bytes."""
    shape = len(file) - kind.itemsize + 1, kind.itemsize
    windows = np.lib.stride_tricks.as_strided(file, shape, (1, 1), writeable=False)
    return windows[offsets].view(kind)[:, 0]


def _require(path, fault, good, first=0):
    """Raise ValueError that names the first record, counted from `first`, that is not good."""
    if not good.all():
        raise ValueError("{}: record {} {}".format(path, first + int(np.argmin(good)), fault))


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
        flat = len(layer["shape"]) == 1
        return nn.Dense(layer["units"], use_bias=layer["bias"], in_units=features, flatten=flat)
    if op == "batch_norm":
        return nn.BatchNorm(
            momentum=layer["momentum"], epsilon=layer["epsilon"], in_channels=features
        )
    if op in ("max_pool", "avg_pool"):
        padding = (layer["padding"][0], layer["padding"][2]) if _even(layer) else (0, 0)
        if op == "max_pool":
            return nn.MaxPool2D(layer["size"], layer["stride"], padding)
        return nn.AvgPool2D(layer["size"], layer["stride"], padding, count_include_pad=False)
    if op == "relu":
        return nn.Activation("relu")
    if op == "dropout":
        return nn.Dropout(layer["rate"])
    if op == "flatten":
        return nn.Flatten()
    if op in ("add", "concat", "global_avg_pool", "lrn", "attention", "mean_over_steps"):
        return None
    raise NotImplementedError("MXNet's adapter has no layer " + op)
