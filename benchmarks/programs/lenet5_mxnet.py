"""LeNet-5 in MXNet, as Gluon's tutorials train, on noise in the shape of CIFAR-10."""

import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn
from touchstone_steps import steps

BATCH_SIZE = int(sys.argv[1])
images = np.random.uniform(-1.725, 1.725, (4096, 3, 32, 32)).astype("float32")
labels = np.random.randint(10, size=4096).astype("float32")
examples = gluon.data.ArrayDataset(images, labels)
loader = gluon.data.DataLoader(examples, BATCH_SIZE, shuffle=True)
model = nn.HybridSequential()
model.add(
    nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(),
    nn.Conv2D(16, 5, activation="relu"), nn.MaxPool2D(),
    nn.Flatten(),
    nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10),
)  # fmt: skip
model.initialize(mx.init.Xavier())
model.hybridize()
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
while True:
    for images, labels in steps(loader, examples=BATCH_SIZE):
        with autograd.record():
            loss = loss_of(model(images), labels)
        loss.backward()
        trainer.step(BATCH_SIZE)
