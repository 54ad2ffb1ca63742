"""The networks as a JAX user would write and train them for speed: pure functions, one jitted
step that donates its state, and pooling by a reshape, whose gradient XLA compiles far better than
that of `reduce_window`."""

import json
import os
import sys
from functools import partial

# Before the import: it decides how many threads XLA computes with.
os.environ["NPROC"] = str(json.loads(sys.argv[1])["threads"])

import expert
import jax
import jax.numpy as jnp
from jax import lax

he_normal = jax.nn.initializers.he_normal()


class Run:
    """What a pass needs beside the parameters, and what it leaves: statistics of the batch, and
    multiply-accumulates of an example."""

    def __init__(self, pool, key):
        self.pool, self.key, self.statistics, self.macs = pool, key, [], 0


class Conv:
    def __init__(self, filters, kernel, stride=1, padding=None, bias=True):
        self.filters, self.kernel, self.stride, self.bias = filters, kernel, stride, bias
        self.padding = kernel // 2 if padding is None else padding

    def start(self, key, x, run):
        weight = he_normal(key, (self.kernel, self.kernel, x.shape[3], self.filters))
        return [weight, jnp.zeros(self.filters)] if self.bias else [weight]

    def __call__(self, parameters, x, run):
        weight, *bias = parameters
        x = lax.conv_general_dilated(
            x, weight, [self.stride] * 2, [(self.padding, self.padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        run.macs += x[0].size * weight[..., 0].size
        return x + bias[0] if bias else x


class Dense:
    def __init__(self, units):
        self.units = units

    def start(self, key, x, run):
        return he_normal(key, (x.shape[1], self.units)), jnp.zeros(self.units)

    def __call__(self, parameters, x, run):
        weight, bias = parameters
        run.macs += weight.size
        return x @ weight + bias


class BatchNorm:
    def start(self, key, x, run):
        return jnp.ones(x.shape[3]), jnp.zeros(x.shape[3])

    def __call__(self, parameters, x, run):
        scale, offset = parameters
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        run.statistics.append((mean, variance))
        return (x - mean) * (scale * lax.rsqrt(variance + 1e-5)) + offset


class Sequence:
    def __init__(self, *layers):
        self.layers = layers

    def start(self, key, x, run):
        parameters = []
        for number, layer in enumerate(self.layers):
            own = None
            if hasattr(layer, "start"):
                own = layer.start(jax.random.fold_in(key, number), x, run)
            parameters.append(own)
            x = layer(own, x, run)
        return parameters

    def __call__(self, parameters, x, run):
        for layer, own in zip(self.layers, parameters, strict=True):
            x = layer(own, x, run)
        return x


class Residual:
    """`body(x)` added to `x`, which is projected where its shape changes, and a ReLU."""

    def __init__(self, body, shortcut):
        self.body, self.shortcut = body, shortcut

    def start(self, key, x, run):
        own = self.shortcut.start(jax.random.fold_in(key, 1), x, run) if self.shortcut else None
        return self.body.start(jax.random.fold_in(key, 0), x, run), own

    def __call__(self, parameters, x, run):
        body, shortcut = parameters
        y = self.body(body, x, run)
        return jax.nn.relu(y + (self.shortcut(shortcut, x, run) if self.shortcut else x))


def relu(_, x, run):
    return jax.nn.relu(x)


def pool(_, x, run):
    return run.pool(x)


def flat(_, x, run):
    return x.reshape(len(x), -1)


def mean(_, x, run):
    return jnp.mean(x, (1, 2))


def half(_, x, run):
    run.key, own = jax.random.split(run.key)
    return jnp.where(jax.random.bernoulli(own, 0.5, x.shape), 2 * x, 0)


def pool_reshape(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def pool_window(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def lenet5():
    return Sequence(
        *(Conv(6, 5), relu, pool, Conv(16, 5, padding=0), relu, pool, flat),
        *(Dense(120), relu, Dense(84), relu, Dense(10)),
    )


def alexnet_cifar():
    return Sequence(
        *(Conv(64, 3), relu, pool, Conv(192, 3), relu, pool),
        *(Conv(384, 3), relu, Conv(256, 3), relu, Conv(256, 3), relu, pool, flat),
        *(half, Dense(1024), relu, half, Dense(1024), relu, Dense(10)),
    )


def conv_norm(filters, kernel, stride=1):
    return Sequence(Conv(filters, kernel, stride, bias=False), BatchNorm())


def basic(filters, stride):
    body = Sequence(conv_norm(filters, 3, stride), relu, conv_norm(filters, 3))
    return Residual(body, conv_norm(filters, 1, stride) if stride > 1 else None)


def resnet20_cifar():
    blocks = [
        basic(filters, 2 if number == 0 and filters > 16 else 1)
        for filters in (16, 32, 64)
        for number in range(3)
    ]
    return Sequence(conv_norm(16, 3), relu, *blocks, mean, Dense(10))


NETWORKS = {"lenet5": lenet5, "alexnet-cifar": alexnet_cifar, "resnet20-cifar": resnet20_cifar}
POOLS = {"pooling by reshape": pool_reshape, "reduce_window": pool_window}


def candidates(network, thorough):
    if network == "resnet20-cifar":  # which has no pooling but a mean
        return ["pooling by reshape"]
    return POOLS if network in NETWORKS else ()


class Training:
    def __init__(self, network, batch_size, batches, threads, candidate):
        *shape, classes = expert.image(network)
        # The fastest of JAX's generators; ours has it too.
        key = jax.random.key(0, impl="rbg")
        images = jax.random.normal(key, (batches, batch_size, *shape))
        self.images = list(images)
        self.labels = list(jax.random.randint(key, (batches, batch_size), 0, classes))
        self.taken, chosen = 0, POOLS[candidate]
        model = NETWORKS[network]()
        self.parameters = model.start(key, images[0, :1], Run(chosen, key))
        self.velocities = jax.tree.map(jnp.zeros_like, self.parameters)
        self.first = Run(chosen, key)
        model(self.parameters, images[0, :1], self.first)
        self.statistics = [(jnp.zeros_like(m), jnp.ones_like(v)) for m, v in self.first.statistics]

        @partial(jax.jit, donate_argnums=(0, 1, 2))
        def step(parameters, velocities, statistics, images, labels, number):
            def loss_of(parameters):
                run = Run(chosen, jax.random.fold_in(key, number))
                logits = model(parameters, images, run)
                picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
                return -picked.mean(), run.statistics

            (loss, fresh), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
            velocities = jax.tree.map(lambda v, g: 0.9 * v + g, velocities, gradients)
            parameters = jax.tree.map(lambda w, v: w - 0.001 * v, parameters, velocities)
            statistics = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, statistics, fresh)
            return parameters, velocities, statistics, loss

        self.step = step

    def steps(self, n):
        for _ in range(n):
            place = self.taken % len(self.images)
            self.parameters, self.velocities, self.statistics, loss = self.step(
                self.parameters, self.velocities, self.statistics, self.images[place],
                self.labels[place], self.taken,
            )  # fmt: skip
            self.taken += 1
        loss.block_until_ready()

    def size(self):
        return [sum(array.size for array in jax.tree.leaves(self.parameters)), self.first.macs]


if __name__ == "__main__":
    expert.main(candidates, Training)
