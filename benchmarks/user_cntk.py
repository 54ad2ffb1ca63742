"""The networks as a CNTK user writes and trains them, after its tutorials: layers, a Trainer, and
batches of NumPy's arrays. There are no texts, whose sequences have an axis of their own in CNTK."""

import cntk as C
import numpy as np
import program


def lenet5(features):
    with C.layers.default_options(init=C.glorot_uniform(), activation=C.relu):
        return C.layers.Sequential(
            [
                C.layers.Convolution2D((5, 5), 6, pad=True),
                C.layers.MaxPooling((2, 2), strides=(2, 2)),
                C.layers.Convolution2D((5, 5), 16),
                C.layers.MaxPooling((2, 2), strides=(2, 2)),
                C.layers.Dense(120),
                C.layers.Dense(84),
                C.layers.Dense(10, activation=None),
            ]
        )(features)


def alexnet_cifar(features):
    with C.layers.default_options(init=C.glorot_uniform(), activation=C.relu, pad=True):
        return C.layers.Sequential(
            [
                C.layers.Convolution2D((3, 3), 64),
                C.layers.MaxPooling((2, 2), strides=(2, 2)),
                C.layers.Convolution2D((3, 3), 192),
                C.layers.MaxPooling((2, 2), strides=(2, 2)),
                C.layers.Convolution2D((3, 3), 384),
                C.layers.Convolution2D((3, 3), 256),
                C.layers.Convolution2D((3, 3), 256),
                C.layers.MaxPooling((2, 2), strides=(2, 2)),
                C.layers.Dropout(0.5),
                C.layers.Dense(1024),
                C.layers.Dropout(0.5),
                C.layers.Dense(1024),
                C.layers.Dense(10, activation=None),
            ]
        )(features)


def conv_bn(x, size, filters, stride=1):
    x = C.layers.Convolution2D(
        (size, size), filters, strides=(stride, stride), pad=True, bias=False, init=C.he_normal()
    )(x)
    return C.layers.BatchNormalization(map_rank=1)(x)


def resnet20_cifar(features):
    x = C.relu(conv_bn(features, 3, 16))
    for filters in (16, 32, 64):
        for block in range(3):
            stride = 2 if block == 0 and filters > 16 else 1
            y = C.relu(conv_bn(x, 3, filters, stride))
            y = conv_bn(y, 3, filters)
            if stride > 1:
                x = conv_bn(x, 1, filters, stride)
            x = C.relu(x + y)
    x = C.layers.AveragePooling((8, 8))(x)
    return C.layers.Dense(10, activation=None)(x)


NETWORKS = {"lenet5": lenet5, "alexnet-cifar": alexnet_cifar, "resnet20-cifar": resnet20_cifar}


class Training:
    def __init__(self, network, batch_size, batches):
        self.images, labels = program.noise(network, batches * batch_size, channels_first=True)
        height, width, channels, classes = program.shape(network)
        self.labels = np.eye(classes, dtype=np.float32)[labels]
        self.shape = batches, batch_size
        self.features = C.input_variable((channels, height, width))
        self.targets = C.input_variable(classes)
        self.model = NETWORKS[network](self.features)
        loss = C.cross_entropy_with_softmax(self.model, self.targets)
        learner = C.momentum_sgd(
            self.model.parameters,
            C.learning_parameter_schedule(0.001),
            C.momentum_schedule(0.9),
        )
        self.trainer = C.Trainer(self.model, (loss, None), [learner])

    def train(self, epochs, ended):
        random = np.random.default_rng(2)
        for _ in range(epochs):
            total = 0.0
            for chosen in random.permutation(len(self.labels)).reshape(self.shape):
                self.trainer.train_minibatch(
                    {self.features: self.images[chosen], self.targets: self.labels[chosen]}
                )
                total += self.trainer.previous_minibatch_loss_average
            ended()

    def parameters(self):
        return sum(int(np.prod(array.shape)) for array in self.model.parameters)


if __name__ == "__main__":
    program.user(NETWORKS, Training)
