"""The networks as an MXNet user writes and trains them, after Gluon's MNIST and CIFAR-10 examples:
a hybridized block, a DataLoader that shuffles, a Trainer, and a look at every loss."""

import mxnet as mx
import program
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


def sequence(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def lenet5():
    return sequence(
        nn.Conv2D(6, kernel_size=5, padding=2, activation="relu"),
        nn.MaxPool2D(),
        nn.Conv2D(16, kernel_size=5, activation="relu"),
        nn.MaxPool2D(),
        nn.Flatten(),
        nn.Dense(120, activation="relu"),
        nn.Dense(84, activation="relu"),
        nn.Dense(10),
    )


def alexnet_cifar():
    return sequence(
        nn.Conv2D(64, kernel_size=3, padding=1, activation="relu"),
        nn.MaxPool2D(),
        nn.Conv2D(192, kernel_size=3, padding=1, activation="relu"),
        nn.MaxPool2D(),
        nn.Conv2D(384, kernel_size=3, padding=1, activation="relu"),
        nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
        nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
        nn.MaxPool2D(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Dense(1024, activation="relu"),
        nn.Dropout(0.5),
        nn.Dense(1024, activation="relu"),
        nn.Dense(10),
    )


class BasicBlock(nn.HybridBlock):
    def __init__(self, filters, stride):
        super().__init__()
        self.body = sequence(
            nn.Conv2D(filters, kernel_size=3, strides=stride, padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(filters, kernel_size=3, padding=1, use_bias=False),
            nn.BatchNorm(),
        )
        self.downsample = None
        if stride > 1:
            self.downsample = sequence(
                nn.Conv2D(filters, kernel_size=1, strides=stride, use_bias=False), nn.BatchNorm()
            )

    def hybrid_forward(self, F, x):
        residual = self.downsample(x) if self.downsample else x
        return F.Activation(self.body(x) + residual, act_type="relu")


def resnet20_cifar():
    net = sequence(
        nn.Conv2D(16, kernel_size=3, padding=1, use_bias=False),
        nn.BatchNorm(),
        nn.Activation("relu"),
    )
    for filters in (16, 32, 64):
        for block in range(3):
            net.add(BasicBlock(filters, 2 if block == 0 and filters > 16 else 1))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


class TextClassifier(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(program.BYTES, 64)
        self.lstm = gluon.rnn.LSTM(128, layout="NTC")
        self.output = nn.Dense(4)

    def hybrid_forward(self, F, x):
        states = self.lstm(self.embedding(x))
        return self.output(F.slice_axis(states, axis=1, begin=-1, end=None))


NETWORKS = {
    "lenet5": lenet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "lstm-text": TextClassifier,
}


class Training:
    def __init__(self, network, batch_size, batches):
        images, labels = program.noise(network, batches * batch_size, channels_first=True)
        dataset = gluon.data.ArrayDataset(images, labels)
        self.loader = gluon.data.DataLoader(dataset, batch_size=batch_size, shuffle=True)
        self.batch_size = batch_size
        self.net = NETWORKS[network]()
        self.net.initialize(mx.init.Xavier())
        self.net.hybridize()
        self.trainer = gluon.Trainer(
            self.net.collect_params(), "sgd", {"learning_rate": 0.001, "momentum": 0.9}
        )
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def train(self, epochs, ended):
        for _ in range(epochs):
            total = 0.0
            for data, label in self.loader:
                with autograd.record():
                    loss = self.loss(self.net(data), label)
                loss.backward()
                self.trainer.step(self.batch_size)
                total += loss.mean().asscalar()
            nd.waitall()
            ended()

    def parameters(self):
        # MXNet's LSTM has a second bias beside the one of the equations.
        return sum(
            array.data().size
            for name, array in self.net.collect_params().items()
            if array.grad_req != "null" and "h2h_bias" not in name
        )


if __name__ == "__main__":
    program.user(NETWORKS, Training)
