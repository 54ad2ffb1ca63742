"""The networks as a JAX user would write and train them for speed: pure functions and one jitted
step that donates its state; plainly, or with what XLA's CPU compiler does badly written out; on a
GPU also with many steps in one call."""

import json
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp
import program
from jax import lax
from transformers_jax import GPT, VisionTransformer

ASKED = json.loads(sys.argv[1])
CANDIDATES = {
    "plain": (),
    "gradients written out": ("gradients",),
    "gradients written out, barriers": ("gradients", "barriers"),
    "all written out, barriers": ("gradients", "convolutions", "barriers"),
}
LOOP = "loop in one call"
FORMS = CANDIDATES.get(ASKED["candidate"], ())
COMPUTED = jnp.bfloat16 if ASKED.get("precision") == "bf16" else jnp.float32
"""What a step computes in; weights and their updates stay in single precision."""
# Both variables are read when a device is first asked for.
os.environ["NPROC"] = str(ASKED.get("threads", 1))
if "barriers" in FORMS:
    # XLA would remove them, and compute what is behind one again for each of its readers.
    os.environ["XLA_FLAGS"] = "--xla_disable_hlo_passes=cse_barrier_expander"

if ASKED.get("device") == "gpu":
    # By itself JAX rounds to TF32 on a GPU.
    exact = ASKED["precision"] == "fp32"
    jax.config.update("jax_default_matmul_precision", "highest" if exact else "tensorfloat32")

he_normal = jax.nn.initializers.he_normal()


def kept(x):
    """An array that is computed once, where there are barriers."""
    return lax.optimization_barrier(x) if "barriers" in FORMS else x


def convolution(stride, padding, x, weight):
    return lax.conv_general_dilated(
        x, weight, [stride] * 2, [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip


def windows(stride, padding, x, size):
    """What each place of a window sees of the images, row by row."""
    x = jnp.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    height, width = (side - size + 1 for side in x.shape[1:3])
    for i in range(size):
        row = kept(x[:, i : i + height : stride])
        for j in range(size):
            yield row[:, :, j : j + width : stride]


def product(stride, padding, x, weight):
    """A convolution as one matrix product."""
    x = jnp.concatenate(list(windows(stride, padding, x, len(weight))), 3)
    return kept(x) @ weight.reshape(-1, weight.shape[3])


def scaled_sum(stride, padding, x, weight):
    """A convolution of one channel as a sum of scaled images."""
    places = weight.reshape(-1, weight.shape[3])
    seen = windows(stride, padding, x, len(weight))
    return kept(sum(image * place for image, place in zip(seen, places, strict=True)))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def written_out(stride, padding, x, weight):
    """A convolution that is fast for few channels too, and so are its gradients."""
    return (scaled_sum if x.shape[3] == 1 else convolution)(stride, padding, x, weight)


def gradients_of_convolution(stride, padding, arrays, gradient):
    x, weight = arrays
    form = product if x.shape[3] < 16 else convolution
    of_x = jax.vjp(lambda x: form(stride, padding, x, weight), x)[1](gradient)
    of_weight = jax.vjp(lambda weight: convolution(stride, padding, x, weight), weight)[1](gradient)
    return of_x + of_weight


written_out.defvjp(
    lambda stride, padding, x, weight: (written_out(stride, padding, x, weight), (x, weight)),
    gradients_of_convolution,
)


@jax.custom_vjp
def normalised(x, scale, offset):
    return normalise(x, scale, offset)[0]


def normalise(x, scale, offset):
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    root = lax.rsqrt(variance + 1e-5)
    return ((x - mean) * (scale * root) + offset, mean, variance), (x, mean, root, scale)


def gradients_of_norm(arrays, gradients):
    x, mean, root, scale = arrays
    gradient, count = gradients[0], x.size // x.shape[3]
    normalised = (x - mean) * root
    of_offset, of_scale = (jnp.sum(each, (0, 1, 2)) for each in (gradient, gradient * normalised))
    of_x = scale * root * (gradient - (of_offset + normalised * of_scale) / count)
    return of_x, of_scale, of_offset


normalised.defvjp(normalise, gradients_of_norm)


def pool_by_reshape(x):
    """Its gradient XLA compiles far better than that of `reduce_window`."""
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


@jax.custom_vjp
def pooled(x):
    return largest(x)[0]


def largest(x):
    x = kept(x)
    corners = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    found = kept(jnp.maximum(jnp.maximum(*corners[:2]), jnp.maximum(*corners[2:])))
    return found, (x, found)


def gradient_of_pool(arrays, gradient):
    x, found = arrays
    batch, height, width, channels = found.shape
    x = x.reshape(batch, height, 2, width, 2, channels)
    found, gradient = (each[:, :, None, :, None] for each in (found, gradient))
    # Pixels that are alike share the gradient, as in `jnp.max`: a plain background has many.
    alike = x == found
    shared = gradient / jnp.sum(alike, (2, 4), keepdims=True, dtype=gradient.dtype)
    spread = jnp.where(alike, shared, 0)
    return (kept(spread.reshape(batch, 2 * height, 2 * width, channels)),)


pooled.defvjp(largest, gradient_of_pool)


class Run:
    """What a pass needs beside the parameters, and what it leaves: statistics of the batch, and
    multiply-accumulates of an example."""

    def __init__(self, key):
        self.key, self.statistics, self.macs = key, [], 0


class Conv:
    def __init__(self, filters, kernel, stride=1, padding=None, bias=True):
        self.filters, self.kernel, self.stride, self.bias = filters, kernel, stride, bias
        self.padding = kernel // 2 if padding is None else padding

    def start(self, key, x, run):
        weight = he_normal(key, (self.kernel, self.kernel, x.shape[3], self.filters))
        return [weight, jnp.zeros(self.filters)] if self.bias else [weight]

    def __call__(self, parameters, x, run):
        weight, *bias = parameters
        form = written_out if "convolutions" in FORMS else convolution
        x = form(self.stride, self.padding, x, weight)
        run.macs += x[0].size * weight[..., 0].size
        return kept(x + bias[0] if bias else x)


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
        form = normalised if "gradients" in FORMS else lambda *arrays: normalise(*arrays)[0]
        x, *statistics = form(x, *parameters)
        run.statistics.append(tuple(statistics))
        return x


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
        x = self.shortcut(shortcut, x, run) if self.shortcut else x
        return jax.nn.relu(kept(y + x))


def relu(_, x, run):
    return jax.nn.relu(x)


def pool(_, x, run):
    return pooled(x) if "gradients" in FORMS else pool_by_reshape(x)


def flat(_, x, run):
    return x.reshape(len(x), -1)


def mean(_, x, run):
    return jnp.mean(x, (1, 2))


def half(_, x, run):
    run.key, own = jax.random.split(run.key)
    return jnp.where(jax.random.bernoulli(own, 0.5, x.shape), 2 * x, 0)


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


def bottleneck(filters, stride, first):
    body = Sequence(
        *(conv_norm(filters, 1), relu, conv_norm(filters, 3, stride), relu),
        conv_norm(4 * filters, 1),
    )
    return Residual(body, conv_norm(4 * filters, 1, stride) if first else None)


def overlapping_pool(_, x, run):
    sides = [(0, 0), (1, 1), (1, 1), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), sides)


def resnet50():
    blocks = [
        bottleneck(filters, 2 if number == 0 and filters > 64 else 1, number == 0)
        for filters, depth in ((64, 3), (128, 4), (256, 6), (512, 3))
        for number in range(depth)
    ]
    return Sequence(conv_norm(64, 7, 2), relu, overlapping_pool, *blocks, mean, Dense(1000))


def resnet20_cifar():
    blocks = [
        basic(filters, 2 if number == 0 and filters > 16 else 1)
        for filters in (16, 32, 64)
        for number in range(3)
    ]
    return Sequence(conv_norm(16, 3), relu, *blocks, mean, Dense(10))


NETWORKS = {
    "lenet5": lenet5,
    "alexnet-cifar": alexnet_cifar,
    "resnet20-cifar": resnet20_cifar,
    "resnet50": resnet50,
    "vit-ti-16": lambda: VisionTransformer(10, width=192, heads=3),
    "gpt-10m": lambda: GPT(256, width=384, heads=6, layers=6),
}


def candidates(network, thorough, device="cpu", precision="fp32"):
    if network not in NETWORKS:
        return ()
    if device == "gpu":
        return "plain", LOOP
    if network in ("vit-ti-16", "gpt-10m"):  # nothing else is written out
        return ("plain",)
    # On a CPU, ResNet-50 would compile and train for minutes.
    return () if network == "resnet50" else CANDIDATES


class Training:
    def __init__(
        self, network, batch_size, batches, threads, candidate, device="cpu", precision="fp32"
    ):
        jax.devices(device)  # or JAX would train on the CPU
        *shape, classes = program.shape(network)
        # The fastest of JAX's generators; ours has it too.
        key = jax.random.key(0, impl="rbg")
        images = jax.random.normal(key, (batches, batch_size, *shape))
        labels = jax.random.randint(key, (batches, batch_size), 0, classes)
        if network == "gpt-10m":
            texts = jax.random.randint(key, (batches, batch_size, shape[0]), 0, classes)
            images, labels = texts[:, :, :-1], texts[:, :, 1:]
        self.taken = 0
        model = NETWORKS[network]()
        self.parameters = model.start(key, images[0, :1], Run(key))
        self.velocities = jax.tree.map(jnp.zeros_like, self.parameters)
        self.first = Run(key)
        model(self.parameters, images[0, :1], self.first)
        self.statistics = [(jnp.zeros_like(m), jnp.ones_like(v)) for m, v in self.first.statistics]
        if network != "gpt-10m":
            images = images.astype(COMPUTED)
        self.images, self.labels = images, labels
        if candidate != LOOP:  # a batch for each call
            self.images, self.labels = list(images), list(labels)

        def step(parameters, velocities, statistics, images, labels, number):
            def loss_of(parameters):
                run = Run(jax.random.fold_in(key, number))
                computed = jax.tree.map(lambda array: array.astype(COMPUTED), parameters)
                logits = model(computed, images, run).astype(jnp.float32)
                picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
                return -picked.mean(), run.statistics

            (loss, fresh), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
            velocities = jax.tree.map(lambda v, g: 0.9 * v + g, velocities, gradients)
            parameters = jax.tree.map(lambda w, v: w - 0.001 * v, parameters, velocities)
            statistics = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, statistics, fresh)
            return parameters, velocities, statistics, loss

        def loop(parameters, velocities, statistics, images, labels, first, number):
            def body(taken, state):
                place = taken % len(images)
                return step(*state[:3], images[place], labels[place], taken)

            state = parameters, velocities, statistics, jnp.zeros(())
            return lax.fori_loop(first, first + number, body, state)

        self.step = jax.jit(step, donate_argnums=(0, 1, 2))
        self.loop = jax.jit(loop, donate_argnums=(0, 1, 2)) if candidate == LOOP else None

    def steps(self, n):
        if self.loop:
            self.parameters, self.velocities, self.statistics, loss = self.loop(
                self.parameters, self.velocities, self.statistics, self.images, self.labels,
                self.taken, n,
            )  # fmt: skip
            self.taken += n
        for _ in range(0 if self.loop else n):
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
    program.expert(candidates, Training)
