"""LeNet-5 as a CNTK user would write it for speed: its layers, its learner, dense arrays."""

import json
import os
import time

# On AMD's processors MKL would choose its slowest kernels.
os.environ["MKL_DEBUG_CPU_TYPE"] = "5"

import cntk as C
import numpy as np

C.device.try_set_default_device(C.device.cpu())
C.cntk_py.set_max_num_cputhreads(1)
images = C.input_variable((1, 28, 28))
labels = C.input_variable(10)
with C.layers.default_options(activation=C.relu, init=C.he_normal()):
    network = C.layers.Sequential(
        [
            C.layers.Convolution2D(5, 6, pad=True),
            C.layers.MaxPooling((2, 2), strides=2),
            C.layers.Convolution2D(5, 16, pad=False),
            C.layers.MaxPooling((2, 2), strides=2),
            C.layers.Dense(120),
            C.layers.Dense(84),
            C.layers.Dense(10, activation=None),
        ]
    )(images)
loss = C.cross_entropy_with_softmax(network, labels)
learner = C.momentum_sgd(
    network.parameters,
    C.learning_parameter_schedule(0.01, minibatch_size=64),
    C.momentum_schedule(0.9, minibatch_size=64),
    unit_gain=False,
)
trainer = C.Trainer(network, (loss,), [learner])
random = np.random.RandomState(1)
batches = [
    (
        random.standard_normal((64, 1, 28, 28)).astype(np.float32),
        np.eye(10, dtype=np.float32)[random.randint(0, 10, 64)],
    )
    for _ in range(8)
]


def train(seconds):
    """Steps made in about that time."""
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for pixels, classes in batches:
            trainer.train_minibatch({images: pixels, labels: classes})
        steps += len(batches)
    return steps, time.perf_counter() - begin


train(2)
steps, seconds = train(5)
print(json.dumps(steps * 64 / seconds))
