"""Caffe 1.0: the graph as a prototxt, trained step by step by Caffe's own solver."""

import collections
import ctypes
import io
import json
import os
import tempfile

import lmdb
import numpy as np
from PIL import Image

os.environ.setdefault("GLOG_minloglevel", "2")  # else it logs every layer that it makes

import caffe
from caffe.proto import caffe_pb2
from google.protobuf import text_format
from google.protobuf.message import DecodeError

MODES = ("solver",)
RECORD_FORMAT = "datum"
RELEASED = "2017-04"
SINGLE_PRECISION_ONLY = True

BLAS = ctypes.CDLL(caffe._caffe.__file__)
"""Caffe's library, which has its OpenBLAS inside."""
NATIVE = {
    "weight": ("", 0),
    "bias": ("", 1),
    "recurrent": ("", 2),
    "scale": ("/scale", 0),
    "offset": ("/scale", 1),
    "mean": ("", 0),
    "variance": ("", 1),
}
"""Where an array of the graph is: what follows the layer's name, and which of its blobs."""
NO_REPLICAS = "Caffe trains data-parallel by NCCL on GPUs alone, and this build has neither"
DEVIATIONS = {
    "batch_norm": "the packed Caffe's own batch normalisation has lost the statistics of its "
    "batches and cannot train; a layer written in NumPy stands in its place, so that its time is "
    "not Caffe's",
}
FIRST_READ_AFTERWARDS = ("lrn", "flatten", "global_avg_pool")
"""Layers whose result nothing may overwrite: the first needs it for its gradient, that of the
others shares the memory of what they flatten."""
BLOCK = 2**15
"""Numbers that an update of Adam takes at once: what it needs of them stays in the cache."""


class Adapter:
    """See runtime.py. Caffe's layouts are the canonical ones, but for images and the gates of
    an LSTM."""

    def __init__(self, spec, threads):
        self.spec = spec
        if spec["execution"]["device"] == "gpu":
            raise NotImplementedError("Caffe sees no GPU: this build computes on CPUs alone")
        if spec["execution"]["precision"] != "fp32":
            raise NotImplementedError("Caffe's Python interface has single precision alone")
        BLAS.openblas_set_num_threads(threads)
        caffe.set_mode_cpu()
        caffe.set_random_seed(spec["seed"])
        self.folder = tempfile.TemporaryDirectory()

    def read(self, stems, shape):
        images, labels = [], []
        for stem in stems:
            with _opened(stem) as environment, environment.begin(buffers=True) as transaction:
                for datum in map(self._datum, *_numbered(transaction, stem)):
                    images.append(self._planes(datum)[::-1].transpose(1, 2, 0))
                    labels.append(datum.label)
        return np.stack(images), labels

    def open(self, stems):
        # Caffe's own data layer reads in stored order alone, and so cannot follow the seed's.
        self.records, self.transactions = [], []
        for stem in stems:
            # The records stay views of the file's map as long as this transaction lives.
            self.transactions.append(_opened(stem).begin(buffers=True))
            records, places = _numbered(self.transactions[-1], stem)
            for record, place in zip(records, places):
                label = self._datum(record, place).label
                if not 0 <= label < self.spec["data"]["classes"]:
                    message = "{} has the label {}, the spec says {} classes"
                    raise ValueError(message.format(place, label, self.spec["data"]["classes"]))
            self.records += records
        self.mean, self.std = (
            np.float32(self.spec["data"][key])[:, None, None] for key in ("mean", "std")
        )
        return len(self.records)

    def _datum(self, record, place):
        """A record as Caffe's message; raises ValueError if it is not of the spec's shape."""
        data = self.spec["data"]
        height, width, channels = data["shape"]
        try:
            datum = caffe_pb2.Datum.FromString(bytes(record))
        except DecodeError as fault:
            raise ValueError("{} is damaged: {}".format(place, fault)) from None
        if data["encoding"] == "jpeg":
            good = datum.encoded
        else:
            found = datum.channels, datum.height, datum.width, len(datum.data)
            good = found == (channels, height, width, channels * height * width)
        if not good:
            raise ValueError("{} is no Datum of {}".format(place, data["shape"]))
        return datum

    def _planes(self, datum):
        """The pixels of a record, uint8 (channels, height, width), blue first."""
        height, width, channels = self.spec["data"]["shape"]
        if self.spec["data"]["encoding"] == "jpeg":
            return _photo(datum.data, (height, width, channels)).transpose(2, 0, 1)[::-1]
        return np.frombuffer(datum.data, np.uint8).reshape(channels, height, width)

    def fetch(self, indices):
        height, width, channels = self.spec["data"]["shape"]
        images = np.empty(indices.shape + (channels, height, width), np.float32)
        labels = np.empty(indices.shape, np.float32)
        for batch, image, label in zip(indices, images, labels):
            datums = [caffe_pb2.Datum.FromString(bytes(self.records[i])) for i in batch.tolist()]
            label[:] = [datum.label for datum in datums]
            image[:] = np.stack([self._planes(datum) for datum in datums])[:, ::-1]
            image /= np.float32(self.spec["data"].get("white", 255))
            image -= self.mean
            image /= self.std
        return images, labels

    def build(self, weights):
        network, asked = self.spec["network"], self.spec["optimizer"]
        batch_size = self.spec["factors"]["batch_size"]
        supplied = self.spec["execution"].get("dropout") == "supplied"
        training = _training(network, batch_size, supplied, asked["spared"])
        self.solver = None
        if asked["name"] == "sgd":
            self.solver = self._solver(training)
            self.net = self.solver.net
        else:
            self.net = caffe.Net(self._written(training), caffe.TRAIN)
        evaluation = _Prototxt(network, batch_size).message
        self.evaluated = caffe.Net(self._written(evaluation), caffe.TEST)
        self.lstms = [layer["name"] for layer in network["layers"] if layer["op"] == "lstm"]
        for name in self.lstms:
            for net in (self.net, self.evaluated):
                # What multiplies the state before each step: every sequence begins anew.
                net.blobs[name + "/goes on"].data[1:] = 1
        self.arrays, self.gradients = {}, {}
        for name in weights:
            layer, kind = name.split(".")
            suffix, place = NATIVE[kind]
            blob = self.net.params[layer + suffix][place]
            self.arrays[name], self.gradients[name] = blob.data, blob.diff
        for layer, share in _shares(network).items():
            self.net.params[layer + "/share"][0].data[...] = share
        # Caffe's statistics are sums, with that of their weights beside: m s + 1. From this start
        # they are those of the graph, for m / (1 - m) + 1 = 1 / (1 - m).
        self.sums = {}
        for layer in network["layers"]:
            if layer["op"] == "batch_norm":
                total = self.net.params[layer["name"]][2].data
                total[...] = 1 / (1 - layer["momentum"])
                self.sums[layer["name"] + ".mean"] = self.sums[layer["name"] + ".variance"] = total
        for name, array in self.arrays.items():
            array[...] = self._ordered(name, weights[name]) * self.sums.get(name, np.float32(1))
        self.evaluated.share_with(self.net)
        self.data, self.labelled = (self.net.blobs[name].data for name in ("data", "label"))
        self._optimize()

    def _ordered(self, name, array):
        """A canonical array in Caffe's order, or one of Caffe's in the canonical: Caffe's LSTM has
        the output gate before the cell's."""
        if name.split(".")[0] not in self.lstms:
            return array
        first, forget, third, fourth = np.split(array, 4)
        return np.concatenate([first, forget, fourth, third])

    def _written(self, message):
        """The path of a file that holds this message as text."""
        path = os.path.join(
            self.folder.name, "{}.prototxt".format(len(os.listdir(self.folder.name)))
        )
        with open(path, "w") as file:
            file.write(text_format.MessageToString(message))
        return path

    def _solver(self, net):
        """Caffe's solver of the spec's SGD for a network."""
        asked = self.spec["optimizer"]
        message = caffe_pb2.SolverParameter(
            type="Nesterov" if asked["nesterov"] else "SGD", lr_policy="fixed",
            base_lr=asked["learning_rate"], momentum=asked["momentum"],
            weight_decay=0 if asked["decoupled"] else asked["weight_decay"],
            snapshot_prefix=os.path.join(self.folder.name, "state"), snapshot_after_train=False,
            train_net_param=net,
        )  # fmt: skip
        return caffe.get_solver(self._written(message))

    def _optimize(self):
        asked = self.spec["optimizer"]
        told = {p["name"]: p for p in self.spec["network"]["parameters"] if p["trainable"]}
        self.trained = {name: (self.arrays[name], self.gradients[name]) for name in told}
        self.penalised = [
            self.trained[name] + (np.float32(p["l1"]), np.float32(2 * p["l2"]))
            for name, p in told.items()
            if p["l1"] or p["l2"]
        ]
        decayed = [
            pair for name, pair in self.trained.items()
            if asked["weight_decay"] and name.split(".")[1] not in asked["spared"]
        ]  # fmt: skip
        # Caffe knows coupled decay alone: else the weights shrink before their step.
        self.shrunk = decayed if asked["decoupled"] else []
        self.rate = asked["learning_rate"]
        # Its solver does the coupled decay of SGD; Adam is without a solver.
        self.decayed = [] if asked["decoupled"] or self.solver else decayed
        if not self.solver:
            self.steps = 0
            self.moments = [
                tuple(np.zeros_like(array) for _ in range(2)) for array, _ in self.trained.values()
            ]

    def load(self, images, labels):
        self.images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.labels = labels.astype(np.float32)

    def train(self, batches, rates, draws):
        losses, last = np.empty(len(rates), np.float32), len(self.net.layers) - 1
        steps = batches if isinstance(batches, np.ndarray) else _each(batches)
        for i, batch in enumerate(steps):
            if isinstance(batch, tuple):
                self.data[...], self.labelled[...] = batch
            else:
                # With "clip" NumPy writes straight into Caffe's memory.
                self.images.take(batch, axis=0, out=self.data, mode="clip")
                self.labels.take(batch, out=self.labelled, mode="clip")
            if draws is not None:
                self.data[...] = self._augmented(self.data, draws[i])
            self.rate = float(rates[i])
            self.net.clear_param_diffs()
            losses[i] = self.net._forward(0, last)
            if not np.isfinite(losses[i]):
                # Where all of a window is nan, Caffe's backward pass writes beyond its memory.
                losses[i:] = losses[i]
                break
            self.net._backward(last, 0)
            self._update()
        return losses

    def _update(self):
        """One step of the update equation."""
        self._change_gradients()
        if not self.solver:
            self._adam_step()
            return
        self.solver.apply_update()
        # Caffe's velocity is rate x v, so that its rate must stay the same. What it has just
        # taken from the weights is in the place of their gradients.
        rest = np.float32(1 - self.rate / self.spec["optimizer"]["learning_rate"])
        if rest:
            for array, update in self.trained.values():
                array += rest * update

    def _change_gradients(self):
        """Penalties and decays that Caffe's solver does not know."""
        for array, gradient, l1, l2 in self.penalised:
            gradient += l1 * np.sign(array) + l2 * array
        for array, _ in self.shrunk:
            array *= np.float32(1 - self.rate * self.spec["optimizer"]["weight_decay"])
        for array, gradient in self.decayed:
            gradient += np.float32(self.spec["optimizer"]["weight_decay"]) * array

    def _adam_step(self):
        """A step of Adam; Caffe's adds epsilon before the correction, and is slower than this."""
        asked = self.spec["optimizer"]
        self.steps += 1
        root = (1 - asked["beta2"] ** self.steps) ** 0.5
        numbers = (
            asked["beta1"], 1 - asked["beta1"], asked["beta2"], 1 - asked["beta2"],
            asked["epsilon"] * root, self.rate * root / (1 - asked["beta1"] ** self.steps),
        )  # fmt: skip
        numbers = [np.float32(number) for number in numbers]
        for (array, gradient), moments in zip(self.trained.values(), self.moments):
            flat = [part.reshape(-1) for part in (array, gradient) + moments]
            for start in range(0, array.size, BLOCK):
                _adam(*[part[start : start + BLOCK] for part in flat], *numbers)

    def _augmented(self, images, draws):
        """A batch cut out of itself with zeros around, and mirrored, as its draws say."""
        height, width, _ = self.spec["data"]["shape"]
        sides = (self.spec["augmentation"]["crop_padding"],) * 2
        padded = np.pad(images, ((0, 0), (0, 0), sides, sides))
        top, left, mirrored = draws.T[:, :, None]
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        rows = top + np.arange(height)
        examples = np.arange(len(draws))[:, None, None]
        cut = padded[examples, :, rows[:, :, None], columns[:, None, :]]
        return cut.transpose(0, 3, 1, 2)

    def losses(self, handle):
        return handle

    def synchronize(self):
        pass

    def logits(self, images):
        self.evaluated.blobs["data"].data[...] = images.transpose(0, 3, 1, 2)
        return next(iter(self.evaluated.forward().values())).copy()

    def prepare(self, images):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def predict(self, batch):
        self.evaluated.blobs["data"].data[...] = batch
        return next(iter(self.evaluated.forward().values())).copy()

    def fetched(self, handle):
        return handle

    def predicting(self):
        types = {array.dtype.name for array in self.arrays.values()}
        return {
            "batch_size": self.evaluated.blobs["data"].shape[0],
            "threads": BLAS.openblas_get_num_threads(),
            "precision": types.pop().replace("float", "fp") if len(types) == 1 else str(types),
            "device": "cpu",
            "mode": "solver",
            "parameters": sum(array.size for array, _ in self.trained.values()),
        }

    def weights(self):
        return {
            name: self._ordered(name, array) / self.sums.get(name, np.float32(1))
            for name, array in self.arrays.items()
        }

    def velocities(self):
        # Caffe shows its history in snapshots alone, one blob per array that has a rate or not.
        self.solver.snapshot()
        path = os.path.join(self.folder.name, "state_iter_{}.".format(self.solver.iter))
        with open(path + "solverstate", "rb") as file:
            state = caffe_pb2.SolverState.FromString(file.read())
        os.remove(path + "solverstate")
        os.remove(path + "caffemodel")
        blobs = [blob for blobs in self.net.params.values() for blob in blobs]
        places = {blob.diff.ctypes.data: i for i, blob in enumerate(blobs)}
        found = {}
        for name, (array, gradient) in self.trained.items():
            history = np.array(state.history[places[gradient.ctypes.data]].data, np.float32)
            history = history.reshape(array.shape) / np.float32(self.solver.lr)
            found[name] = self._ordered(name, history)
        return found

    def set_masks(self, masks):
        for name, mask in masks.items():
            mask = mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask
            self.net.blobs[name + "/mask"].data[...] = mask

    def products(self, a, b):
        (rows, depth), columns = a.shape, b.shape[1]
        net = _Message(caffe_pb2.NetParameter())
        net.given("data", (rows, depth, 1, 1))
        inner = dict(num_output=columns, bias_term=False)
        net.add("InnerProduct", "product", ["data"], inner_product_param=inner)
        convolution = dict(num_output=columns, bias_term=False, kernel_size=[1])
        net.add("Convolution", "convolved", ["data"], convolution_param=convolution)
        net = caffe.Net(self._written(net.message), caffe.TEST)
        net.blobs["data"].data[...] = a[:, :, None, None]
        for name in ("product", "convolved"):
            weight = net.params[name][0].data
            weight[...] = b.T.reshape(weight.shape)
        found = net.forward()
        return found["product"].copy(), found["convolved"][:, :, 0, 0].copy()

    def settings(self):
        asked = self.spec["optimizer"]
        types = {array.dtype.name for array in self.arrays.values()}
        if self.solver:
            own = self._solver_settings()
        else:
            own = {key: asked[key] for key in ("beta1", "beta2", "epsilon")}
            own.update(optimizer="adam", learning_rate=self.rate)
            own["weight_decay"] = asked["weight_decay"] if self.decayed else 0.0
        if self.shrunk:
            own["weight_decay"] = asked["weight_decay"]
        return {
            **own,
            "batch_size": self.net.blobs["data"].shape[0],
            "threads": BLAS.openblas_get_num_threads(),
            "precision": types.pop().replace("float", "fp") if len(types) == 1 else str(types),
            "device": "cpu",
            "mode": "solver",
            "parameters": sum(array.size for array, _ in self.trained.values()),
        }

    def _solver_settings(self):
        """The settings of SGD. Caffe tells its rate alone: the others are what a solver that is
        made like that of the run does to a network of one weight."""
        one = _Message(caffe_pb2.NetParameter())
        one.given("data", (1, 1))
        one.add("InnerProduct", "one", ["data"], inner_product_param=dict(num_output=1))
        one.message.layer[-1].inner_product_param.bias_term = False

        def updates(weight, gradients):
            solver = self._solver(one.message)
            blob = solver.net.params["one"][0]
            for gradient in gradients:
                blob.data[...], blob.diff[...] = weight, gradient
                solver.apply_update()
                yield float(blob.diff) / solver.lr

        # Without decay: 1, m of SGD; 1 + m, m^2 of Nesterov's. Decay alone: d; (1 + m) d.
        nesterov = isinstance(self.solver, caffe.NesterovSolver)
        first, second = updates(0, (1, 0))
        (decay,) = updates(1, (0,))
        factor = self.rate / self.spec["optimizer"]["learning_rate"]
        return {
            "optimizer": "sgd",
            "nesterov": nesterov,
            "learning_rate": self.solver.lr * factor,
            "momentum": first - 1 if nesterov else second / first,
            "weight_decay": decay / first,
        }

    def software(self):
        return {"framework": "caffe", "version": caffe.__version__, "cuda": None}

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        return isinstance(error, MemoryError)


class BatchNormalization(caffe.Layer):
    """What Caffe's BatchNorm is in training, with its three arrays (docs/parity.md)."""

    def setup(self, bottom, top):
        self.epsilon, self.momentum = json.loads(self.param_str)
        for size in (bottom[0].channels, bottom[0].channels, 1):
            self.blobs.add_blob(size)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)
        planes = (bottom[0].num, bottom[0].channels, bottom[0].height * bottom[0].width)
        self.normal, self.squares = (np.empty(planes, np.float32) for _ in range(2))
        self.count = planes[0] * planes[2]

    def forward(self, bottom, top):
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

    def backward(self, top, propagate_down, bottom):
        gradient = top[0].diff.reshape(self.normal.shape)
        np.multiply(gradient, self.normal, out=self.squares)
        along, mean = self._means(self.squares), self._means(gradient)
        np.multiply(self.normal, along[:, None], out=self.squares)
        np.subtract(gradient, self.squares, out=self.squares)
        self.squares -= mean[:, None]
        self.squares *= self.scale[:, None]
        bottom[0].diff[...] = self.squares.reshape(bottom[0].diff.shape)

    def _means(self, planes):
        """The mean of every channel."""
        return planes.sum(axis=2).sum(axis=0) / np.float32(self.count)


class _Message:
    """A network as Caffe's message, layer by layer."""

    def __init__(self, message):
        self.message = message

    def add(self, kind, name, bottoms, top=None, **settings):
        """A layer; returns the name of its blob, `top`, or its own."""
        top = top or name
        self.message.layer.add(type=kind, name=name, bottom=bottoms, top=[top], **settings)
        return top

    def given(self, name, shape):
        """An input of that shape."""
        return self.add("Input", name, [], input_param=dict(shape=[dict(dim=shape)]))


class _Prototxt(_Message):
    """A graph as Caffe's message, without loss.

    In training, dropout draws, or multiplies by inputs `NAME/mask` where masks are `supplied`;
    without, it is left out. ReLU, dropout and batch normalisation work in place where they can.
    """

    def __init__(self, network, batch_size, training=False, supplied=False, spared=()):
        super().__init__(caffe_pb2.NetParameter(name=network["name"]))
        self.batch_size, self.training, self.supplied = batch_size, training, supplied
        self.spared = spared
        self.frozen = {p["name"] for p in network["parameters"] if not p["trainable"]}
        layers = network["layers"]
        self.shapes = {layer["name"]: layer["shape"] for layer in layers}
        self.shapes["input"] = network["input"]
        self.ops = {layer["name"]: layer["op"] for layer in layers}
        self.uses = collections.Counter(source for layer in layers for source in layer["inputs"])
        missing = sorted(op for op in set(self.ops.values()) if not hasattr(self, "_" + op))
        if "attention" in missing:
            reason = "Caffe multiplies no two inputs as matrices, as attention does"
            raise NotImplementedError(reason)
        if missing:
            raise NotImplementedError("Caffe's adapter has no layer " + ", ".join(missing))
        self.tops = {"input": self.given("data", self._planes(network["input"]))}
        for layer in layers:
            bottoms = [self.tops[source] for source in layer["inputs"]]
            self.tops[layer["name"]] = getattr(self, "_" + layer["op"])(layer, bottoms)

    def _planes(self, shape):
        """The shape of a batch as Caffe has it."""
        return [self.batch_size] + list(shape[2:]) + list(shape[:2])

    def _top(self, layer):
        """The blob that the layer may write to: that of its source if nothing else reads it."""
        (source,) = layer["inputs"]
        free = source != "input" and self.ops[source] not in FIRST_READ_AFTERWARDS
        return self.tops[source] if free and self.uses[source] == 1 else layer["name"]

    def _rates(self, layer, *kinds):
        """What multiplies the rate and the decay of a layer's arrays."""
        trained = [layer["name"] + "." + kind not in self.frozen for kind in kinds]
        return [
            dict(lr_mult=float(own), decay_mult=float(own and kind not in self.spared))
            for kind, own in zip(kinds, trained)
        ]

    def _cut(self, name, source, skipped, size, found):
        """`size` rows and columns of an image of `found`, after those that are skipped."""
        if tuple(size) == tuple(found):
            return source
        like = self.given(name + "/size", [1, 1] + list(size))
        return self.add(
            "Crop", name + "/cut", [source, like], crop_param=dict(axis=2, offset=skipped)
        )

    def _conv(self, layer, bottoms):
        name, stride = layer["name"], layer["stride"]
        height, width, _ = self.shapes[layer["inputs"][0]]
        pads, skipped, found = [], [], []
        for i, length in enumerate((height, width)):
            before, after = layer["padding"][2 * i : 2 * i + 2]
            # Caffe pads evenly: it gets more, by whole strides, and what is too much is cut off.
            pad = before + -(-max(after - before, 0) // stride) * stride
            reach = (layer["kernel"][i] - 1) * layer["dilation"] + 1
            pads.append(pad)
            skipped.append((pad - before) // stride)
            found.append((length + 2 * pad - reach) // stride + 1)
        kinds = ("weight", "bias") if layer["bias"] else ("weight",)
        self.add(
            "Convolution", name, bottoms, param=self._rates(layer, *kinds),
            convolution_param=dict(
                num_output=layer["filters"], kernel_h=layer["kernel"][0],
                kernel_w=layer["kernel"][1], stride=[stride], pad_h=pads[0], pad_w=pads[1],
                dilation=[layer["dilation"]], group=layer["groups"], bias_term=layer["bias"],
            ),
        )  # fmt: skip
        return self._cut(name, name, skipped, layer["shape"][:2], found)

    def _dense(self, layer, bottoms):
        kinds = ("weight", "bias") if layer["bias"] else ("weight",)
        # Of a sequence every step by itself.
        axis = len(layer["shape"])
        told = dict(num_output=layer["units"], bias_term=layer["bias"], axis=axis)
        return self.add(
            "InnerProduct", layer["name"], bottoms, param=self._rates(layer, *kinds),
            inner_product_param=told,
        )  # fmt: skip

    def _batch_norm(self, layer, bottoms):
        name, top = layer["name"], self._top(layer)
        if self.training:
            told = dict(module=__name__, layer=BatchNormalization.__name__)
            told["param_str"] = json.dumps([layer["epsilon"], layer["momentum"]])
            untrained = [dict(lr_mult=0, decay_mult=0)] * 3
            self.add("Python", name, bottoms, top, param=untrained, python_param=told)
        else:
            told = dict(eps=layer["epsilon"])
            self.add("BatchNorm", name, bottoms, top, batch_norm_param=told)
        return self.add(
            "Scale", name + "/scale", [top], top, param=self._rates(layer, "scale", "offset"),
            scale_param=dict(bias_term=True),
        )  # fmt: skip

    def _lrn(self, layer, bottoms):
        if layer["size"] % 2 == 0:
            raise NotImplementedError("Caffe normalises over odd numbers of channels alone")
        told = dict(local_size=layer["size"], alpha=layer["alpha"], beta=layer["beta"])
        told["k"] = layer["k"]
        return self.add("LRN", layer["name"], bottoms, lrn_param=told)

    def _max_pool(self, layer, bottoms):
        return self._pool("MAX", layer, bottoms)

    def _avg_pool(self, layer, bottoms):
        pooled = self._pool("AVE", layer, bottoms)
        if np.all(_share(layer, self.shapes[layer["inputs"][0]]) == 1):
            return pooled
        return self.add(
            "Scale", layer["name"] + "/share", [pooled], param=[dict(lr_mult=0, decay_mult=0)],
            scale_param=dict(axis=2, num_axes=2),
        )  # fmt: skip

    def _pool(self, kind, layer, bottoms):
        name, size, stride = layer["name"], layer["size"], layer["stride"]
        source, image = bottoms[0], list(self.shapes[layer["inputs"][0]][:2])
        if stride > size:
            # Caffe may begin a window behind the last pixel: it gets no more than windows see.
            if any(layer["padding"]):
                raise NotImplementedError("Caffe's adapter pads no windows with gaps between")
            seen = [(out - 1) * stride + size for out in layer["shape"][:2]]
            source = self._cut(name, source, [0, 0], seen, image)
            image = seen
        places = [_windows(layer, i, length) for i, length in enumerate(image)]
        pads, skipped, found = zip(*places)
        told = dict(pool=kind, kernel_size=size, stride=stride, pad_h=pads[0], pad_w=pads[1])
        self.add("Pooling", name + "/all", [source], pooling_param=told)
        return self._cut(name, name + "/all", skipped, layer["shape"][:2], found)

    def _global_avg_pool(self, layer, bottoms):
        told = dict(pool="AVE", global_pooling=True)
        mean = self.add("Pooling", layer["name"] + "/mean", bottoms, pooling_param=told)
        return self.add("Flatten", layer["name"], [mean])

    def _relu(self, layer, bottoms):
        return self.add("ReLU", layer["name"], bottoms, self._top(layer))

    def _dropout(self, layer, bottoms):
        if not self.training:
            return bottoms[0]
        if not self.supplied:
            told = dict(dropout_ratio=layer["rate"])
            return self.add("Dropout", layer["name"], bottoms, self._top(layer), dropout_param=told)
        mask = self.given(layer["name"] + "/mask", self._planes(layer["shape"]))
        told = dict(operation="PROD")
        return self.add("Eltwise", layer["name"], bottoms + [mask], eltwise_param=told)

    def _add(self, layer, bottoms):
        return self.add("Eltwise", layer["name"], bottoms)

    def _concat(self, layer, bottoms):
        return self.add("Concat", layer["name"], bottoms)

    def _flatten(self, layer, bottoms):
        return self.add("Flatten", layer["name"], bottoms)

    def _embedding(self, layer, bottoms):
        name = layer["name"]
        told = dict(input_dim=layer["vocabulary"], num_output=layer["width"], bias_term=False)
        rates = self._rates(layer, "weight")
        rows = self.add("Embed", name, bottoms, name + "/rows", param=rates, embed_param=told)
        return self._reshaped(layer, rows)

    def _reshaped(self, layer, bottom):
        """The blob with the shape of the layer's output."""
        told = dict(shape=dict(dim=self._planes(layer["shape"])))
        return self.add(
            "Reshape", layer["name"] + "/shaped", [bottom], layer["name"], reshape_param=told
        )

    def _lstm(self, layer, bottoms):
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
        told = dict(axis=0, offset=[steps - 1, 0, 0])
        last = self.add("Crop", name + "/last", [states, like], crop_param=told)
        return self._reshaped(layer, last)


def _training(network, batch_size, supplied, spared):
    """The message of a graph with its loss, the mean cross-entropy of a batch."""
    net = _Prototxt(network, batch_size, True, supplied, spared)
    net.given("label", [batch_size])
    net.add("SoftmaxWithLoss", "loss", [net.tops[network["output"]], "label"])
    return net.message


def _windows(layer, axis, length):
    """How Caffe makes the windows of a pooling layer along an axis.

    Returns the padding that it gets on both sides, how many windows are too many at the
    beginning, and how many it makes (Caffe, src/caffe/layers/pooling_layer.cpp: as many as
    cover the image and its padding, that begin in the image or the padding before it).
    """
    size, stride = layer["size"], layer["stride"]
    before, out = layer["padding"][2 * axis], layer["shape"][axis]
    for pad in range(before, size, stride):
        found = -(-(length + 2 * pad - size) // stride) + 1
        if pad and (found - 1) * stride >= length + pad:
            found -= 1
        if found - (pad - before) // stride >= out:
            return pad, (pad - before) // stride, found
    raise NotImplementedError(
        "Caffe pads a window by less than its size: {} cannot be done".format(layer["name"])
    )


def _share(layer, image):
    """What the averages of Caffe, which count padding, are multiplied by: (height, width)."""
    sides = []
    for axis, length in enumerate(image[:2]):
        pad, skipped, _ = _windows(layer, axis, length)
        begin = (skipped + np.arange(layer["shape"][axis])) * layer["stride"] - pad
        end = np.minimum(begin + layer["size"], length + pad)
        sides.append((end - begin) / (np.minimum(end, length) - np.maximum(begin, 0)))
    return sides[0][:, None] * sides[1]


def _shares(network):
    """By layer, what corrects the averages that count padding."""
    shapes = {layer["name"]: layer["shape"] for layer in network["layers"]}
    shapes["input"] = network["input"]
    found = {}
    for layer in network["layers"]:
        if layer["op"] == "avg_pool" and layer["stride"] <= layer["size"]:
            share = _share(layer, shapes[layer["inputs"][0]])
            if np.any(share != 1):
                found[layer["name"]] = share
    return found


def _adam(array, gradient, mean, square, beta1, rest1, beta2, rest2, epsilon, rate):
    """The update of Adam, in place; the gradient is lost."""
    mean *= beta1
    mean += rest1 * gradient
    np.multiply(gradient, gradient, out=gradient)
    gradient *= rest2
    square *= beta2
    square += gradient
    np.sqrt(square, out=gradient)
    gradient += epsilon
    np.divide(mean, gradient, out=gradient)
    gradient *= rate
    array -= gradient


def _each(parts):
    """The batches, images and labels, of what `fetch` gave."""
    for images, labels in parts:
        yield from zip(images, labels)


def _opened(stem):
    """The LMDB environment of a folder; raises ValueError if its file is damaged."""
    path = os.path.join(stem, "data.mdb")
    try:
        environment = lmdb.open(stem, readonly=True, lock=False)
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
    size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if os.path.getsize(path) < size:  # a look beyond its end would kill the process
        raise ValueError("{}: shorter than its {} bytes".format(path, size))
    return environment


def _numbered(transaction, stem):
    """All records in stored order, and for each the words that name it."""
    path = os.path.join(stem, "data.mdb")
    try:
        records = [record for _, record in transaction.cursor()]
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
    return records, ["{}: record {}".format(path, i) for i in range(len(records))]


def _photo(encoded, shape):
    """The middle of a JPEG file, uint8 of `shape`, red first; ValueError if it is smaller."""
    image = Image.open(io.BytesIO(encoded))
    colours = "L" if shape[2] == 1 else "RGB"
    image.draft(colours, image.size)  # libjpeg itself gives the brightness of a colour photo
    image = np.asarray(image.convert(colours)).reshape(image.size[::-1] + (shape[2],))
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0:
        raise ValueError("a photo of {} is smaller than {}".format(image.shape, shape))
    return image[top : top + shape[0], left : left + shape[1]]
