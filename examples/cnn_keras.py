"""Trains a small convolutional network with Keras's `fit`, on noise in the shape of CIFAR-10."""

import argparse

import keras
import numpy as np
from touchstone_steps import step_callback

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--epochs", type=int, default=1000)
arguments = parser.parse_args()

images = np.random.rand(2048, 32, 32, 3).astype("float32")
labels = np.random.randint(10, size=2048)
model = keras.Sequential(
    [
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(
    images, labels, arguments.batch_size, arguments.epochs, verbose=0,
    callbacks=[step_callback(examples=arguments.batch_size)],
)  # fmt: skip
