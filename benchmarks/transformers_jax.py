"""A Vision Transformer and a GPT, as `expert_jax.py` trains them.

`run` has the key of a step, and counts multiply-accumulates.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def start_dense(keys, inputs, units):
    return 0.02 * jax.random.normal(next(keys), (inputs, units)), jnp.zeros(units)


def dense(own, x, run):
    weight, bias = own
    run.macs += x[0].size * weight.shape[1]
    return x @ weight + bias


def start_norm(width):
    return jnp.ones(width), jnp.zeros(width)


def norm(own, x, epsilon):
    scale, offset = own
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + epsilon) * scale + offset


def attention(x, heads, causal, run):
    batch, steps, features = x.shape
    run.macs += 2 * steps**2 * features // 3
    q, k, v = jnp.moveaxis(x.reshape(batch, steps, 3, heads, -1), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * q.shape[3] ** -0.5, k)
    if causal:
        scores = jnp.where(np.tri(steps, dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, steps, -1)


def skipped(x, rate, run):
    """Stochastic depth of a branch."""
    if not rate:
        return x
    run.key, own = jax.random.split(run.key)
    return jnp.where(jax.random.bernoulli(own, 1 - rate, (len(x), 1, 1)), x / (1 - rate), 0)


def start_block(keys, width):
    return {
        "norm1": start_norm(width), "qkv": start_dense(keys, width, 3 * width),
        "out": start_dense(keys, width, width), "norm2": start_norm(width),
        "dense1": start_dense(keys, width, 4 * width),
        "dense2": start_dense(keys, 4 * width, width),
    }  # fmt: skip


def block(own, x, run, heads, causal, exact, epsilon, rate=0.0):
    y = dense(own["qkv"], norm(own["norm1"], x, epsilon), run)
    y = dense(own["out"], attention(y, heads, causal, run), run)
    x = x + skipped(y, rate, run)
    y = dense(own["dense1"], norm(own["norm2"], x, epsilon), run)
    y = dense(own["dense2"], jax.nn.gelu(y, approximate=not exact), run)
    return x + skipped(y, rate, run)


class VisionTransformer:
    def __init__(self, classes, width, heads, layers=12, patch=16):
        self.classes, self.width, self.heads = classes, width, heads
        self.layers, self.patch = layers, patch

    def cut(self, x):
        """Images as sequences of patches."""
        batch, height, width, channels = x.shape
        rows, columns, patch = height // self.patch, width // self.patch, self.patch
        x = x.reshape(batch, rows, patch, columns, patch, channels)
        return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows * columns, -1)

    def start(self, key, x, run):
        keys = iter(jax.random.split(key, 4 * self.layers + 3))
        patches = self.cut(x)
        steps = 1 + patches.shape[1]
        return {
            "patches": start_dense(keys, patches.shape[2], self.width),
            "token": jnp.zeros((1, 1, self.width)),
            "position": 0.02 * jax.random.normal(next(keys), (steps, self.width)),
            "blocks": [start_block(keys, self.width) for _ in range(self.layers)],
            "norm": start_norm(self.width),
            "logits": start_dense(keys, self.width, self.classes),
        }

    def __call__(self, own, x, run):
        x = dense(own["patches"], self.cut(x), run)
        token = jnp.broadcast_to(own["token"], (len(x), 1, self.width))
        x = jnp.concatenate([token, x], 1) + own["position"]
        rates = np.linspace(0, 0.1, self.layers).tolist()
        for each, rate in zip(own["blocks"], rates, strict=True):
            x = block(each, x, run, self.heads, False, True, 1e-6, rate)
        return dense(own["logits"], norm(own["norm"], x, 1e-6)[:, 0], run)


class GPT:
    def __init__(self, vocabulary, width, heads, layers):
        self.vocabulary, self.width, self.heads = vocabulary, width, heads
        self.layers = layers

    def start(self, key, tokens, run):
        keys = iter(jax.random.split(key, 4 * self.layers + 2))
        shapes = (self.vocabulary, self.width), (tokens.shape[1], self.width)
        table, position = (jax.random.normal(next(keys), shape) for shape in shapes)
        return {
            "table": 0.02 * table, "position": 0.01 * position, "norm": start_norm(self.width),
            "blocks": [start_block(keys, self.width) for _ in range(self.layers)],
        }  # fmt: skip

    def __call__(self, own, tokens, run):
        x = own["table"].at[tokens].get(mode="promise_in_bounds") + own["position"]
        for each in own["blocks"]:
            x = block(each, x, run, self.heads, True, False, 1e-5)
        run.macs += tokens.shape[1] * own["table"].size
        return norm(own["norm"], x, 1e-5) @ own["table"].T
