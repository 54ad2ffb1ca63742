"""Trains the GPT of gpt_torch.py in plain JAX, with its own AdamW."""

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from touchstone_steps import report, steps

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--length", type=int, default=64)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--steps", type=int, default=1_000_000)
arguments = parser.parse_args()
length, width = arguments.length, arguments.width
keys = iter(jax.random.split(jax.random.key(1), 1000))


def linear(inputs, outputs):
    weight = jax.random.normal(next(keys), (inputs, outputs)) * inputs**-0.5
    return {"weight": weight, "bias": jnp.zeros(outputs)}


def norm():
    return {"scale": jnp.ones(width), "offset": jnp.zeros(width)}


def block():
    return {
        "before": norm(), "between": norm(), "project": linear(width, 3 * width),
        "out": linear(width, width), "wide": linear(width, 4 * width),
        "narrow": linear(4 * width, width),
    }  # fmt: skip


def apply(layer, x):
    return x @ layer["weight"] + layer["bias"]


def normalise(layer, x):
    x = x - x.mean(-1, keepdims=True)
    return (
        x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * layer["scale"] + layer["offset"]
    )


def predict(weights, text):
    x = weights["letters"][text] + weights["places"]
    for layer in weights["blocks"]:
        parts = apply(layer["project"], normalise(layer["before"], x))
        query, key, value = parts.reshape(*x.shape[:2], 3, width // 32, 32).transpose(2, 0, 1, 3, 4)
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + apply(layer["out"], mixed.reshape(x.shape))
        wide = jax.nn.gelu(apply(layer["wide"], normalise(layer["between"], x)), approximate=False)
        x = x + apply(layer["narrow"], wide)
    return apply(weights["head"], normalise(weights["last"], x))


def loss_of(weights, batch):
    logits = jax.nn.log_softmax(predict(weights, batch[:, :-1]))
    return -jnp.take_along_axis(logits, batch[:, 1:, None], -1).mean()


@jax.jit
def train_step(weights, first, second, step, batch):
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)

    def updated(w, m, v):
        m, v = m / (1 - 0.9**step), v / (1 - 0.999**step)
        return w * (1 - 3e-4 * 0.01) - 3e-4 * m / (jnp.sqrt(v) + 1e-8)

    return jax.tree.map(updated, weights, first, second), first, second, loss


weights = {
    "letters": jax.random.normal(next(keys), (256, width)),
    "places": jax.random.normal(next(keys), (length, width)), "last": norm(),
    "blocks": [block() for _ in range(arguments.layers)], "head": linear(width, 256),
}  # fmt: skip
files = sorted(Path(os.__file__).parent.glob("*.py"))[:50]
text = np.frombuffer(b"".join(map(Path.read_bytes, files)), np.uint8).astype(np.int32)
first = second = jax.tree.map(jnp.zeros_like, weights)
for step in steps(range(1, arguments.steps + 1), examples=arguments.batch_size):
    begins = np.random.randint(len(text) - length - 1, size=arguments.batch_size)
    batch = np.stack([text[begin : begin + length + 1] for begin in begins])
    weights, first, second, loss = train_step(weights, first, second, step, batch)
    if step % 20 == 1:
        report(loss=loss)
print("last loss", float(loss))
