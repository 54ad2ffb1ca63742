"""The networks as a JAX user writes and trains them, after Flax's MNIST tutorial: NNX modules, an
optimiser of Optax, a jitted step, and batches of NumPy's arrays. Its environment is
`envs/jax-plain.yaml`."""

import jax.numpy as jnp
import numpy as np
import optax
import program
from flax import nnx


class LeNet5(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(1, 6, kernel_size=(5, 5), rngs=rngs)
        self.conv2 = nnx.Conv(6, 16, kernel_size=(5, 5), padding="VALID", rngs=rngs)
        self.linear1 = nnx.Linear(400, 120, rngs=rngs)
        self.linear2 = nnx.Linear(120, 84, rngs=rngs)
        self.linear3 = nnx.Linear(84, 10, rngs=rngs)

    def __call__(self, x):
        x = pool(nnx.relu(self.conv1(x)))
        x = pool(nnx.relu(self.conv2(x)))
        x = x.reshape(x.shape[0], -1)
        x = nnx.relu(self.linear1(x))
        x = nnx.relu(self.linear2(x))
        return self.linear3(x)


def pool(x):
    return nnx.max_pool(x, window_shape=(2, 2), strides=(2, 2))


class AlexNet(nnx.Module):
    def __init__(self, rngs):
        self.conv1 = nnx.Conv(3, 64, kernel_size=(3, 3), rngs=rngs)
        self.conv2 = nnx.Conv(64, 192, kernel_size=(3, 3), rngs=rngs)
        self.conv3 = nnx.Conv(192, 384, kernel_size=(3, 3), rngs=rngs)
        self.conv4 = nnx.Conv(384, 256, kernel_size=(3, 3), rngs=rngs)
        self.conv5 = nnx.Conv(256, 256, kernel_size=(3, 3), rngs=rngs)
        self.dropout1 = nnx.Dropout(0.5, rngs=rngs)
        self.linear1 = nnx.Linear(4096, 1024, rngs=rngs)
        self.dropout2 = nnx.Dropout(0.5, rngs=rngs)
        self.linear2 = nnx.Linear(1024, 1024, rngs=rngs)
        self.linear3 = nnx.Linear(1024, 10, rngs=rngs)

    def __call__(self, x):
        x = pool(nnx.relu(self.conv1(x)))
        x = pool(nnx.relu(self.conv2(x)))
        x = nnx.relu(self.conv3(x))
        x = nnx.relu(self.conv4(x))
        x = pool(nnx.relu(self.conv5(x)))
        x = self.dropout1(x.reshape(x.shape[0], -1))
        x = self.dropout2(nnx.relu(self.linear1(x)))
        x = nnx.relu(self.linear2(x))
        return self.linear3(x)


class ConvNorm(nnx.Module):
    def __init__(self, inputs, filters, size, rngs, stride=1):
        self.conv = nnx.Conv(
            inputs, filters, (size, size), strides=stride, use_bias=False, rngs=rngs
        )
        self.norm = nnx.BatchNorm(filters, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.conv(x))


class Block(nnx.Module):
    def __init__(self, inputs, filters, stride, rngs):
        self.conv1 = ConvNorm(inputs, filters, 3, rngs, stride)
        self.conv2 = ConvNorm(filters, filters, 3, rngs)
        self.shortcut = ConvNorm(inputs, filters, 1, rngs, stride) if stride > 1 else None

    def __call__(self, x):
        y = self.conv2(nnx.relu(self.conv1(x)))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return nnx.relu(x + y)


class ResNet20(nnx.Module):
    def __init__(self, rngs):
        self.conv = ConvNorm(3, 16, 3, rngs)
        blocks, inputs = [], 16
        for filters in (16, 32, 64):
            for _ in range(3):
                blocks.append(Block(inputs, filters, filters // inputs, rngs))
                inputs = filters
        self.blocks = nnx.Sequential(*blocks)
        self.linear = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x):
        x = self.blocks(nnx.relu(self.conv(x)))
        return self.linear(jnp.mean(x, axis=(1, 2)))


class TextClassifier(nnx.Module):
    def __init__(self, rngs):
        self.embedding = nnx.Embed(program.BYTES, 64, rngs=rngs)
        self.lstm = nnx.RNN(nnx.OptimizedLSTMCell(64, 128, rngs=rngs))
        self.linear = nnx.Linear(128, 4, rngs=rngs)

    def __call__(self, x):
        return self.linear(self.lstm(self.embedding(x))[:, -1])


NETWORKS = {
    "lenet5": LeNet5,
    "alexnet-cifar": AlexNet,
    "resnet20-cifar": ResNet20,
    "lstm-text": TextClassifier,
}


def loss_fn(model, images, labels):
    logits = model(images)
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@nnx.jit
def train_step(model, optimizer, metrics, images, labels):
    loss, gradients = nnx.value_and_grad(loss_fn)(model, images, labels)
    metrics.update(loss=loss)
    optimizer.update(model, gradients)


class Training:
    def __init__(self, network, batch_size, batches):
        self.images, self.labels = program.noise(network, batches * batch_size)
        self.shape = batches, batch_size
        self.model = NETWORKS[network](nnx.Rngs(0))
        self.model.train()
        transformation = optax.sgd(learning_rate=0.001, momentum=0.9)
        self.optimizer = nnx.Optimizer(self.model, transformation, wrt=nnx.Param)
        self.metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"))

    def train(self, epochs, ended):
        random = np.random.default_rng(2)
        for _ in range(epochs):
            for chosen in random.permutation(len(self.labels)).reshape(self.shape):
                train_step(
                    self.model, self.optimizer, self.metrics,
                    self.images[chosen], self.labels[chosen],
                )  # fmt: skip
            float(self.metrics.compute()["loss"])
            self.metrics.reset()
            ended()

    def parameters(self):
        return sum(
            array.size for array in nnx.to_flat_state(nnx.state(self.model, nnx.Param)).leaves
        )


if __name__ == "__main__":
    program.user(NETWORKS, Training)
