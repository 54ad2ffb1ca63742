"""LeNet-5 as a JAX user would write it for speed: one jitted step, its state donated, and
pooling by a reshape, whose gradient XLA compiles far better than that of `reduce_window`."""

import json
import os
import time
from functools import partial

os.environ["NPROC"] = "1"

import jax
import jax.numpy as jnp
from jax import lax


def start(key):
    """He-normal weights and zero biases."""
    shapes = {
        "conv1": (5, 5, 1, 6), "conv2": (5, 5, 6, 16),
        "dense1": (400, 120), "dense2": (120, 84), "dense3": (84, 10),
    }  # fmt: skip
    he_normal = jax.nn.initializers.he_normal()
    return {
        name: (he_normal(jax.random.fold_in(key, i), shape), jnp.zeros(shape[-1]))
        for i, (name, shape) in enumerate(shapes.items())
    }


def conv(x, layer, padding):
    weight, bias = layer
    dimensions = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (1, 1), padding, dimension_numbers=dimensions) + bias


def pool(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def loss_of(parameters, images, labels):
    x = pool(jax.nn.relu(conv(images, parameters["conv1"], "SAME")))
    x = pool(jax.nn.relu(conv(x, parameters["conv2"], "VALID")))
    x = x.reshape(len(x), -1)
    for name in ("dense1", "dense2"):
        x = jax.nn.relu(x @ parameters[name][0] + parameters[name][1])
    logits = x @ parameters["dense3"][0] + parameters["dense3"][1]
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
    return -picked.mean()


@partial(jax.jit, donate_argnums=(0, 1))
def step(parameters, velocities, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    velocities = jax.tree.map(lambda v, g: 0.9 * v + g, velocities, gradients)
    parameters = jax.tree.map(lambda w, v: w - 0.01 * v, parameters, velocities)
    return parameters, velocities, loss


key = jax.random.key(0)
parameters = start(key)
velocities = jax.tree.map(jnp.zeros_like, parameters)
images = list(jax.random.normal(key, (8, 64, 28, 28, 1)))
labels = list(jax.random.randint(key, (8, 64), 0, 10))


def train(seconds):
    """Steps made in about that time; every eighth waits, so that the queue stays short."""
    global parameters, velocities
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for i in range(8):
            parameters, velocities, loss = step(parameters, velocities, images[i], labels[i])
        steps += 8
        loss.block_until_ready()
    return steps, time.perf_counter() - begin


train(2)
steps, seconds = train(5)
print(json.dumps(steps * 64 / seconds))
