"""TensorFlow: the graph as raw operations in one `tf.function` that loops over a chunk.

Images stay in TensorFlow's own order (batch, height, width, channels); weights are
reordered from the canonical layout once, when the network is built.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
WITH_ONEDNN = os.environ.get("TOUCHSTONE_MODE") == "function_onednn"
if WITH_ONEDNN:
    # TensorFlow chooses its kernels when it is imported.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import config as internal_config  # noqa: E402
from tensorflow.python.util import _pywrap_util_port as port  # noqa: E402

MODES = ("function", "function_onednn", "xla")
"""With oneDNN's kernels only on processors for which TensorFlow uses them by itself; with them on
any; or compiled by XLA."""
RECORD_FORMAT = "tfrecord"
RELEASED = "2026-03"
REPLICAS = "devices"
NO_NODES = (
    "TensorFlow's replicas are devices of one process here (MirroredStrategy);"
    " MultiWorkerMirroredStrategy is not used"
)

PRECISIONS = {
    (tf.float32, tf.float32): "fp32",
    (tf.float64, tf.float64): "fp64",
    (tf.float32, tf.bfloat16): "bf16",
    (tf.float32, tf.float16): "fp16-amp",
}
"""By the types of the variables and of the products."""
PRODUCTS = ("MatMul", "Conv2D", "DepthwiseConv2dNative")
COMPUTED = {"fp64": tf.float64, "bf16": tf.bfloat16, "fp16-amp": tf.float16}
"""What the layers compute in, where it is not single precision."""
FIRST_SCALE, GROWTH = 2.0**15, 2000
"""Of the dynamic loss scaling, as in Keras's LossScaleOptimizer: where it begins, and after how
many finite steps it doubles; it halves after every other one."""


def _constant(op, place):
    """A scalar that an operation of the graph was built with."""
    return float(tf.get_static_value(op.inputs[place]))


UPDATES = {
    "ResourceApplyGradientDescent": lambda op: {
        "optimizer": "sgd",
        "momentum": 0.0,
        "nesterov": False,
    },
    "ResourceApplyMomentum": lambda op: {
        "optimizer": "sgd",
        "momentum": _constant(op, 4),
        "nesterov": op.get_attr("use_nesterov"),
    },
    "ResourceApplyAdam": lambda op: {
        "optimizer": "adam",
        "beta1": _constant(op, 6),
        "beta2": _constant(op, 7),
    },
}
"""What the kernels of the update equations were built with, by their types."""


def _mode(compiled):
    """The mode that is in effect."""
    if compiled:
        return "xla"
    return "function_onednn" if WITH_ONEDNN and port.IsMklEnabled() else "function"


class Adapter:
    """See runtime.py."""

    DIFFERS = {
        "gpu": (
            "GPU memory grows as it is needed; by itself TensorFlow takes nearly all of it at once",
            "products in fp32 do not round to TF32; by itself TensorFlow lets them",
        ),
    }

    def __init__(self, spec, threads):
        self.spec, self.replicas = spec, spec["execution"].get("replicas", 1)
        threads *= self.replicas  # which share one pool
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        precision = spec["execution"]["precision"]
        if WITH_ONEDNN and spec["execution"]["device"] == "gpu":
            raise NotImplementedError("function_onednn chooses kernels for CPUs; use function")
        if WITH_ONEDNN and not port.IsMklEnabled():
            raise NotImplementedError("this build of TensorFlow has no kernels of oneDNN")
        if precision == "tf32" and spec["execution"]["device"] == "cpu":
            raise NotImplementedError("TF32 is arithmetic of NVIDIA's GPUs, which no CPU has")
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
        devices = tf.config.list_physical_devices("GPU")
        if spec["execution"]["device"] == "cpu":
            tf.config.set_visible_devices([], "GPU")
        elif not devices:
            raise NotImplementedError("TensorFlow sees no GPU")
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        self.strategy, self.places = None, [None]
        if self.replicas > 1:
            self.places = self._places(len(devices))
        self.supplied = spec["execution"].get("dropout") == "supplied"
        self.optimizer = spec["optimizer"]
        self.dtype = tf.float64 if precision == "fp64" else tf.float32
        self.computed = COMPUTED.get(precision, tf.float32)
        self.scaled = precision == "fp16-amp"

    def _places(self, gpus):
        """The devices of the replicas: GPUs, or as many logical devices of the CPU."""
        execution = self.spec["execution"]
        if execution["mode"] == "xla":
            raise NotImplementedError(
                "XLA compiles a whole step here, which replicas would have to leave to exchange"
                " gradients"
            )
        if execution["precision"] == "fp16-amp":
            raise NotImplementedError("fp16-amp has one loss scale here, for one replica")
        if execution["device"] == "cpu":
            (cpu,) = tf.config.list_physical_devices("CPU")
            logical = [tf.config.LogicalDeviceConfiguration() for _ in range(self.replicas)]
            tf.config.set_logical_device_configuration(cpu, logical)
        elif gpus < self.replicas:
            message = "TensorFlow sees {} GPUs of the {} asked for"
            raise NotImplementedError(message.format(gpus, self.replicas))
        return [f"{execution['device'].upper()}:{i}" for i in range(self.replicas)]

    def make_deterministic(self):
        tf.random.set_seed(self.spec["seed"])
        tf.config.experimental.enable_op_determinism()

    def asked(self):
        scaling = {"loss_scaling": "dynamic"} if self.scaled else {}
        return {"inter_op_threads": None, "layout": "NHWC", "onednn": None, **scaling}

    def hints(self):
        execution = self.spec["execution"]
        if execution["device"] == "gpu" or execution["mode"] == "xla" or port.IsMklEnabled():
            return []
        return [
            "TensorFlow does not use oneDNN's kernels on this processor unless asked to; the mode "
            "function_onednn asks for them and may be much faster"
        ]

    def read(self, stems, shape):
        parts = []
        for path in [stem + ".tfrecord" for stem in stems]:
            images, labels = self._parsed(_records(path), path)
            parts.append((images.numpy().reshape(-1, *shape), labels.numpy()))
        return tuple(map(np.concatenate, zip(*parts)))

    def open(self, stems):
        # TensorFlow cannot read a TFRecord out of turn, so the records wait in memory as they
        # are in the file, as those of `tf.data.Dataset.cache()` do.
        data, parts = self.spec["data"], []
        size = int(np.prod(data["shape"]))
        for path in [stem + ".tfrecord" for stem in stems]:
            records = _records(path)
            parts.append(records)
            for start in range(0, len(records), 1024):
                labels = self._parsed(records[start : start + 1024], path)[1].numpy()
                wrong = labels[(labels < 0) | (labels >= data["classes"])]
                if len(wrong):
                    message = "{}: a record has the label {}, the spec says {} classes"
                    raise ValueError(message.format(path, wrong[0], data["classes"]))
        self.records = tf.concat(parts, 0)
        # As large as a batch: TensorFlow's kernels are slow where they must broadcast. Division
        # by a constant would become multiplication by its rounded inverse.
        batch_size = self.spec["factors"]["batch_size"]
        tiles = batch_size // self.replicas, size // len(data["mean"])
        self.scales = []
        for place in self.places:
            with tf.device(place):
                white = tf.Variable(float(data.get("white", 255)), trainable=False)
                mean, std = (
                    tf.constant(np.tile(np.float32(data[key]), tiles)) for key in ("mean", "std")
                )
            self.scales.append((white, mean, std))
        signature = [tf.TensorSpec([None, batch_size], tf.int64)]
        self.parse = tf.function(self._parse, input_signature=signature)
        return len(self.records)

    def _parse(self, indices):
        pixels, labels = self._examples(tf.gather(self.records, tf.reshape(indices, [-1])))
        size = int(np.prod(self.spec["data"]["shape"]))
        rows = tf.reshape(pixels, [-1, self.spec["factors"]["batch_size"], size])
        return rows, tf.reshape(labels, tf.shape(indices))

    def fetch(self, indices):
        return self.parse(tf.constant(indices))

    def _examples(self, records):
        """Pixels, uint8 (records, pixels of an image), and labels of serialised records."""
        features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        parsed = tf.io.parse_example(records, features)
        if self.spec["data"]["encoding"] == "raw":
            return tf.io.decode_raw(parsed["image"], tf.uint8), parsed["label"]
        pixels = tf.map_fn(self._photo, parsed["image"], fn_output_signature=tf.uint8)
        return pixels, parsed["label"]

    def _photo(self, encoded):
        """The middle of a JPEG file as a row of pixels; TensorFlow refuses a smaller one."""
        height, width, channels = self.spec["data"]["shape"]
        image = tf.io.decode_jpeg(encoded, channels, dct_method="INTEGER_ACCURATE")
        top, left = (tf.shape(image)[0] - height) // 2, (tf.shape(image)[1] - width) // 2
        image = tf.image.crop_to_bounding_box(image, top, left, height, width)
        return tf.reshape(image, [height * width * channels])

    def _parsed(self, records, path):
        """See `_examples`; raises ValueError if an image has another size than the spec says."""
        try:
            pixels, labels = self._examples(records)
        except (tf.errors.InvalidArgumentError, ValueError) as fault:
            raise ValueError("{}: {}".format(path, fault)) from None
        size = int(np.prod(self.spec["data"]["shape"]))
        if pixels.shape[1] != size:
            message = "{}: a record has {} bytes of pixels, not {}"
            raise ValueError(message.format(path, pixels.shape[1], size))
        return pixels, labels

    def build(self, weights):
        self.layers = self.spec["network"]["layers"]
        self.by_name = {layer["name"]: layer for layer in self.layers}
        self.parameters = {p["name"]: p for p in self.spec["network"]["parameters"]}
        self.trained = [name for name, p in self.parameters.items() if p["trainable"]]
        if self.replicas > 1:
            self.strategy = tf.distribute.MirroredStrategy(self.places)
        self.copies = []
        for place in self.places:
            with tf.device(place):
                self.copies.append(self._copy(weights))
        self.steps = 0
        self.loss_scale = tf.Variable(FIRST_SCALE, trainable=False)
        self.finite_steps = tf.Variable(0, trainable=False)
        self.last_scalars = tf.Variable(tf.zeros(3, self.dtype), trainable=False)
        self.masks = {}
        self.forward = tf.function(lambda images: self._forward(images, False), autograph=False)
        size = self.spec["factors"]["batch_size"]
        batches = tf.TensorSpec([None, size], tf.int64)
        if self.spec["factors"]["input"] == "records":
            pixels = int(np.prod(self.spec["data"]["shape"]))
            batches = tf.TensorSpec([None, size, pixels], tf.uint8), batches
        signature = [
            batches,
            tf.TensorSpec([None, 3], self.dtype),
            tf.TensorSpec([None, size, 3], tf.int32),
        ]
        # XLA compiles for fixed shapes, and chunks differ in length: so a step, not a chunk.
        xla = self.spec["execution"]["mode"] == "xla"
        self.dilates = self.computed == tf.float32 and (xla or self._dilates())
        compiled = tf.function(self._step, jit_compile=True, autograph=False)
        self.step = compiled if xla else self._step
        # Rewriting Python into a graph took longer than all else of the first step.
        self.chunk = tf.function(self._chunk, input_signature=signature, autograph=False)
        predictor = tf.function(self.forward.python_function, jit_compile=True, autograph=False)
        self.predictor = self.forward
        if xla:
            self.predictor = tf.function(lambda images: predictor(images), autograph=False)

    def _dilates(self):
        """Whether the kernels have gradients of dilated convolutions: on CPUs only oneDNN's have,
        which TensorFlow uses by itself only on processors with VNNI, AVX-512 BF16 or AMX."""
        if all(layer.get("dilation", 1) == 1 for layer in self.layers):
            return True
        with tf.device(self.places[0]), tf.GradientTape() as tape:
            weight = tf.ones([2, 2, 1, 1])
            tape.watch(weight)
            output = tf.nn.conv2d(tf.ones([1, 3, 3, 1]), weight, 1, "VALID", dilations=2)
        try:
            tape.gradient(output, weight)
        except tf.errors.InvalidArgumentError:
            return False
        return True

    def _copy(self, weights):
        """The variables and the optimiser's states of a replica."""
        variables = {
            name: tf.Variable(
                self._native(name, array),
                self.parameters[name]["trainable"],
                name=name.replace(".", "_"),
                dtype=self.dtype,
            )
            for name, array in weights.items()
        }
        count = 2 if self.optimizer["name"] == "adam" else bool(self.optimizer["momentum"])
        states = {
            name: [
                tf.Variable(tf.zeros_like(variables[name]), trainable=False) for _ in range(count)
            ]
            for name in self.trained
        }
        return variables, states

    def _replica(self):
        """The number of the replica whose part of a step is being traced; 0 outside of one."""
        inside = tf.distribute.get_replica_context() if self.strategy else None
        return int(tf.get_static_value(inside.replica_id_in_sync_group)) if inside else 0

    @property
    def variables(self):
        return self.copies[self._replica()][0]

    @property
    def states(self):
        return self.copies[self._replica()][1]

    def _native(self, name, array):
        """A canonical array in TensorFlow's layout."""
        layer = self.by_name[name.split(".")[0]]
        if layer["op"] in ("embedding", "position"):
            return array
        if layer["op"] == "lstm":
            return array.T
        if array.ndim == 4:
            if layer["groups"] > 1 and array.shape[1] == 1:
                filters, _, height, width = array.shape
                array = array.reshape(layer["groups"], -1, height, width)
                return array.transpose(2, 3, 0, 1)
            return array.transpose(2, 3, 1, 0)
        if array.ndim == 2:
            return _rows_last(array, layer["image"]).T
        return array

    def _canonical(self, name, array):
        """What `_native` was made from."""
        layer = self.by_name[name.split(".")[0]]
        if layer["op"] in ("embedding", "position"):
            return array
        if layer["op"] == "lstm":
            return array.T
        if array.ndim == 4:
            if layer["groups"] > 1 and array.shape[2] == layer["groups"]:
                height, width = array.shape[:2]
                return array.transpose(2, 3, 0, 1).reshape(-1, 1, height, width)
            return array.transpose(3, 2, 0, 1)
        if array.ndim == 2:
            array = array.T
            if layer["image"]:
                height, width, channels = layer["image"]
                array = array.reshape(-1, height, width, channels).transpose(0, 3, 1, 2)
            return array.reshape(len(array), -1)
        return array

    def set_masks(self, masks):
        for name, mask in masks.items():
            mask = _rows_last(mask, self.by_name[name]["image"])
            if name in self.masks:
                self.masks[name].assign(mask)
            else:
                self.masks[name] = tf.Variable(mask, trainable=False, dtype=self.dtype)

    def load(self, images, labels):
        self.sets = []
        for place in self.places:
            with tf.device(place):
                self.sets.append((tf.constant(images, self.dtype), tf.constant(labels)))

    def _forward(self, images, training):
        values = {"input": tf.cast(images, self.computed)}  # the bytes of a text stay exact
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            values[layer["name"]] = self._layer(layer, inputs, training)
        return tf.cast(values[self.spec["network"]["output"]], self.dtype)

    def _read(self, name):
        """An array of a layer in the type that the network is computed in."""
        return tf.cast(self.variables[name], self.computed)

    def _layer(self, layer, inputs, training):
        name, op, x = layer["name"], layer["op"], inputs[0]
        if op == "conv":
            x = self._conv(layer, x)
            return tf.nn.bias_add(x, self._read(name + ".bias")) if layer["bias"] else x
        if op == "dense":
            rows = tf.reshape(x, [-1, x.shape[-1]]) if len(x.shape) == 3 else x
            rows = tf.matmul(rows, self._read(name + ".weight"))
            if layer["bias"]:
                rows = tf.nn.bias_add(rows, self._read(name + ".bias"))
            return tf.reshape(rows, [-1, *layer["shape"]]) if len(x.shape) == 3 else rows
        if op == "batch_norm":
            return self._batch_norm(layer, x, training)
        if op == "lrn":
            return _lrn(x, layer)
        if op == "max_pool":
            x, padding = _padded(x, layer, [layer["size"]] * 2, x.dtype.min)
            return tf.nn.max_pool2d(x, layer["size"], layer["stride"], padding)
        if op == "avg_pool":
            return _average(x, layer)
        if op == "global_avg_pool":
            return tf.reduce_mean(x, [1, 2])
        if op == "relu":
            return tf.nn.relu(x)
        if op == "dropout":
            if not training:
                return x
            if self.supplied:
                return x * tf.cast(self.masks[name], x.dtype)
            return tf.nn.dropout(x, layer["rate"])
        if op == "add":
            return tf.add_n(inputs)
        if op == "concat":
            return tf.concat(inputs, 3)
        if op == "flatten":
            return tf.reshape(x, [tf.shape(x)[0], np.prod(x.shape[1:])])
        if op == "embedding":
            rows = tf.gather(self.variables[name + ".weight"], tf.cast(x[:, :, 0, 0], tf.int32))
            return tf.cast(rows, self.computed)
        if op == "position":
            return x + self._read(name + ".weight")
        if op == "layer_norm":
            scale, offset = (self._read(name + kind) for kind in (".scale", ".offset"))
            mean, variance = tf.nn.moments(x, [2], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, layer["epsilon"])
        if op == "attention":
            return _attention(x, layer["heads"])
        if op == "mean_over_steps":
            return tf.reduce_mean(x, 1)
        if op == "lstm":
            own = (self._read(name + kind) for kind in (".weight", ".recurrent", ".bias"))
            return _lstm(layer, x, *own)
        raise NotImplementedError("TensorFlow's adapter has no layer " + op)

    def _conv(self, layer, x):
        weight, stride, dilation = (
            self._read(layer["name"] + ".weight"),
            layer["stride"],
            layer["dilation"],
        )
        x, padding = _padded(x, layer, layer["kernel"], 0)
        if dilation > 1 and not self.dilates:
            weight, dilation = _spread(weight, dilation), 1
        groups = layer["groups"]
        if groups > 1 and weight.shape[2] == groups:
            strides = [1, stride, stride, 1]
            return tf.nn.depthwise_conv2d(
                x, weight, strides, padding, dilations=[dilation, dilation]
            )
        # TensorFlow's CPU kernel knows no groups.
        parts = (
            zip(tf.split(x, groups, 3), tf.split(weight, groups, 3))
            if groups > 1
            else [(x, weight)]
        )
        parts = [tf.nn.conv2d(a, w, stride, padding, dilations=dilation) for a, w in parts]
        return tf.concat(parts, 3) if groups > 1 else parts[0]

    def _batch_norm(self, layer, x, training):
        scale, offset, mean, variance = (
            self.variables[layer["name"] + "." + kind]
            for kind in ("scale", "offset", "mean", "variance")
        )
        if self.dtype == tf.float64:
            return self._batch_norm_fp64(layer, x, scale, offset, mean, variance, training)
        if not training:
            return tf.compat.v1.nn.fused_batch_norm(
                x, scale, offset, mean, variance, layer["epsilon"], is_training=False
            )[0]
        # The kernel averages the running statistics itself, the variance as the unbiased one.
        x, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, mean, variance, layer["epsilon"], is_training=True,
            exponential_avg_factor=1 - layer["momentum"],
        )  # fmt: skip
        mean.assign(batch_mean)
        variance.assign(batch_variance)
        return x

    def _batch_norm_fp64(self, layer, x, scale, offset, mean, variance, training):
        """TensorFlow's kernel has no double precision: the same in its operations."""
        if not training:
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, layer["epsilon"])
        batch_mean, biased = tf.nn.moments(x, [0, 1, 2])
        count = tf.cast(tf.size(x) / x.shape[3], x.dtype)
        keep = 1 - layer["momentum"]
        mean.assign_sub((mean - batch_mean) * keep)
        variance.assign_sub((variance - biased * count / (count - 1)) * keep)
        return tf.nn.batch_normalization(x, batch_mean, biased, offset, scale, layer["epsilon"])

    def _gathered(self, batches):
        """For each replica, the images and labels of a whole chunk (docs/performance.md)."""
        parts = []
        for i, place in enumerate(self.places):
            rows = batches[:, self._part(i)]
            with tf.device(place):
                parts.append([tf.gather(array, rows) for array in self.sets[i]])
        return parts

    def _batch(self, batches, i):
        """Images and labels of step `i` of a chunk, of a replica its share."""
        kind, replica = self.spec["factors"]["input"], self._replica()
        if kind == "memory":
            images, labels = batches[replica]
            return images[i], labels[i]
        if kind == "synthetic":
            rows = self._share(batches[i])
            return [_neighbours(whole, rows) for whole in self.sets[replica]]
        pixels, labels = (self._share(part[i]) for part in batches)
        white, mean, std = self.scales[replica]
        rows = (tf.cast(pixels, tf.float32) / white - mean) / std
        images = tf.reshape(rows, [-1, *self.spec["data"]["shape"]])
        return tf.cast(images, self.dtype), labels

    def _share(self, batch):
        """What of a batch is that of the replica that is being traced."""
        return batch[self._part(self._replica())] if self.strategy else batch

    def _part(self, replica):
        """Which examples of a batch are a replica's."""
        size = self.spec["factors"]["batch_size"] // self.replicas
        return slice(replica * size, (replica + 1) * size)

    def _step(self, images, labels, scalars, draws):
        if self.spec["augmentation"]:
            images = self._augmented(images, draws)
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, self._forward(images, True)
            )
            loss = tf.reduce_mean(each)
            target = loss * self.loss_scale if self.scaled else loss
        gradients = tape.gradient(target, [self.variables[name] for name in self.trained])
        if self.strategy:
            gradients = tf.distribute.get_replica_context().all_reduce("MEAN", gradients)
        if self.scaled:
            self._update_if_finite([g / self.loss_scale for g in gradients], scalars)
        else:
            self._update_all(gradients, scalars)
        return loss

    def _update_if_finite(self, gradients, scalars):
        """Leave the step out where a gradient is not finite; change the loss scale after it."""

        def taken():
            self._update_all(gradients, scalars)
            steps = self.finite_steps + 1
            grows = steps >= GROWTH
            factor = tf.where(grows, 2.0, 1.0)
            return self.loss_scale * factor, tf.where(grows, 0, steps)

        def left_out():
            return self.loss_scale / 2, tf.constant(0)

        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in gradients])
        scale, steps = tf.cond(finite, taken, left_out)
        self.loss_scale.assign(scale)
        self.finite_steps.assign(steps)

    def _update_all(self, gradients, scalars):
        for name, gradient in zip(self.trained, gradients):
            self._update(name, tf.convert_to_tensor(gradient), scalars)

    def _update(self, name, gradient, scalars):
        """The update equation with TensorFlow's own kernels; `scalars` as in `_scalars`."""
        asked, variable, parameter = self.optimizer, self.variables[name], self.parameters[name]
        if parameter["l1"]:
            gradient += parameter["l1"] * tf.sign(variable)
        if parameter["l2"]:
            gradient += 2 * parameter["l2"] * variable
        decay = asked["weight_decay"]
        if decay and name.split(".")[1] not in asked["spared"]:
            if asked["decoupled"]:
                variable.assign(variable * (1 - scalars[0] * decay))
            else:
                gradient += decay * variable
        handles = [state.handle for state in self.states[name]]
        if asked["name"] == "adam":
            zero = tf.zeros([], self.dtype)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=handles[0],
                v=handles[1],
                beta1_power=zero,
                beta2_power=zero,
                lr=scalars[1],
                beta1=asked["beta1"],
                beta2=asked["beta2"],
                epsilon=scalars[2],
                grad=gradient,
            )
        elif handles:
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=handles[0],
                lr=scalars[0],
                grad=gradient,
                momentum=asked["momentum"],
                use_nesterov=asked["nesterov"],
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=scalars[0], delta=gradient
            )

    def _augmented(self, images, draws):
        """A batch cut out of itself with zeros around, and mirrored, as its draws say."""
        height, width, _ = self.spec["data"]["shape"]
        padding = [self.spec["augmentation"]["crop_padding"]] * 2
        images = tf.pad(images, [[0, 0], padding, padding, [0, 0]])
        top, left, mirrored = tf.unstack(draws, axis=1)
        columns = tf.range(width)
        columns = tf.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        images = tf.gather(images, top[:, None] + tf.range(height), axis=1, batch_dims=1)
        return tf.gather(images, left[:, None] + columns, axis=2, batch_dims=1)

    def _chunk(self, batches, scalars, draws):
        steps = tf.shape(scalars)[0]
        columns = tf.unstack(scalars, axis=1)
        if self.spec["factors"]["input"] == "memory":
            batches = self._gathered(batches)

        def one(i):
            cut = self._share(draws[i]) if self.spec["augmentation"] else None
            images, labels = self._batch(batches, i)
            return self.step(images, labels, [column[i] for column in columns], cut)

        def step(i, losses):
            if not self.strategy:
                return i + 1, losses.write(i, one(i))
            each = self.strategy.run(one, (i,))
            return i + 1, losses.write(i, self.strategy.reduce("MEAN", each, axis=None))

        start = 0, tf.TensorArray(self.dtype, size=steps)
        _, losses = tf.while_loop(lambda i, _: i < steps, step, start)
        self.last_scalars.assign(scalars[steps - 1])
        return losses.stack()

    def _scalars(self, rates):
        """What the kernels want of every step: rate, and Adam's corrected rate and epsilon.

        Adam's kernel would make its corrections in single precision, and adds epsilon before
        that of the square root: they are made here.
        """
        scalars = np.zeros((len(rates), 3))
        scalars[:, 0] = rates
        if self.optimizer["name"] == "adam":
            t = self.steps + 1 + np.arange(len(rates))
            root = np.sqrt(1 - self.optimizer["beta2"] ** t)
            scalars[:, 1] = rates * root / (1 - self.optimizer["beta1"] ** t)
            scalars[:, 2] = self.optimizer["epsilon"] * root
        return tf.constant(scalars, self.dtype)

    def train(self, batches, rates, draws):
        scalars = self._scalars(rates)
        self.steps += len(rates)
        if isinstance(batches, np.ndarray):
            batches = tf.constant(batches)
        else:
            batches = tuple(tf.concat(p, 0) if len(p) > 1 else p[0] for p in zip(*batches))
        if draws is None:
            draws = np.empty((0, self.spec["factors"]["batch_size"], 3), np.int32)
        return self.chunk(batches, scalars, tf.constant(draws))

    def losses(self, handle):
        return handle.numpy()

    def synchronize(self):
        if self.spec["execution"]["device"] == "gpu":
            tf.test.experimental.sync_devices()

    def logits(self, images):
        return self.forward(tf.constant(images, self.dtype)).numpy()

    def prepare(self, images):
        return images.astype(self.dtype.as_numpy_dtype, copy=False)

    def predict(self, batch):
        self.predicted = batch
        return self.predictor(tf.constant(batch))

    def fetched(self, handle):
        return handle.numpy()

    def predicting(self):
        seen = tf.TensorSpec(self.predicted.shape, self.dtype)
        graph = self.predictor.get_concrete_function(seen).graph
        compiled = _compiled(graph)
        layouts = {
            op.get_attr("data_format").decode()
            for op in (compiled or graph).get_operations()
            if "data_format" in op.node_def.attr
        }
        variables = list(self.variables.values())
        return {
            "batch_size": int(graph.inputs[0].shape[0]),
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads()
            or "automatic",
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": ", ".join(sorted(layouts)),
            "precision": self._precision((compiled or graph).get_operations()),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": _mode(compiled),
            "onednn": port.IsMklEnabled(),
            "parameters": sum(int(np.prod(self.variables[n].shape)) for n in self.trained),
        }

    def weights(self):
        return {name: self._canonical(name, v.numpy()) for name, v in self.variables.items()}

    def velocities(self):
        return {name: self._canonical(name, own[0].numpy()) for name, own in self.states.items()}

    def products(self, a, b):
        xla = self.spec["execution"]["mode"] == "xla"

        @tf.function(jit_compile=xla, autograph=False)
        def both(a, b):
            a, b = tf.cast(a, self.computed), tf.cast(b, self.computed)
            convolved = tf.nn.conv2d(a[:, None, None], b[None, None], 1, "VALID")[:, 0, 0]
            return tf.cast(tf.matmul(a, b), self.dtype), tf.cast(convolved, self.dtype)

        return tuple(p.numpy() for p in both(*(tf.constant(x, self.dtype) for x in (a, b))))

    def settings(self):
        variables = list(self.variables.values())
        step = self.chunk.get_concrete_function()
        loops = [op for op in step.graph.get_operations() if op.type in ("While", "StatelessWhile")]
        body = step.graph._get_function(loops[0].get_attr("body").name).graph
        compiled = _compiled(body)
        operations = _with_branches(compiled or body)
        updates = [op for op in operations if op.type in UPDATES]
        layouts = {
            op.get_attr("data_format").decode()
            for op in operations
            if "data_format" in op.node_def.attr
        }
        told = _told([UPDATES[op.type](op) for op in updates])
        if self.strategy:
            told["replicas"] = len({op.device for op in updates})
        rate, _, epsilon = map(float, self.last_scalars.numpy())
        if told["optimizer"] == "adam":
            told["epsilon"] = epsilon / (1 - self.optimizer["beta2"] ** self.steps) ** 0.5
        return {
            **told,
            "learning_rate": rate,
            "weight_decay": self.optimizer["weight_decay"],
            "batch_size": int(step.inputs[0].shape[1]),
            "threads": tf.config.threading.get_intra_op_parallelism_threads() // self.replicas,
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads()
            or "automatic",
            # TensorFlow's public interface only sets it.
            "deterministic": internal_config.is_op_determinism_enabled(),
            "layout": ", ".join(sorted(layouts)),
            **({"loss_scaling": "dynamic"} if _conditional(operations) else {}),
            "precision": self._precision(operations),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": _mode(compiled),
            "onednn": port.IsMklEnabled(),
            "parameters": sum(int(np.prod(self.variables[n].shape)) for n in self.trained),
        }

    def _precision(self, operations):
        """That of the variables and of a step's products, and whether TF32 is allowed."""
        types = {variable.dtype for variable in self.variables.values()}
        products = {op.get_attr("T") for op in operations if op.type in PRODUCTS}
        found = PRECISIONS.get((*types, *products), str([*types, *products]))
        allowed = tf.config.experimental.tensor_float_32_execution_enabled()
        return "tf32" if found == "fp32" and allowed else found

    def software(self):
        build = tf.sysconfig.get_build_info()
        return {
            "framework": "tensorflow",
            "version": tf.__version__,
            "cuda": build.get("cuda_version"),
            "cudnn": build.get("cudnn_version"),
        }

    def device_memory_peak(self):
        if self.spec["execution"]["device"] == "cpu":
            return None
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20

    def is_out_of_memory(self, error):
        return isinstance(error, tf.errors.ResourceExhaustedError)

    def why_unsupported(self, error):
        # Determinism, where an operation or XLA has none; what XLA does not know at all.
        words = ("determinis", "Detected unsupported operations")
        lines = str(error).splitlines() if isinstance(error, tf.errors.OpError) else []
        return next((line for line in lines if any(word in line for word in words)), None)


def _records(path):
    """The records of a file, serialised, as a tensor; raises ValueError if it is damaged."""
    try:
        parts = list(tf.data.TFRecordDataset(path).batch(1024))
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as fault:
        raise ValueError("{}: {}".format(path, fault.message)) from None
    return tf.concat(parts, 0) if parts else tf.constant([], tf.string)


def _compiled(graph):
    """The graph of the function that `graph` calls and XLA must compile, or None."""
    for op in graph.get_operations():
        if "_XlaMustCompile" in op.node_def.attr and op.get_attr("_XlaMustCompile"):
            return graph._get_function(op.get_attr("f").name).graph
    return None


def _conditional(operations):
    """Those of the operations that run one of two branches."""
    return [op for op in operations if op.type in ("If", "StatelessIf")]


def _with_branches(graph):
    """The operations of a graph, and those that it runs where a condition holds."""
    found = graph.get_operations()
    for op in _conditional(found):
        found = found + graph._get_function(op.get_attr("then_branch").name).graph.get_operations()
    return found


def _told(updates):
    """What all updates have alike; a list of what they have, where they differ."""
    told = {}
    for key in updates[0]:
        values = {update[key] for update in updates}
        told[key] = values.pop() if len(values) == 1 else sorted(values)
    return told


def _spread(weight, dilation):
    """A filter with the zeros of its dilation, where the kernels do not know it."""
    height, width, channels, filters = weight.shape
    wide = tf.reshape(weight, [height, 1, width, 1, channels, filters])
    more = [0, dilation - 1]
    wide = tf.pad(wide, [[0, 0], more, [0, 0], more, [0, 0], [0, 0]])
    wide = tf.reshape(wide, [height * dilation, width * dilation, channels, filters])
    return wide[: (height - 1) * dilation + 1, : (width - 1) * dilation + 1]


def _neighbours(whole, rows):
    """Those rows of an array, which lie together: where its alignment allows it, not a copy."""
    found = whole[rows[0] : rows[0] + rows.shape[0]]
    found.set_shape([rows.shape[0], *whole.shape[1:]])
    return found


def _rows_last(array, image):
    """Vectors of a flattened image, (channel, row, column), in TensorFlow's order of pixels."""
    if not image:
        return array
    height, width, channels = image
    array = array.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return array.reshape(len(array), -1)


def _lstm(layer, x, w, u, b):
    """An LSTM, step by step; the inputs of all steps are multiplied at once.

    TensorFlow's own kernel, BlockLSTM, took 1.8 times the CPU time of a loop on a CPU, and knows
    neither double precision nor XLA (docs/architecture.md).
    """
    steps, features = x.shape[1:]
    rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, features])
    inputs = tf.reshape(tf.nn.bias_add(tf.matmul(rows, w), b), [steps, -1, 4 * layer["units"]])
    h = c = tf.zeros([tf.shape(x)[0], layer["units"]], x.dtype)
    states = []
    for own in tf.unstack(inputs):
        i, f, g, o = tf.split(own + tf.matmul(h, u), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        states.append(h)
    return tf.stack(states, 1) if layer["sequence"] else h


def _attention(x, heads):
    """Self-attention of queries, keys and values that lie side by side."""
    steps, width = x.shape[1], x.shape[2] // 3
    parts = tf.reshape(x, [-1, steps, 3, heads, width // heads])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    shares = tf.nn.softmax(tf.matmul(q * (width // heads) ** -0.5, k, transpose_b=True))
    found = tf.transpose(tf.matmul(shares, v), [0, 2, 1, 3])
    return tf.reshape(found, [-1, steps, width])


def _padded(x, layer, size, value):
    """The images and the padding that TensorFlow's own kernels are fast with.

    Its convolution with explicit padding is a slow path on CPUs, so what is neither "VALID"
    nor "SAME" is an operation before the kernel, which pads with `value`.
    """
    top, bottom, left, right = layer["padding"]
    if not any(layer["padding"]):
        return x, "VALID"
    same = []
    for length, window in zip(x.shape[1:3], size):
        out = -(-length // layer["stride"])
        reach = (window - 1) * layer.get("dilation", 1) + 1
        total = max((out - 1) * layer["stride"] + reach - length, 0)
        same += [total // 2, total - total // 2]
    if layer["padding"] == same:
        return x, "SAME"
    sides = [[0, 0], [top, bottom], [left, right], [0, 0]]
    return tf.pad(x, sides, constant_values=value), "VALID"


def _lrn(x, layer):
    """Local response normalisation; TensorFlow's kernel has single precision alone."""
    size, k, beta = layer["size"], layer["k"], layer["beta"]
    if x.dtype != tf.float64:
        single = tf.cast(x, tf.float32)
        made = tf.nn.local_response_normalization(single, size // 2, k, layer["alpha"] / size, beta)
        return tf.cast(made, x.dtype)
    squares = tf.pad(x * x, [[0, 0], [0, 0], [0, 0], [size // 2, size // 2]])
    total = tf.add_n([squares[..., i : i + x.shape[3]] for i in range(size)])
    return x / (k + layer["alpha"] / size * total) ** beta


def _average(x, layer):
    """Average pooling in which padded pixels do not count."""
    size, stride = layer["size"], layer["stride"]
    padded, padding = _padded(x, layer, [size] * 2, 0)
    pooled = tf.nn.avg_pool2d(padded, size, stride, padding)
    if padding == "SAME" or padded is x:
        return pooled
    ones, _ = _padded(tf.ones([1, *x.shape[1:3], 1], x.dtype), layer, [size] * 2, 0)
    return pooled / tf.nn.avg_pool2d(ones, size, stride, padding)
