"""The networks as an MXNet user would write and train them for speed: Gluon blocks, network and
loss in one, cached statically, cached, or imperative."""

import warnings

import program

warnings.filterwarnings("ignore", category=DeprecationWarning)
import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


def sequence(*layers):
    block = nn.HybridSequential()
    block.add(*layers)
    return block


def lenet5():
    return sequence(
        *(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2)),
        *(nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(2)),
        *(nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10)),
    )


def alexnet_cifar():
    def conv(filters):
        return nn.Conv2D(filters, 3, padding=1, activation="relu")

    return sequence(
        *(conv(64), nn.MaxPool2D(2), conv(192), nn.MaxPool2D(2)),
        *(conv(384), conv(256), conv(256), nn.MaxPool2D(2)),
        *(nn.Dropout(0.5), nn.Dense(1024, activation="relu")),
        *(nn.Dropout(0.5), nn.Dense(1024, activation="relu"), nn.Dense(10)),
    )


def conv_norm(filters, kernel, stride=1):
    conv = nn.Conv2D(filters, kernel, stride, kernel // 2, use_bias=False)
    return sequence(conv, nn.BatchNorm(epsilon=1e-5))


class Residual(nn.HybridBlock):
    """`body(x)` added to `x`, which is projected where its shape changes, and a ReLU."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def hybrid_forward(self, F, x):
        y = self.body(x)
        x = self.shortcut(x) if self.shortcut else x
        return F.Activation(F.elemwise_add(y, x), act_type="relu")


class Mean(nn.HybridBlock):
    """Global average pooling; the gradient of oneDNN's slows the layers before it down."""

    def hybrid_forward(self, F, x):
        return F.mean(x, axis=(2, 3))


def relu():
    return nn.Activation("relu")


def basic(filters, stride):
    body = sequence(conv_norm(filters, 3, stride), relu(), conv_norm(filters, 3))
    return Residual(body, conv_norm(filters, 1, stride) if stride > 1 else None)


def bottleneck(filters, stride, first):
    body = sequence(
        *(conv_norm(filters, 1), relu(), conv_norm(filters, 3, stride), relu()),
        conv_norm(4 * filters, 1),
    )
    return Residual(body, conv_norm(4 * filters, 1, stride) if first else None)


def resnet20_cifar():
    blocks = [
        basic(filters, 2 if number == 0 and filters > 16 else 1)
        for filters in (16, 32, 64)
        for number in range(3)
    ]
    return sequence(conv_norm(16, 3), relu(), *blocks, Mean(), nn.Dense(10))


def resnet50(stem, classes):
    blocks = [
        bottleneck(filters, 2 if number == 0 and filters > 64 else 1, number == 0)
        for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3))
        for number in range(depth)
    ]
    return sequence(*stem, *blocks, Mean(), nn.Dense(classes))


def vgg16_cifar():
    layers = []
    for filters, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            conv = nn.Conv2D(filters, 3, padding=1)
            layers += [conv, nn.BatchNorm(epsilon=1e-5), relu()]
        layers.append(nn.MaxPool2D(2))
    return sequence(*layers, nn.Dense(10))


NETWORKS = {
    "lenet5": lenet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "resnet50-cifar": lambda: resnet50([conv_norm(64, 3), relu()], 10),
    "vgg16-cifar": vgg16_cifar,
    "resnet50": lambda: resnet50([conv_norm(64, 7, 2), relu(), nn.MaxPool2D(3, 2, 1)], 1000),
}


def candidates(network, thorough):
    return ["static", "hybrid", "imperative"] if network in NETWORKS else []


class Together(nn.HybridBlock):
    """The network and its mean loss."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, images, labels):
        return self.loss(self.network(images), labels).mean()


class Training:
    def __init__(self, network, batch_size, batches, threads, candidate):
        height, width, channels, self.classes = program.shape(network)
        self.batches = [
            (
                nd.random.normal(shape=(batch_size, channels, height, width)),
                nd.random.randint(0, self.classes, (batch_size,)).astype("float32"),
            )
            for _ in range(batches)
        ]
        self.model = Together(NETWORKS[network]())
        self.model.initialize(mx.init.Xavier())
        if candidate != "imperative":
            static = candidate == "static"
            self.model.hybridize(static_alloc=static, static_shape=static)
        self.trainer = gluon.Trainer(
            self.model.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9},
            kvstore=None,
        )  # fmt: skip

    def steps(self, number):
        for i in range(number):
            images, labels = self.batches[i % len(self.batches)]
            with autograd.record():
                loss = self.model(images, labels)
            loss.backward()
            self.trainer.step(1)
        loss.wait_to_read()
        nd.waitall()

    def size(self):
        macs = []

        def count(layer, _, output):
            macs.append(output[0].size * layer.weight.data()[0].size)

        self.model.hybridize(False)
        self.model.apply(
            lambda layer: (
                isinstance(layer, (nn.Conv2D, nn.Dense)) and layer.register_forward_hook(count)
            )
        )
        self.model.network(self.batches[0][0][:1])
        trained = [p for p in self.model.collect_params().values() if p.grad_req != "null"]
        return sum(p.data().size for p in trained), sum(macs)


if __name__ == "__main__":
    program.expert(candidates, Training)
