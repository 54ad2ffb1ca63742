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
        optimizer = spec["optimizer"]
        self.rate = tf.Variable(optimizer["learning_rate"], trainable=False, dtype=tf.float32)
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
        self.images_behind = {
            layer["name"] + ".weight": layer["image"]
            for layer in self.layers
            if layer["op"] == "dense" and layer["image"]
        }
        self.variables = {
            name: tf.Variable(self._native(name, array), name=name.replace(".", "_"))
            for name, array in weights.items()
        }
        self.velocities = {
            name: tf.Variable(tf.zeros_like(variable), trainable=False)
            for name, variable in self.variables.items()
        }
        self.forward = tf.function(self._forward)

    def _native(self, name, array):
        """A canonical array in TensorFlow's layout."""
        if array.ndim == 4:
            return array.transpose(2, 3, 1, 0)
        if name in self.images_behind:
            height, width, channels = self.images_behind[name]
            array = array.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
            array = array.reshape(len(array), -1)
        return array.T

    def _canonical(self, name, array):
        """What `_native` was made from."""
        if array.ndim == 4:
            return array.transpose(3, 2, 0, 1)
        if name in self.images_behind:
            height, width, channels = self.images_behind[name]
            array = array.reshape(height, width, channels, -1).transpose(2, 0, 1, 3)
            array = array.reshape(height * width * channels, -1)
        return array.T

    def load(self, images, labels):
        self.images = tf.constant(images)
        self.labels = tf.constant(labels)
        size = self.spec["factors"]["batch_size"]
        signature = [tf.TensorSpec([None, size], tf.int64)]
        self.chunk = tf.function(self._chunk, input_signature=signature)

    def _forward(self, images):
        values = {"input": images}
        for layer in self.layers:
            name, op, x = layer["name"], layer["op"], values[layer["inputs"][0]]
            if op == "conv":
                x, padding = _padded(x, layer)
                x = tf.nn.conv2d(x, self.variables[name + ".weight"], layer["stride"], padding)
                x = tf.nn.bias_add(x, self.variables[name + ".bias"])
            elif op == "dense":
                x = tf.matmul(x, self.variables[name + ".weight"])
                x = tf.nn.bias_add(x, self.variables[name + ".bias"])
            elif op == "max_pool":
                x = tf.nn.max_pool2d(x, layer["size"], layer["stride"], "VALID")
            elif op == "relu":
                x = tf.nn.relu(x)
            elif op == "flatten":
                x = tf.reshape(x, [tf.shape(x)[0], np.prod(x.shape[1:])])
            else:
                raise NotImplementedError("TensorFlow's adapter has no layer " + op)
            values[name] = x
        return values[self.spec["network"]["output"]]

    def _step(self, batch):
        images = tf.gather(self.images, batch)
        labels = tf.gather(self.labels, batch)
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self._forward(images))
            loss = tf.reduce_mean(each)
        names = list(self.variables)
        gradients = tape.gradient(loss, [self.variables[name] for name in names])
        for name, gradient in zip(names, gradients):
            variable = self.variables[name]
            if self.decay:
                gradient += self.decay * variable
            # v = m v + g; w = w - rate v
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=self.velocities[name].handle,
                lr=self.rate,
                grad=gradient,
                momentum=self.momentum,
            )
        return loss

    def _chunk(self, indices):
        steps = tf.shape(indices)[0]
        losses = tf.TensorArray(tf.float32, size=steps)
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
        return self.forward(tf.constant(images)).numpy()

    def weights(self):
        return {name: self._canonical(name, v.numpy()) for name, v in self.variables.items()}

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
            "precision": "fp32" if types == {tf.float32} else str(types),
            "device": "gpu" if "GPU" in variables[0].device else "cpu",
            "mode": "function" if loops else "eager",
            "parameters": sum(int(np.prod(v.shape)) for v in variables),
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


def _padded(x, layer):
    """The images and the padding that TensorFlow's own kernels are fast with.

    Its convolution with explicit padding is a slow path on CPUs; "SAME" is symmetric only
    where the stride is 1, so any other padding is an operation before the convolution.
    """
    padding = layer["padding"]
    if padding and layer["stride"] == 1 and 2 * padding == layer["kernel"] - 1:
        return x, "SAME"
    if padding:
        x = tf.pad(x, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
    return x, "VALID"
