"""LeNet-5 as a JAX user would write it for speed: one jitted step, its state donated, and
pooling by a reshape, whose gradient XLA compiles far better than that of `reduce_window`."""

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

SHAPES = {
    "conv1": (5, 5, 1, 6), "conv2": (5, 5, 6, 16),
    "dense1": (400, 120), "dense2": (120, 84), "dense3": (84, 10),
}  # fmt: skip
PIXELS = {"conv1": 28 * 28, "conv2": 10 * 10}


def conv(x, layer, padding):
    weight, bias = layer
    dimensions = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (1, 1), padding, dimension_numbers=dimensions) + bias


def pool_reshape(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def pool_window(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


POOLS = {"pooling by reshape": pool_reshape, "reduce_window": pool_window}


def loss_of(pool, parameters, images, labels):
    x = pool(jax.nn.relu(conv(images, parameters["conv1"], "SAME")))
    x = pool(jax.nn.relu(conv(x, parameters["conv2"], "VALID")))
    x = x.reshape(len(x), -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(x @ parameters[name][0] + parameters[name][1])
    logits = x @ parameters["dense3"][0] + parameters["dense3"][1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


class Training:
    def __init__(self, network, batch_size, batches, threads, candidate):
        key = jax.random.key(0)
        he_normal = jax.nn.initializers.he_normal()
        self.parameters = {
            name: (he_normal(jax.random.fold_in(key, i), shape), jnp.zeros(shape[-1]))
            for i, (name, shape) in enumerate(SHAPES.items())
        }
        self.velocities = jax.tree.map(jnp.zeros_like, self.parameters)
        self.images = list(jax.random.normal(key, (batches, batch_size, 28, 28, 1)))
        self.labels = list(jax.random.randint(key, (batches, batch_size), 0, 10))
        self.taken = 0

        @partial(jax.jit, donate_argnums=(0, 1))
        def step(parameters, velocities, images, labels):
            loss, gradients = jax.value_and_grad(partial(loss_of, POOLS[candidate]))(
                parameters, images, labels
            )
            velocities = jax.tree.map(lambda v, g: 0.9 * v + g, velocities, gradients)
            parameters = jax.tree.map(lambda w, v: w - 0.001 * v, parameters, velocities)
            return parameters, velocities, loss

        self.step = step

    def steps(self, n):
        for _ in range(n):
            place = self.taken % len(self.images)
            self.parameters, self.velocities, loss = self.step(
                self.parameters, self.velocities, self.images[place], self.labels[place]
            )
            self.taken += 1
        loss.block_until_ready()

    def size(self):
        count = sum(array.size for array in jax.tree.leaves(self.parameters))
        macs = sum(w.size * PIXELS.get(name, 1) for name, (w, _) in self.parameters.items())
        return [count, macs]


expert.main(lambda network, thorough: POOLS if network == "lenet5" else (), Training)
