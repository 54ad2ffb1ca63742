"""A Vision Transformer and a GPT, as `expert_tensorflow.py` trains them."""

import numpy as np
import tensorflow as tf


def normal(*shape):
    return tf.Variable(0.02 * tf.random.normal(shape))


class Linear(tf.Module):
    """The last axis as a product; sequences are one matrix of all steps."""

    def __init__(self, inputs, units):
        super().__init__()
        self.weight, self.bias = normal(inputs, units), tf.Variable(tf.zeros(units))

    def __call__(self, x):
        shape = [-1, *x.shape[1:-1], self.weight.shape[1]]
        self.macs = x[0].shape.num_elements() * self.weight.shape[1]
        x = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), self.weight)
        return tf.reshape(tf.nn.bias_add(x, self.bias), shape)


class LayerNorm(tf.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.scale, self.offset = tf.Variable(tf.ones(width)), tf.Variable(tf.zeros(width))
        self.epsilon = epsilon

    def __call__(self, x):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(
            x, mean, variance, self.offset, self.scale, self.epsilon
        )  # fmt: skip


class Attention(tf.Module):
    def __init__(self, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal

    def __call__(self, x):
        steps, features = x.shape[1:]
        self.macs = 2 * steps**2 * features // 3
        x = tf.reshape(x, [-1, steps, 3, self.heads, features // 3 // self.heads])
        q, k, v = tf.unstack(tf.transpose(x, [2, 0, 3, 1, 4]))
        scores = tf.matmul(q * q.shape[3] ** -0.5, k, transpose_b=True)
        if self.causal:
            scores += np.triu(np.full((steps, steps), -np.inf, np.float32), 1)
        x = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
        return tf.reshape(x, [-1, steps, features // 3])


class Block(tf.Module):
    def __init__(self, width, heads, causal, exact, epsilon, rate=0.0):
        super().__init__()
        self.norm1, self.norm2 = LayerNorm(width, epsilon), LayerNorm(width, epsilon)
        self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
        self.inner, self.outer = Linear(width, 4 * width), Linear(4 * width, width)
        self.attention, self.exact, self.rate = Attention(heads, causal), exact, rate

    def skipped(self, x):
        """Stochastic depth of a branch."""
        return tf.nn.dropout(x, self.rate, noise_shape=[tf.shape(x)[0], 1, 1]) if self.rate else x

    def __call__(self, x):
        x += self.skipped(self.out(self.attention(self.qkv(self.norm1(x)))))
        y = tf.nn.gelu(self.inner(self.norm2(x)), approximate=not self.exact)
        return x + self.skipped(self.outer(y))


class VisionTransformer(tf.Module):
    def __init__(self, side, classes, width, heads, layers=12, patch=16):
        super().__init__()
        self.weight, self.bias = normal(patch, patch, 3, width), tf.Variable(tf.zeros(width))
        self.patch, steps = patch, 1 + (side // patch) ** 2
        self.token, self.position = tf.Variable(tf.zeros([1, 1, width])), normal(steps, width)
        rates = np.linspace(0, 0.1, layers).tolist()
        self.blocks = [Block(width, heads, False, True, 1e-6, rate) for rate in rates]
        self.norm, self.logits = LayerNorm(width, 1e-6), Linear(width, classes)

    def __call__(self, x):
        x = tf.nn.bias_add(tf.nn.conv2d(x, self.weight, self.patch, "VALID"), self.bias)
        x = tf.reshape(x, [-1, x.shape[1] * x.shape[2], x.shape[3]])
        self.macs = x.shape[1] * self.weight.shape.num_elements()
        token = tf.tile(self.token, [tf.shape(x)[0], 1, 1])
        x = tf.concat([token, x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x)[:, 0])


class GPT(tf.Module):
    def __init__(self, steps, vocabulary, width, heads, layers):
        super().__init__()
        self.table, self.position = normal(vocabulary, width), normal(steps, width)
        self.blocks = [Block(width, heads, True, False, 1e-5) for _ in range(layers)]
        self.norm = LayerNorm(width, 1e-5)

    def __call__(self, tokens):
        x = tf.gather(self.table, tokens) + self.position
        for block in self.blocks:
            x = block(x)
        x, steps = self.norm(x), x.shape[1]
        self.macs = steps * self.table.shape.num_elements()
        logits = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), self.table, transpose_b=True)
        return tf.reshape(logits, [-1, steps, logits.shape[-1]])
