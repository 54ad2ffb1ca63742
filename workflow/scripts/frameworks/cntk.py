"""CNTK: the graph as one CNTK function, updated by a Trainer with a learner of its own."""

import ctypes
import math
import os
import warnings
import zlib

import numpy as np
from PIL import Image

if os.environ.get("OMP_WAIT_POLICY", "").lower() == "passive":
    # Intel's OpenMP library reads its own variable: else an idle thread spins for 200 ms.
    os.environ.setdefault("KMP_BLOCKTIME", "0")
warnings.filterwarnings("ignore", category=UserWarning, module="cntk")

import cntk as C  # noqa: E402

MODES = ("default", "mkl_avx2")
"""What MKL chooses itself, on AMD's processors its slowest kernels; or its AVX2 kernels."""
WAITS = True
"""Its threads are those of OpenMP (Intel's libiomp5)."""
RECORD_FORMAT = "png"
RELEASED = "2018-04"
TRACE_BYTES = 288  # Adam, written in CNTK's operations, keeps the result of each
NO_REPLICAS = "CNTK trains data-parallel over MPI, of which its environment has a stand-in alone"

DEVIATIONS = {
    "records": "CNTK's ImageDeserializer follows no given order of examples, and wants libraries "
    "of Ubuntu 16.04: Pillow decodes its PNG files, and CNTK is given arrays",
}

AVX2 = 5
"""What MKL's own variable calls AVX2, and its library tells of itself."""
PRECISIONS = {"fp32": np.float32, "fp64": np.float64}


class Adapter:
    """See runtime.py. Images are (batch, channels, height, width)."""

    def __init__(self, spec, threads):
        self.spec = spec
        if spec["execution"]["device"] == "gpu":
            raise NotImplementedError("CNTK's wheel for CPUs sees no GPU")
        # MKL looks at this when it first computes, which is later than its import.
        os.environ.pop("MKL_DEBUG_CPU_TYPE", None)
        if spec["execution"]["mode"] == "mkl_avx2":
            if not _has_avx2():
                raise NotImplementedError("this processor has no AVX2, which mkl_avx2 means")
            os.environ["MKL_DEBUG_CPU_TYPE"] = str(AVX2)
        self.mkl = ctypes.CDLL("libmklml_intel.so")  # as CNTK has loaded it
        C.device.try_set_default_device(C.device.cpu())
        C.cntk_py.set_max_num_cputhreads(threads)
        precision = spec["execution"]["precision"]
        if precision not in PRECISIONS:
            raise NotImplementedError("CNTK has fp32 and fp64 alone on CPUs, not " + precision)
        self.dtype = PRECISIONS[precision]

    def read(self, stems, shape):
        found = [each for stem in stems for each in _listed(stem)]
        images = [_decoded(path, shape) for path, _ in found]
        return np.stack(images), [label for _, label in found]

    def open(self, stems):
        data = self.spec["data"]
        self.files = [each for stem in stems for each in _listed(stem)]
        for path, label in self.files:
            _decoded(path, data["shape"], check=True)
            if label >= data["classes"]:
                message = "{}: the label is {}, the spec says {} classes"
                raise ValueError(message.format(path, label, data["classes"]))
        self.mean, self.std = (np.float32(data[key])[:, None, None] for key in ("mean", "std"))
        return len(self.files)

    def fetch(self, indices):
        shape = self.spec["data"]["shape"]
        files = [self.files[i] for i in indices.ravel().tolist()]
        pixels = np.stack([_decoded(path, shape) for path, _ in files]).transpose(0, 3, 1, 2)
        white = np.float32(self.spec["data"].get("white", 255))
        images = (pixels / white - self.mean) / self.std
        labels = np.array([label for _, label in files])
        return images.reshape(indices.shape + images.shape[1:]), labels.reshape(indices.shape)

    def build(self, weights):
        network = self.spec["network"]
        trained = {p["name"] for p in network["parameters"] if p["trainable"]}
        self.layers = {layer["name"]: layer for layer in network["layers"]}
        self.arrays = {}
        for name, array in weights.items():
            array = self._native(name, array)
            self.arrays[name] = self._parameter(array) if name in trained else self._constant(array)
        height, width, channels = network["input"]
        self.image = C.input_variable((channels, height, width), dtype=self.dtype)
        self.label = C.input_variable(self.spec["data"]["classes"], dtype=self.dtype)
        self.one_hot = np.eye(self.spec["data"]["classes"], dtype=self.dtype)
        self.masks = {}
        if self.spec["execution"].get("dropout") == "supplied":
            self.masks = {
                name: C.input_variable(_channels_first(layer["shape"]), dtype=self.dtype)
                for name, layer in self.layers.items()
                if layer["op"] == "dropout"
            }
        self.supplied = {}
        self.model = self._function(network)
        learners = self._learners()
        loss = C.cross_entropy_with_softmax(self.model, self.label)
        self.trainer = C.Trainer(self.model, (loss,), learners)

    def _parameter(self, array):
        return C.Parameter(array.shape, init=array, dtype=self.dtype)

    def _constant(self, array):
        return C.Constant(np.asarray(array, self.dtype), dtype=self.dtype)

    def _native(self, name, array):
        """A canonical array as CNTK's layer takes it; CNTK is given vectors from the left."""
        layer, kind = name.split(".")
        op = self.layers[layer]["op"]
        if op in ("dense", "lstm") and array.ndim == 2:
            array = array.T
        elif op == "conv" and kind == "bias":
            array = array.reshape(-1, 1, 1)
        return np.ascontiguousarray(array, self.dtype)

    def _canonical(self, name, array):
        layer, kind = name.split(".")
        if self.layers[layer]["op"] in ("dense", "lstm") and array.ndim == 2:
            return array.T
        return array.ravel() if kind == "bias" else array

    def _function(self, network):
        """The graph as a function of `self.image`."""
        values = {"input": self.image}
        shapes = {"input": network["input"]}
        shapes.update({layer["name"]: layer["shape"] for layer in network["layers"]})
        for layer in network["layers"]:
            inputs = [values[source] for source in layer["inputs"]]
            own = {
                name.split(".")[1]: array
                for name, array in self.arrays.items()
                if name.split(".")[0] == layer["name"]
            }
            shape = shapes[layer["inputs"][0]]
            values[layer["name"]] = self._layer(layer, inputs, shape, own)
        return values[network["output"]]

    def _layer(self, layer, inputs, shape, own):
        """What the layer makes of its inputs, of which the first has this shape."""
        op, x = layer["op"], inputs[0]
        if op == "conv":
            kernel, dilation = own["weight"], layer["dilation"]
            if dilation > 1:
                kernel = _dilated(kernel, dilation)
            if kernel.shape[:2] == (shape[2], 1) and layer["stride"] == 1:
                x = _depthwise(x, kernel, layer)
            else:
                x, pads, _ = _padded(x, layer, shape, kernel.shape[2:], 0)
                strides = (layer["stride"],) * 2
                x = C.convolution(kernel, x, strides, auto_padding=pads, groups=layer["groups"])
        elif op == "dense":
            x = C.times(x, own["weight"])
        if op in ("conv", "dense"):
            return x + own["bias"] if layer["bias"] else x
        if op in ("max_pool", "avg_pool"):
            return self._pooled(x, layer, shape)
        if op == "batch_norm":
            return self._normalised(x, layer, own)
        if op == "lrn" and layer["size"] % 2:
            # Its alpha is ours, divided by the size, whatever its own description says.
            settings = layer["size"] // 2, layer["k"], layer["alpha"], layer["beta"]
            return C.local_response_normalization(x, *settings)
        if op == "global_avg_pool":
            means = C.pooling(x, C.AVG_POOLING, tuple(shape[:2]))
            return C.reshape(means, (shape[2],))
        if op == "relu":
            return C.relu(x)
        if op == "dropout":
            mask = self.masks.get(layer["name"])
            seed = zlib.crc32(layer["name"].encode()) ^ self.spec["seed"]
            return C.dropout(x, layer["rate"], seed) if mask is None else x * mask
        if op == "flatten":
            return C.reshape(x, (-1,))
        if op == "add":
            for other in inputs[1:]:
                x = x + other
            return x
        if op == "concat":
            return C.splice(*inputs, axis=0)
        if op == "embedding":
            return C.gather(own["weight"], C.reshape(x, (shape[0],)))
        if op == "position":
            return x + own["weight"]
        if op == "layer_norm":
            x = x - C.reduce_mean(x, 1)
            root = C.sqrt(C.reduce_mean(x * x, 1) + self._constant([layer["epsilon"]]))
            return x / root * own["scale"] + own["offset"]
        if op == "attention":
            return self._attention(x, shape, layer["heads"])
        if op == "lstm":
            return self._lstm(x, shape[0], layer, own)
        if op == "mean_over_steps":
            return C.reshape(C.reduce_mean(x, 0), (shape[1],))
        raise NotImplementedError("CNTK's adapter has no layer {} like {}".format(op, layer))

    def _attention(self, x, shape, heads):
        """Self-attention of queries, keys and values that lie side by side, head by head."""
        width = shape[1] // 3
        size = width // heads
        found = []
        for head in range(heads):
            begins = [part * width + head * size for part in range(3)]
            q, k, v = (C.slice(x, 1, begin, begin + size) for begin in begins)
            shares = C.times(q * self._constant([size**-0.5]), C.transpose(k, (1, 0)))
            found.append(C.times(C.softmax(shares, 1), v))
        return C.splice(*found, axis=1)

    def _lstm(self, x, steps, layer, own):
        """An LSTM, step by step; the inputs of all steps are multiplied at once."""
        units = layer["units"]
        inputs = C.times(x, own["weight"]) + own["bias"]
        h = c = self._constant(np.zeros((1, units)))
        states = []
        for step in range(steps):
            gates = C.slice(inputs, 0, step, step + 1) + C.times(h, own["recurrent"])
            i, f, g, o = (C.slice(gates, 1, k * units, (k + 1) * units) for k in range(4))
            c = C.sigmoid(f) * c + C.sigmoid(i) * C.tanh(g)
            h = C.sigmoid(o) * C.tanh(c)
            states.append(h)
        return C.splice(*states, axis=0) if layer["sequence"] else C.reshape(h, (units,))

    def _pooled(self, x, layer, shape):
        size, average = layer["size"], layer["op"] == "avg_pool"
        kind = C.AVG_POOLING if average else C.MAX_POOLING
        padded, pads, ceil = _padded(x, layer, shape, (size, size), 0 if average else -3.4e38)
        pooled = C.pooling(padded, kind, (size, size), (layer["stride"],) * 2, pads, ceil)
        if average and padded is not x:
            # These zeros were counted: a window has fewer pixels than it is large.
            pixels = [_covered(layer, shape, axis) for axis in (0, 1)]
            pooled = pooled * self._constant(size * size / np.outer(*pixels)[None])
        return pooled

    def _normalised(self, x, layer, own):
        """Batch normalisation; CNTK has a time constant for the momentum of the statistics."""
        momentum = layer["momentum"]
        constant = -self._batch_size() / math.log(momentum) if momentum else 0
        return C.batch_normalization(
            x, own["scale"], own["offset"], own["mean"], own["variance"], spatial=True,
            normalization_time_constant=constant, epsilon=layer["epsilon"],
            # With a count of 0 it would take the first batch's statistics for the running ones.
            running_count=self._constant(np.array(1)),
        )  # fmt: skip

    def _learners(self):
        """CNTK's own learners where their equation is ours, else ours in its operations."""
        asked = self.spec["optimizer"]
        self.trained = [p["name"] for p in self.spec["network"]["parameters"] if p["trainable"]]
        decayed = [name for name in self.trained if name.split(".")[1] not in asked["spared"]]
        self.steps, self.rate = 0, asked["learning_rate"]
        self.universal = _is_another(self.spec)
        if self.universal:
            self.decayed = set(decayed if asked["weight_decay"] else ())
            self.scalars = {
                key: self._parameter(np.array([value]))
                for key, value in dict(asked, first=1.0, second=1.0).items()
                if isinstance(value, float)
            }
            self.states = {}
            arrays = [self.arrays[name] for name in self.trained]
            # A method will not do: CNTK counts `self` among its arguments.
            return [C.universal(lambda own, gradients: self._equation(own, gradients), arrays)]
        spared = [name for name in self.trained if name not in decayed]
        groups = [(decayed, asked["weight_decay"]), (spared, 0.0)]
        self.groups = [(names, decay) for names, decay in groups if names]
        self.momentum = C.momentum_schedule(asked["momentum"], minibatch_size=self._batch_size())
        return [self._own_learner(names, decay) for names, decay in self.groups]

    def _batch_size(self):
        return self.spec["factors"]["batch_size"]

    def _own_learner(self, names, decay):
        arrays, rate = [self.arrays[name] for name in names], self._schedule(self.rate)
        if not self.spec["optimizer"]["momentum"]:
            return C.sgd(arrays, rate, l2_regularization_weight=decay)
        kind = C.nesterov if self.spec["optimizer"]["nesterov"] else C.momentum_sgd
        # Without unit gain v = m v + g, not m v + (1 - m) g.
        return kind(arrays, rate, self.momentum, unit_gain=False, l2_regularization_weight=decay)

    def _schedule(self, rate):
        """This rate for the mean gradient of a batch; CNTK's own would be for the sum."""
        return C.learning_parameter_schedule(rate, minibatch_size=self._batch_size())

    def _equation(self, parameters, gradients):
        """One step of the spec's update equation (docs/parity.md), as assignments."""
        told = {each["name"]: each for each in self.spec["network"]["parameters"]}
        decoupled, scalars = self.spec["optimizer"]["decoupled"], self.scalars
        updates = []
        for name, array, gradient in zip(self.trained, parameters, gradients):
            gradient = gradient * self._constant([1.0 / self._batch_size()])  # it is a sum
            if told[name]["l1"]:
                sign = C.greater(array, 0) - C.less(array, 0)
                gradient = gradient + self._constant([told[name]["l1"]]) * sign
            if told[name]["l2"]:
                gradient = gradient + self._constant([2 * told[name]["l2"]]) * array
            kept = array
            if name in self.decayed and decoupled:
                kept = array * (1 - scalars["learning_rate"] * scalars["weight_decay"])
            elif name in self.decayed:
                gradient = gradient + scalars["weight_decay"] * array
            updates.append(C.assign(array, kept - self._step(name, gradient)))
        return C.combine(updates)

    def _step(self, name, gradient):
        """What is taken off the array `name`."""
        asked, scalars = self.spec["optimizer"], self.scalars
        rate = scalars["learning_rate"]
        kept = 2 if asked["name"] == "adam" else 1 if asked["momentum"] else 0
        states = [self._parameter(np.zeros(gradient.shape)) for _ in range(kept)]
        self.states[name] = states
        if asked["name"] == "adam":
            # In single precision 1 - beta2 would lose three digits.
            new1, new2 = (self._constant([1 - asked[key]]) for key in ("beta1", "beta2"))
            mean = C.assign(states[0], scalars["beta1"] * states[0] + new1 * gradient)
            square = new2 * gradient * gradient
            square = C.assign(states[1], scalars["beta2"] * states[1] + square)
            root = C.sqrt(square) * scalars["second"] + scalars["epsilon"]
            return rate * scalars["first"] * mean / root
        if not kept:
            return rate * gradient
        velocity = C.assign(states[0], scalars["momentum"] * states[0] + gradient)
        if asked["nesterov"]:
            return rate * (gradient + scalars["momentum"] * velocity)
        return rate * velocity

    def _set_rate(self, rate):
        """Make the next step one with this rate."""
        asked = self.spec["optimizer"]
        self.steps += 1
        if rate != self.rate and self.universal:
            self.scalars["learning_rate"].value = np.array([rate], self.dtype)
        elif rate != self.rate:
            for learner in self.trainer.parameter_learners:
                learner.reset_learning_rate(self._schedule(rate))
        self.rate = rate
        if asked["name"] == "adam":
            for key, power in (("first", 1.0), ("second", 0.5)):
                beta = asked["beta1" if key == "first" else "beta2"]
                factor = (1 - beta**self.steps) ** -power
                self.scalars[key].value = np.array([factor], self.dtype)

    def load(self, images, labels):
        self.images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)
        self.labels = labels

    def _batches(self, batches):
        """Images and labels of every step."""
        if isinstance(batches, np.ndarray):
            for batch in batches:
                if self.spec["factors"]["input"] == "synthetic":
                    batch = slice(batch[0], batch[-1] + 1)
                yield self.images[batch], self.labels[batch]
            return
        for part in batches:
            for images, labels in zip(*part):
                yield images.astype(self.dtype, copy=False), labels

    def train(self, batches, rates, draws):
        losses = []
        for i, (images, labels) in enumerate(self._batches(batches)):
            if draws is not None:
                images = self._augmented(images, draws[i])
            self._set_rate(float(rates[i]))
            given = {self.image: images, self.label: self.one_hot[labels]}
            given.update((self.masks[name], mask) for name, mask in self.supplied.items())
            self.trainer.train_minibatch(given)
            losses.append(self.trainer.previous_minibatch_loss_average)
        return losses

    def _augmented(self, images, draws):
        """A batch cut out of itself with zeros around, and mirrored, as its draws say."""
        height, width, channels = self.spec["data"]["shape"]
        side = self.spec["augmentation"]["crop_padding"]
        images = np.pad(images, ((0, 0), (0, 0), (side, side), (side, side)), "constant")
        top, left, mirrored = draws.T[:, :, None]
        rows = top + np.arange(height)
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        examples = np.arange(len(draws))[:, None, None, None]
        planes = np.arange(channels)[:, None, None]
        return images[examples, planes, rows[:, None, :, None], columns[:, None, None, :]]

    def losses(self, handle):
        return np.array(handle)

    def synchronize(self):
        """CNTK's steps end before they return."""

    def logits(self, images):
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)
        given = {self.image: images}
        for mask in self.masks.values():
            given[mask] = np.ones((len(images),) + mask.shape, self.dtype)
        return self.model.eval(given)

    def set_masks(self, masks):
        self.supplied = {
            name: np.ascontiguousarray(
                mask.transpose(0, 3, 1, 2) if mask.ndim == 4 else mask, self.dtype
            )
            for name, mask in masks.items()
        }

    def prepare(self, images):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)

    def predict(self, batch):
        self.predicted = self.model.eval({self.image: batch})
        return self.predicted

    def fetched(self, handle):
        return handle

    def _computing(self):
        """What training and predicting both read back."""
        parameters = self.model.parameters
        types = {np.dtype(parameter.dtype) for parameter in parameters}
        # On some of Intel's processors AVX2 is MKL's own choice too.
        told = os.environ.get("MKL_DEBUG_CPU_TYPE")
        avx2 = told and self.mkl.mkl_serv_get_cpu_type() == AVX2
        return dict(
            threads=C.cntk_py.get_max_num_cputhreads(),
            precision=types.pop().name.replace("float", "fp") if len(types) == 1 else str(types),
            device="cpu" if C.use_default_device().type() == 0 else "gpu",
            mode="mkl_avx2" if avx2 else "default",
            parameters=sum(int(np.prod(parameter.shape)) for parameter in parameters),
        )

    def predicting(self):
        return dict(batch_size=len(self.predicted), **self._computing())

    def weights(self):
        return {name: self._canonical(name, array.value) for name, array in self.arrays.items()}

    def velocities(self):
        if self.universal:
            found = {name: self.states[name][0].value for name in self.trained}
        else:
            # CNTK's own learners keep rate v.
            found = {}
            for learner, (names, _) in zip(self.trainer.parameter_learners, self.groups):
                states = learner.create_checkpoint()["smoothed_gradients"]
                rate = learner.learning_rate()
                found.update((name, state / rate) for name, state in zip(names, states))
        return {name: self._canonical(name, array) for name, array in found.items()}

    def products(self, a, b):
        a, b = a.astype(self.dtype), b.astype(self.dtype)
        images = C.input_variable((a.shape[1], 1, 1), dtype=self.dtype)
        filters = self._constant(np.ascontiguousarray(b.T)[:, :, None, None])
        convolved = C.convolution(filters, images, auto_padding=[False])
        product = C.times(self._constant(a), self._constant(b)).eval()
        return product, convolved.eval({images: a[:, :, None, None]})[:, :, 0, 0]

    def settings(self):
        asked = self.spec["optimizer"]
        kinds = {each.create_checkpoint()["type"] for each in self.trainer.parameter_learners}
        if self.universal:
            own = {key: float(each.value[0]) for key, each in self.scalars.items()}
            del own["first"], own["second"]
            if asked["name"] == "sgd":
                own["nesterov"] = asked["nesterov"]
        else:
            rates = {learner.learning_rate() for learner in self.trainer.parameter_learners}
            own = {
                "learning_rate": rates.pop() if len(rates) == 1 else str(rates),
                "momentum": self.momentum[0],
                "nesterov": kinds == {"LearnerNesterov"},
                "weight_decay": max(decay for _, decay in self.groups),
            }
        return dict(
            own,
            optimizer=asked["name"] if self.universal else "sgd",
            batch_size=self.trainer.previous_minibatch_sample_count,
            **self._computing(),
        )

    def software(self):
        version = ctypes.create_string_buffer(200)
        self.mkl.MKL_Get_Version_String(version, len(version))
        return {"framework": "cntk", "version": C.__version__, "mkl": version.value.decode()}

    def device_memory_peak(self):
        return None

    def is_out_of_memory(self, error):
        return "bad_alloc" in str(error) or "allocate" in str(error)


def _is_another(spec):
    """Whether the update equation is one that CNTK's own learners have not.

    Their velocity is rate v, which a change of the rate would scale; they know no penalties
    of single arrays and coupled decay alone; their Adam adds epsilon before its corrections.
    """
    asked, schedule = spec["optimizer"], spec["schedule"]
    if asked["name"] != "sgd" or (asked["decoupled"] and asked["weight_decay"]):
        return True
    arrays = [each for each in spec["network"]["parameters"] if each["trainable"]]
    if any(each["l1"] or each["l2"] for each in arrays):
        return True
    constant = schedule["name"] == "constant" and not schedule["warmup_epochs"]
    return bool(asked["momentum"]) and not constant


def _padded(x, layer, shape, window, value):
    """The image as CNTK's convolution or pooling takes it, and how that is told to pad it.

    That is a list of booleans by axis, and whether to use the ceiling. CNTK pads an axis with
    (window - 1) // 2 values in front and as many behind as ceil(length / stride) windows want,
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


def _covered(layer, shape, axis):
    """How many pixels of the image every window of a pooling has along an axis, int array."""
    begin = np.arange(layer["shape"][axis]) * layer["stride"] - layer["padding"][2 * axis]
    return np.minimum(begin + layer["size"], shape[axis]) - np.maximum(begin, 0)


def _dilated(kernel, dilation):
    """The kernel with zeros between its values; CNTK has no dilated convolution on CPUs."""
    filters, channels, height, width = kernel.shape
    gaps = [(0, 0), (0, 0), (0, 0), (0, dilation - 1), (0, 0), (0, dilation - 1)]
    spread = C.reshape(kernel, (filters, channels, height, 1, width, 1))
    spread = C.pad(spread, gaps, C.CONSTANT_PAD, 0)
    spread = C.reshape(spread, (filters, channels, height * dilation, width * dilation))
    ends = [size * dilation - dilation + 1 for size in (height, width)]
    return C.slice(spread, [2, 3], [0, 0], ends)


def _depthwise(x, kernel, layer):
    """The convolution of every channel by itself: a sum of moved images, each times its weights.

    CNTK's own takes minutes for a step of Xception; this takes 1.6 s (docs/parity.md).
    """
    sides, (height, width, _) = layer["padding"], layer["shape"]
    x = C.pad(x, [(0, 0), tuple(sides[:2]), tuple(sides[2:])], C.CONSTANT_PAD, 0)
    moved = []
    for row in range(kernel.shape[2]):
        for column in range(kernel.shape[3]):
            window = C.slice(x, [1, 2], [row, column], [row + height, column + width])
            weights = C.slice(kernel, [2, 3], [row, column], [row + 1, column + 1])
            moved.append(window * C.reshape(weights, (kernel.shape[0], 1, 1)))
    return sum(moved[1:], moved[0])


def _channels_first(shape):
    return tuple(shape[2:] + shape[:2])


def _has_avx2():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " avx2 " in file.read()


def _listed(stem):
    """The PNG files of a split and their labels, in stored order.

    Raises ValueError if its map file is damaged.
    """
    path = stem + ".map"
    folder = os.path.dirname(path)
    found = []
    with open(path, encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines):
            name, tab, label = line.rstrip("\n").partition("\t")
            if not (name.startswith(".../") and label.isdigit() and line.endswith("\n")):
                raise ValueError("{}: line {} is damaged".format(path, number + 1))
            found.append((os.path.join(folder, name[4:]), int(label)))
    if not found:
        raise ValueError("{}: it lists no files".format(path))
    return found


def _decoded(path, shape, check=False):
    """A PNG file's pixels, uint8 of `shape`; with `check` it is looked through, and None.

    Raises ValueError if it is damaged or has another shape.
    """
    try:
        with Image.open(path) as image:
            found = (image.height, image.width, len(image.getbands()))
            if found != tuple(shape):
                raise ValueError("its shape is {}, not {}".format(found, tuple(shape)))
            if check:
                return image.verify()
            return np.asarray(image).reshape(shape)
    except (OSError, SyntaxError, ValueError) as fault:
        raise ValueError("{}: {}".format(path, fault)) from None
