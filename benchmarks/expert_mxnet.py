"""LeNet-5 as an MXNet user would write it for speed: network and loss in one static block."""

import json
import time

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Training(nn.HybridBlock):
    def __init__(self):
        super().__init__()
        self.network = nn.HybridSequential()
        self.network.add(
            nn.Conv2D(6, 5, padding=2, activation="relu"),
            nn.MaxPool2D(2),
            nn.Conv2D(16, 5, activation="relu"),
            nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"),
            nn.Dense(84, activation="relu"),
            nn.Dense(10),
        )
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, images, labels):
        return self.loss(self.network(images), labels).mean()


training = Training()
training.initialize(mx.init.Xavier())
training.hybridize(static_alloc=True, static_shape=True)
trainer = gluon.Trainer(
    training.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore=None
)
batches = [
    (nd.random.normal(shape=(64, 1, 28, 28)), nd.random.randint(0, 10, (64,)).astype("float32"))
    for _ in range(8)
]


def train(seconds):
    """Steps made in about that time."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for images, labels in batches:
            with autograd.record():
                loss = training(images, labels)
            loss.backward()
            trainer.step(1)
        loss.wait_to_read()
        steps += len(batches)
    nd.waitall()
    return steps, time.perf_counter() - begin


train(2)
steps, seconds = train(5)
print(json.dumps(steps * 64 / seconds))
