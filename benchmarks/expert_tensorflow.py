"""The networks as a TensorFlow user would write and train them for speed: raw operations, as
many steps as wanted in one `tf.function`, with XLA or without."""

import os
import sys

import program

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
ONEDNN = "loop in graph with oneDNN"
# TensorFlow uses oneDNN by itself only where it knows the processor to gain by it.
if ONEDNN in sys.argv[-1]:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
import tensorflow as tf
from transformers_tensorflow import GPT, VisionTransformer


class Conv(tf.Module):
    """A convolution; with a stride the image is padded before it, as (1, 1) is not "SAME"."""

    def __init__(self, inputs, filters, kernel, stride=1, padding="SAME", bias=True):
        super().__init__()
        shape = kernel, kernel, inputs, filters
        self.weight = tf.Variable(tf.keras.initializers.HeNormal(seed=1)(shape))
        self.bias = tf.Variable(tf.zeros(filters)) if bias else None
        self.stride, self.padding = stride, "VALID" if stride > 1 else padding
        self.sides = [kernel // 2] * 2 if stride > 1 and kernel > 1 else None

    def __call__(self, x):
        if self.sides:
            x = tf.pad(x, [[0, 0], self.sides, self.sides, [0, 0]])
        x = tf.nn.conv2d(x, tf.cast(self.weight, x.dtype), self.stride, self.padding)
        self.macs = x[0].shape.num_elements() * self.weight[..., 0].shape.num_elements()
        return x if self.bias is None else tf.nn.bias_add(x, tf.cast(self.bias, x.dtype))


class Dense(tf.Module):
    def __init__(self, inputs, units):
        super().__init__()
        self.weight = tf.Variable(tf.keras.initializers.HeNormal(seed=1)((inputs, units)))
        self.bias = tf.Variable(tf.zeros(units))
        self.macs = inputs * units

    def __call__(self, x):
        product = tf.matmul(x, tf.cast(self.weight, x.dtype))
        return tf.nn.bias_add(product, tf.cast(self.bias, x.dtype))


class BatchNorm(tf.Module):
    """The fused kernel, which averages the running statistics too."""

    def __init__(self, channels):
        super().__init__()
        self.scale, self.offset = tf.Variable(tf.ones(channels)), tf.Variable(tf.zeros(channels))
        self.mean = tf.Variable(tf.zeros(channels), trainable=False)
        self.variance = tf.Variable(tf.ones(channels), trainable=False)

    def __call__(self, x):
        x, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.scale, self.offset, self.mean, self.variance, epsilon=1e-5, is_training=True,
            exponential_avg_factor=0.1,
        )  # fmt: skip
        self.mean.assign(mean)
        self.variance.assign(variance)
        return x


class Sequence(tf.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = layers

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(tf.Module):
    """`body(x)` added to `x`, which is projected where its shape changes, and a ReLU."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def __call__(self, x):
        return tf.nn.relu(self.body(x) + (self.shortcut(x) if self.shortcut else x))


def pool(x):
    return tf.nn.max_pool2d(x, 2, 2, "VALID")


def flat(x):
    return tf.reshape(x, [-1, x.shape[1:].num_elements()])


def mean(x):
    return tf.reduce_mean(x, [1, 2])


def half(x):
    return tf.nn.dropout(x, 0.5)


def overlapping_pool(x):
    x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=x.dtype.min)
    return tf.nn.max_pool2d(x, 3, 2, "VALID")


relu = tf.nn.relu


def lenet5():
    return Sequence(
        *(Conv(1, 6, 5), relu, pool, Conv(6, 16, 5, padding="VALID"), relu, pool, flat),
        *(Dense(400, 120), relu, Dense(120, 84), relu, Dense(84, 10)),
    )


def alexnet_cifar():
    return Sequence(
        *(Conv(3, 64, 3), relu, pool, Conv(64, 192, 3), relu, pool),
        *(Conv(192, 384, 3), relu, Conv(384, 256, 3), relu, Conv(256, 256, 3), relu, pool, flat),
        *(half, Dense(4096, 1024), relu, half, Dense(1024, 1024), relu, Dense(1024, 10)),
    )


def conv_norm(inputs, filters, kernel, stride=1):
    return Sequence(Conv(inputs, filters, kernel, stride, bias=False), BatchNorm(filters))


def basic(inputs, filters, stride):
    body = Sequence(conv_norm(inputs, filters, 3, stride), relu, conv_norm(filters, filters, 3))
    return Residual(body, conv_norm(inputs, filters, 1, stride) if stride > 1 else None)


def bottleneck(inputs, filters, stride, first):
    body = Sequence(
        *(conv_norm(inputs, filters, 1), relu, conv_norm(filters, filters, 3, stride), relu),
        conv_norm(filters, 4 * filters, 1),
    )
    return Residual(body, conv_norm(inputs, 4 * filters, 1, stride) if first else None)


def resnet20_cifar():
    layers, inputs = [conv_norm(3, 16, 3), relu], 16
    for filters in (16, 32, 64):
        for _ in range(3):
            layers.append(basic(inputs, filters, filters // inputs))
            inputs = filters
    return Sequence(*layers, mean, Dense(64, 10))


def resnet50(stem, classes):
    layers, inputs = list(stem), 64
    for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(depth):
            stride = 2 if number == 0 and filters > 64 else 1
            layers.append(bottleneck(inputs, filters, stride, number == 0))
            inputs = 4 * filters
    return Sequence(*layers, mean, Dense(2048, classes))


def vgg16_cifar():
    layers, inputs = [], 3
    for filters, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [Conv(inputs, filters, 3), BatchNorm(filters), relu]
            inputs = filters
        layers.append(pool)
    return Sequence(*layers, flat, Dense(512, 10))


NETWORKS = {
    "lenet5": lenet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "resnet50-cifar": lambda: resnet50([conv_norm(3, 64, 3), relu], 10),
    "vgg16-cifar": vgg16_cifar,
    "resnet50": lambda: resnet50([conv_norm(3, 64, 7, 2), relu, overlapping_pool], 1000),
    "vit-ti-16": lambda: VisionTransformer(32, 10, width=192, heads=3),
    "gpt-10m": lambda: GPT(256, 256, width=384, heads=6, layers=6),
}


def candidates(network, thorough, device="cpu", precision="fp32"):
    if network not in NETWORKS:
        return []
    if precision == "bf16" and network in ("vit-ti-16", "gpt-10m"):
        return []  # they are written in single precision
    return ["loop in graph"] + [ONEDNN] * (device == "cpu") + ["XLA"] * thorough


class Training:
    def __init__(
        self, network, batch_size, batches, threads, candidate, device="cpu", precision="fp32"
    ):
        if device == "gpu":
            # TensorFlow places all of it there by itself, or on the CPU without a word.
            if not tf.config.list_physical_devices("GPU"):
                sys.exit("TensorFlow sees no GPU")
            tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")
        if tf.config.threading.get_intra_op_parallelism_threads() != threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        *shape, classes = program.shape(network)
        self.model = NETWORKS[network]()
        self.variables = self.model.trainable_variables
        self.velocities = [tf.Variable(tf.zeros_like(each)) for each in self.variables]
        self.images = tf.random.normal([batches, batch_size, *shape])
        self.labels = tf.random.uniform([batches, batch_size], 0, classes, tf.int32)
        if network == "gpt-10m":
            texts = tf.random.uniform([batches, batch_size, shape[0]], 0, classes, tf.int32)
            self.images, self.labels = texts[:, :, :-1], texts[:, :, 1:]
        elif precision == "bf16":
            self.images = tf.cast(self.images, tf.bfloat16)
        self.loop = tf.function(self.looped)
        self.single = tf.function(self.step, jit_compile=True) if candidate == "XLA" else None

    def step(self, images, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(self.model(images), tf.float32)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(each)
        gradients = tape.gradient(loss, self.variables)
        for variable, velocity, gradient in zip(
            self.variables, self.velocities, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle, accum=velocity.handle, lr=1e-3, grad=gradient, momentum=0.9
            )
        return loss

    def looped(self, number):
        loss = 0.0
        step = self.single or self.step
        for i in tf.range(number):
            place = i % self.images.shape[0]
            loss = step(self.images[place], self.labels[place])
        return loss

    def steps(self, number):
        float(self.loop(tf.constant(number)))

    def size(self):
        layers = [x for x in (self.model, *self.model.submodules) if hasattr(x, "macs")]
        parameters = sum(each.shape.num_elements() for each in self.variables)
        return parameters, sum(each.macs for each in layers)


if __name__ == "__main__":
    program.expert(candidates, Training)
