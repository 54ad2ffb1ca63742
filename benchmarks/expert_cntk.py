"""The networks as a CNTK user would write and train them for speed: its layers, its learner, dense
arrays, and the kernels that MKL chooses, on AMD's processors its slowest, or those for AVX2."""

import os

if os.environ.get("OMP_WAIT_POLICY") == "PASSIVE":
    # Intel's OpenMP library has a variable of its own.
    os.environ["KMP_BLOCKTIME"] = "0"

import cntk as C
import numpy as np
import program
from cntk import layers as L


def conv(filters, size=3, pad=True):
    return L.Convolution2D(size, filters, activation=C.relu, pad=pad, init=C.he_normal())


def dense(units, activation=C.relu):
    return L.Dense(units, activation=activation, init=C.he_normal())


def pool():
    return L.MaxPooling((2, 2), strides=2)


def lenet5(images):
    return L.Sequential(
        [
            *(conv(6, 5), pool(), conv(16, 5, pad=False), pool()),
            *(dense(120), dense(84), dense(10, None)),
        ]
    )(images)


def alexnet_cifar(images):
    return L.Sequential(
        [
            *(conv(64), pool(), conv(192), pool(), conv(384), conv(256), conv(256), pool()),
            *(L.Dropout(0.5), dense(1024), L.Dropout(0.5), dense(1024), dense(10, None)),
        ]
    )(images)


def conv_norm(x, filters, size, stride=1):
    x = L.Convolution2D(
        size, filters, pad=True, strides=stride, bias=False, init=C.he_normal(), activation=None
    )(x)
    return L.BatchNormalization(map_rank=1)(x)


def basic(x, filters, stride):
    y = C.relu(conv_norm(x, filters, 3, stride))
    y = conv_norm(y, filters, 3)
    return C.relu(y + (conv_norm(x, filters, 1, stride) if stride > 1 else x))


def resnet20_cifar(images):
    x = C.relu(conv_norm(images, 16, 3))
    for filters in (16, 32, 64):
        for number in range(3):
            x = basic(x, filters, 2 if number == 0 and filters > 16 else 1)
    return dense(10, None)(L.GlobalAveragePooling()(x))


NETWORKS = {"lenet5": lenet5, "alexnet-cifar": alexnet_cifar, "resnet20-cifar": resnet20_cifar}


def candidates(network, thorough):
    return ["MKL's choice", "AVX2"] if network in NETWORKS else []


class Training:
    def __init__(self, network, batch_size, batches, threads, candidate):
        if candidate == "AVX2":  # MKL looks at it when it first computes
            os.environ["MKL_DEBUG_CPU_TYPE"] = "5"
        C.device.try_set_default_device(C.device.cpu())
        C.cntk_py.set_max_num_cputhreads(threads)
        height, width, channels, classes = program.shape(network)
        shape = (channels, height, width)
        self.images, self.labels = C.input_variable(shape), C.input_variable(classes)
        self.network = NETWORKS[network](self.images)
        loss = C.cross_entropy_with_softmax(self.network, self.labels)
        learner = C.momentum_sgd(
            self.network.parameters,
            C.learning_parameter_schedule(0.001, minibatch_size=batch_size),
            C.momentum_schedule(0.9, minibatch_size=batch_size),
            unit_gain=False,
        )
        self.trainer = C.Trainer(self.network, (loss,), [learner])
        random = np.random.RandomState(1)
        one_hot = np.eye(classes, dtype=np.float32)
        self.batches = [
            {
                self.images: random.standard_normal((batch_size,) + shape).astype(np.float32),
                self.labels: one_hot[random.randint(0, classes, batch_size)],
            }
            for _ in range(batches)
        ]
        self.taken = 0

    def steps(self, n):
        for _ in range(n):
            self.trainer.train_minibatch(self.batches[self.taken % len(self.batches)])
            self.taken += 1

    def size(self):
        def multiplies(node):
            # A layer is a block of the same name around its operation.
            function = isinstance(node, C.Function) and not node.is_block
            return function and node.op_name in ("Convolution", "Times")

        found, macs = C.logging.graph.depth_first_search(self.network, multiplies, -1), 0
        for each in found:
            (weight,) = [one for one in each.inputs if one.is_parameter]
            pixels = each.shape[1:] if each.op_name == "Convolution" else ()
            macs += int(np.prod(weight.shape) * np.prod(pixels))
        return [sum(int(np.prod(one.shape)) for one in self.network.parameters), macs]


if __name__ == "__main__":
    program.expert(candidates, Training)
