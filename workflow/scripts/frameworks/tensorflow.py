"""TensorFlow: the graph as raw operations in one `tf.function` that loops over a chunk.

Images stay in TensorFlow's own order (batch, height, width, channels); weights are
reordered from the canonical layout once, when the network is built.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

MODES = ("function",)
RECORD_FORMAT = "tfrecord"

PRECISIONS = {tf.float32: "fp32", tf.float64: "fp64"}


class Adapter:
    """See runtime.py."""

    def __init__(self, spec, threads):
        self.spec = spec
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        # fp32 means IEEE single precision: no TF32 in products or convolutions.
        tf.config.experimental.enable_tensor_float_32_execution(False)
        devices = tf.config.list_physical_devices("GPU")
        if spec["execution"]["device"] == "cpu":
            tf.config.set_visible_devices([], "GPU")
        elif not devices:
            raise NotImplementedError("TensorFlow sees no GPU")
        for device in devices:
            tf.config.experimental.set_memory_growth(device, True)
        self.supplied = spec["execution"].get("dropout") == "supplied"
        optimizer = spec["optimizer"]
        self.dtype = _dtype(spec["execution"]["precision"])
        self.rate = tf.Variable(optimizer["learning_rate"], trainable=False, dtype=self.dtype)
        self.momentum, self.decay = optimizer["momentum"], optimizer["weight_decay"]

    def read(self, stem, shape):
        features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        records = list(tf.data.TFRecordDataset(stem + ".tfrecord").as_numpy_iterator())
        parsed = tf.io.parse_example(tf.constant(records), features)
        images = tf.io.decode_raw(parsed["image"], tf.uint8).numpy()
        return images.reshape(-1, *shape), parsed["label"].numpy()

    def build(self, weights):
        self.layers = self.spec["network"]["layers"]
        self.by_name = {layer["name"]: layer for layer in self.layers}
        trained = {p["name"]: p["trainable"] for p in self.spec["network"]["parameters"]}
        self.variables = {
            name: tf.Variable(
                self._native(name, array),
                trained[name],
                name=name.replace(".", "_"),
                dtype=self.dtype,
            )
            for name, array in weights.items()
        }
        self.velocity = {
            name: tf.Variable(tf.zeros_like(variable), trainable=False)
            for name, variable in self.variables.items()
            if trained[name]
        }
        self.masks = {}
        self.forward = tf.function(lambda images: self._forward(images, False))

    def _native(self, name, array):
        """A canonical array in TensorFlow's layout."""
        layer = self.by_name[name.split(".")[0]]
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
        self.images = tf.constant(images, self.dtype)
        self.labels = tf.constant(labels)
        size = self.spec["factors"]["batch_size"]
        signature = [tf.TensorSpec([None, size], tf.int64)]
        self.chunk = tf.function(self._chunk, input_signature=signature)

    def _forward(self, images, training):
        values = {"input": images}
        for layer in self.layers:
            inputs = [values[source] for source in layer["inputs"]]
            values[layer["name"]] = self._layer(layer, inputs, training)
        return values[self.spec["network"]["output"]]

    def _layer(self, layer, inputs, training):
        name, op, x = layer["name"], layer["op"], inputs[0]
        if op == "conv":
            x = self._conv(layer, x)
            return tf.nn.bias_add(x, self.variables[name + ".bias"]) if layer["bias"] else x
        if op == "dense":
            x = tf.matmul(x, self.variables[name + ".weight"])
            return tf.nn.bias_add(x, self.variables[name + ".bias"]) if layer["bias"] else x
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
            return x * self.masks[name] if self.supplied else tf.nn.dropout(x, layer["rate"])
        if op == "add":
            return tf.add_n(inputs)
        if op == "concat":
            return tf.concat(inputs, 3)
        if op == "flatten":
            return tf.reshape(x, [tf.shape(x)[0], np.prod(x.shape[1:])])
        raise NotImplementedError("TensorFlow's adapter has no layer " + op)

    def _conv(self, layer, x):
        weight, stride, dilation = (
            self.variables[layer["name"] + ".weight"],
            layer["stride"],
            layer["dilation"],
        )
        x, padding = _padded(x, layer, layer["kernel"], 0)
        if dilation > 1 and self.dtype == tf.float64:
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
        # The kernel gives the batch's unbiased variance beside what it normalised with.
        x, batch_mean, batch_variance = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, epsilon=layer["epsilon"], is_training=True
        )
        mean.assign_sub((mean - batch_mean) * (1 - layer["momentum"]))
        variance.assign_sub((variance - batch_variance) * (1 - layer["momentum"]))
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

    def _step(self, batch):
        images = tf.gather(self.images, batch)
        labels = tf.gather(self.labels, batch)
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, self._forward(images, True)
            )
            loss = tf.reduce_mean(each)
        names = list(self.velocity)
        gradients = tape.gradient(loss, [self.variables[name] for name in names])
        for name, gradient in zip(names, gradients):
            variable = self.variables[name]
            if self.decay:
                gradient += self.decay * variable
            # v = m v + g; w = w - rate v
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=self.velocity[name].handle,
                lr=self.rate,
                grad=gradient,
                momentum=self.momentum,
            )
        return loss

    def _chunk(self, indices):
        steps = tf.shape(indices)[0]
        losses = tf.TensorArray(self.dtype, size=steps)
        for i in tf.range(steps):
            losses = losses.write(i, self._step(indices[i]))
        return losses.stack()

    def train(self, indices):
        return self.chunk(tf.constant(indices))

    def losses(self, handle):
        return handle.numpy()

    def synchronize(self):
        if self.spec["execution"]["device"] == "gpu":
            tf.test.experimental.sync_devices()

    def logits(self, images):
        return self.forward(tf.constant(images, self.dtype)).numpy()

    def weights(self):
        return {name: self._canonical(name, v.numpy()) for name, v in self.variables.items()}

    def velocities(self):
        return {name: self._canonical(name, v.numpy()) for name, v in self.velocity.items()}

    def settings(self):
        variables = list(self.variables.values())
        types = {variable.dtype for variable in variables}
        step = self.chunk.get_concrete_function()
        loops = [op for op in step.graph.get_operations() if op.type in ("While", "StatelessWhile")]
        body = step.graph._get_function(loops[0].get_attr("body").name).graph
        updates = [op for op in body.get_operations() if op.type == "ResourceApplyMomentum"]
        momenta = {float(tf.get_static_value(op.inputs[4])) for op in updates}
        return {
            "learning_rate": float(self.rate.numpy()),
            "momentum": momenta.pop() if len(momenta) == 1 else sorted(momenta),
            "weight_decay": self.decay,
            "batch_size": int(step.inputs[0].shape[1]),
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "precision": PRECISIONS.get(types.pop()) if len(types) == 1 else str(types),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": "function" if loops else "eager",
            "parameters": sum(int(np.prod(self.variables[n].shape)) for n in self.velocity),
        }

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


def _dtype(precision):
    return {name: dtype for dtype, name in PRECISIONS.items()}[precision]


def _spread(weight, dilation):
    """A filter with the zeros of its dilation, which no double-precision kernel knows."""
    height, width, channels, filters = weight.shape
    wide = tf.reshape(weight, [height, 1, width, 1, channels, filters])
    more = [0, dilation - 1]
    wide = tf.pad(wide, [[0, 0], more, [0, 0], more, [0, 0], [0, 0]])
    wide = tf.reshape(wide, [height * dilation, width * dilation, channels, filters])
    return wide[: (height - 1) * dilation + 1, : (width - 1) * dilation + 1]


def _rows_last(array, image):
    """Vectors of a flattened image, (channel, row, column), in TensorFlow's order of pixels."""
    if not image:
        return array
    height, width, channels = image
    array = array.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
    return array.reshape(len(array), -1)


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
    """Local response normalisation; TensorFlow's kernel has no double precision."""
    size, k, beta = layer["size"], layer["k"], layer["beta"]
    if x.dtype != tf.float64:
        return tf.nn.local_response_normalization(x, size // 2, k, layer["alpha"] / size, beta)
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
