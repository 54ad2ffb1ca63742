"""LeNet-5 in Keras, a batch at a time, on noise in the shape of CIFAR-10."""

import sys

import keras
import numpy as np
from keras import layers
from touchstone_steps import steps

BATCH_SIZE = int(sys.argv[1])
images = np.random.uniform(-1.725, 1.725, (4096, 32, 32, 3)).astype("float32")
labels = np.random.randint(10, size=4096)
model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(6, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 5, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(120, activation="relu"),
        layers.Dense(84, activation="relu"),
        layers.Dense(10),
    ]
)
model.compile(
    keras.optimizers.SGD(0.01, momentum=0.9),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
while True:
    order = np.random.permutation(len(images)).reshape(-1, BATCH_SIZE)
    for batch in steps(order, examples=BATCH_SIZE):
        model.train_on_batch(images[batch], labels[batch])
        model.reset_metrics()
