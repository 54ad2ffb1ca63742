"""LeNet-5 as a CNTK user would write it for speed: its layers, its learner, dense arrays."""

import os

# On AMD's processors MKL would choose its slowest kernels.
os.environ["MKL_DEBUG_CPU_TYPE"] = "5"

import cntk as C
import expert
import numpy as np


class Training:
    def __init__(self, network, batch_size, batches, threads, candidate):
        C.device.try_set_default_device(C.device.cpu())
        C.cntk_py.set_max_num_cputhreads(threads)
        self.images, self.labels = C.input_variable((1, 28, 28)), C.input_variable(10)
        with C.layers.default_options(activation=C.relu, init=C.he_normal()):
            self.network = C.layers.Sequential(
                [
                    C.layers.Convolution2D(5, 6, pad=True),
                    C.layers.MaxPooling((2, 2), strides=2),
                    C.layers.Convolution2D(5, 16, pad=False),
                    C.layers.MaxPooling((2, 2), strides=2),
                    C.layers.Dense(120),
                    C.layers.Dense(84),
                    C.layers.Dense(10, activation=None),
                ]
            )(self.images)
        loss = C.cross_entropy_with_softmax(self.network, self.labels)
        learner = C.momentum_sgd(
            self.network.parameters,
            C.learning_parameter_schedule(0.001, minibatch_size=batch_size),
            C.momentum_schedule(0.9, minibatch_size=batch_size),
            unit_gain=False,
        )
        self.trainer = C.Trainer(self.network, (loss,), [learner])
        random = np.random.RandomState(1)
        classes = np.eye(10, dtype=np.float32)
        self.batches = [
            {
                self.images: random.standard_normal((batch_size, 1, 28, 28)).astype(np.float32),
                self.labels: classes[random.randint(0, 10, batch_size)],
            }
            for _ in range(batches)
        ]
        self.taken = 0

    def steps(self, n):
        for _ in range(n):
            self.trainer.train_minibatch(self.batches[self.taken % len(self.batches)])
            self.taken += 1

    def size(self):
        parameters = self.network.parameters
        pixels = {(6, 1, 5, 5): 28 * 28, (16, 6, 5, 5): 10 * 10}
        macs = sum(
            int(np.prod(one.shape)) * pixels.get(one.shape, 1)
            for one in parameters
            if one.name == "W"
        )
        return [sum(int(np.prod(one.shape)) for one in parameters), macs]


expert.main(lambda network, thorough: ["layers"] if network == "lenet5" else [], Training)
