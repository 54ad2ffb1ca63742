"""What the recurrent layers share: one layer with as many inputs as units, over a sequence.

Sequences are (steps, batch, units). A gate's weights are rows: w, of the inputs, and u, of
the state, are (gates x units, units), their biases b and c (gates x units). The equations and
the order of gates are cuDNN's (NVIDIA cuDNN developer guide, cudnnRNNMode_t), which PyTorch
and MXNet share: LSTM input, forget, cell, output; GRU reset, update, new, its reset applied
after the state's product. The state begins at 0.
"""

from typing import Any

import numpy as np

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
EPSILON = 1e-4
"""Half of the step of the difference quotient that a gradient is compared with."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _step(kind: str, inputs: Any, products: Any, h: Any, cell: Any) -> Any:
    if kind == "rnn":
        return np.tanh(inputs + products), cell
    inputs, products = (
        np.split(array, 4 if kind == "lstm" else 3, 1) for array in (inputs, products)
    )
    if kind == "lstm":
        i, f, o = (_sigmoid(inputs[k] + products[k]) for k in (0, 1, 3))
        cell = f * cell + i * np.tanh(inputs[2] + products[2])
        return o * np.tanh(cell), cell
    r, z = (_sigmoid(inputs[k] + products[k]) for k in (0, 1))
    return (1 - z) * np.tanh(inputs[2] + r * products[2]) + z * h, cell


def states(kind: str, x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    """The state after every step, float64 (steps, batch, units)."""
    x, w, u = (array.astype(np.float64) for array in (x, w, u))
    h = cell = np.zeros(x.shape[1:])
    outputs = []
    for inputs in x:
        h, cell = _step(kind, inputs @ w.T + b, h @ u.T + c, h, cell)
        outputs.append(h)
    return np.stack(outputs)


class Recurrent:
    """What the operations inherit; each has its `kind`, and whether it goes `backward` too."""

    kind: str

    dimensions = ("units", "batch", "steps")
    backward = False

    def flops(self, units: Any, batch: Any, steps: int) -> Any:
        """Of the products only, as DeepBench counts (github.com/baidu-research/DeepBench):
        of inputs and state for every gate; backward as many by the operands on either side."""
        forward = 2 * 2 * GATES[self.kind] * units * units * batch * steps
        return 3 * forward if self.backward else forward

    def traffic(self, units: Any, batch: Any, steps: int) -> Any:
        """The weights and the sequence in and out; backward, the gradients as well."""
        forward = 4 * (2 * GATES[self.kind] * units * (units + 1) + 2 * steps * batch * units)
        return 2 * forward if self.backward else forward

    def arrays(self, random: Any, units: Any, batch: Any, steps: int) -> Any:
        def uniform(*shape: Any) -> Any:  # as wide as PyTorch's users start it
            return (random.uniform(-1, 1, shape) / units**0.5).astype(np.float32)

        rows = GATES[self.kind] * units
        return {
            "x": random.standard_normal((steps, batch, units)).astype(np.float32),
            "w": uniform(rows, units),
            "u": uniform(rows, units),
            "b": uniform(rows),
            "c": uniform(rows),
            "y": random.standard_normal((steps, batch, units)).astype(np.float32),
        }

    def pytorch(self, adapter: Any, x: Any, w: Any, u: Any, b: Any, c: Any, y: Any) -> Any:
        import torch

        units = x.shape[2]
        kinds = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
        layer = kinds[self.kind](units, units)
        with torch.no_grad():
            for own, array in zip(layer.all_weights[0], (w, u, b, c)):
                own.copy_(torch.from_numpy(array))
        layer.to(adapter.device)
        x, y = (torch.from_numpy(array).to(adapter.device) for array in (x, y))
        wanted = [x, *layer.parameters()]

        @torch.no_grad()
        def forward() -> Any:
            return (layer(x)[0],)

        def both() -> Any:
            return torch.autograd.grad(layer(x)[0], wanted, y)[:3]

        if not self.backward:
            return forward
        x.requires_grad_()
        return both

    def mxnet(self, adapter: Any, x: Any, w: Any, u: Any, b: Any, c: Any, y: Any) -> Any:
        from mxnet import autograd, nd

        units = x.shape[2]
        x, y = map(adapter.array, (x, y))
        flat = np.concatenate([array.ravel() for array in (w, u, b, c)])
        parameters = adapter.array(flat)
        start = nd.zeros((1,) + x.shape[1:], ctx=adapter.context)
        mode = "rnn_tanh" if self.kind == "rnn" else self.kind
        settings = {"mode": mode, "state_size": units, "num_layers": 1}
        if self.kind == "lstm":
            settings["state_cell"] = start

        def forward() -> Any:
            return (nd.RNN(x, parameters, start, **settings),)

        def both() -> Any:
            with autograd.record():
                output = nd.RNN(x, parameters, start, **settings)
            output.backward(y)
            return x.grad, parameters.grad

        def read(results: Any) -> Any:
            by_x, flat = results
            by_w, by_u = flat[: w.size], flat[w.size : w.size + u.size]
            return [by_x, by_w.reshape(w.shape), by_u.reshape(u.shape)]

        if not self.backward:
            return forward
        x.attach_grad()
        parameters.attach_grad()
        return both, read

    def jax(self, adapter: Any, x: Any, w: Any, u: Any, b: Any, c: Any, y: Any) -> Any:
        import jax
        from jax import numpy as jnp

        def layer(x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
            def step(state: Any, inputs: Any) -> Any:
                h, cell = state
                products = h @ u.T + c
                if self.kind == "rnn":
                    h = jnp.tanh(inputs + products)
                elif self.kind == "lstm":
                    i, f, new, o = jnp.split(inputs + products, 4, 1)
                    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(new)
                    h = jax.nn.sigmoid(o) * jnp.tanh(cell)
                else:
                    (r, z, new), (hr, hz, hn) = (jnp.split(a, 3, 1) for a in (inputs, products))
                    z = jax.nn.sigmoid(z + hz)
                    h = (1 - z) * jnp.tanh(new + jax.nn.sigmoid(r + hr) * hn) + z * h
                return (h, cell), h

            start = jnp.zeros(x.shape[1:], x.dtype)
            # The inputs of all steps are multiplied at once.
            return jax.lax.scan(step, (start, start), x @ w.T + b)[1]

        @jax.jit
        def forward(y: Any, *operands: Any) -> Any:
            return (layer(*operands),)

        @jax.jit
        def both(y: Any, *operands: Any) -> Any:
            return jax.vjp(layer, *operands)[1](y)

        call = both if self.backward else forward
        y, *operands = jax.device_put([y, x, w, u, b, c])
        return lambda: call(y, *operands)[:3]

    def tensorflow(self, adapter: Any, x: Any, w: Any, u: Any, b: Any, c: Any, y: Any) -> Any:
        import keras
        import tensorflow as tf

        units = x.shape[2]
        layers = keras.layers
        kinds = {"rnn": layers.SimpleRNN, "lstm": layers.LSTM, "gru": layers.GRU}
        layer = kinds[self.kind](units, return_sequences=True)
        x, y = (tf.Variable(array.transpose(1, 0, 2)) for array in (x, y))
        layer.build(x.shape)

        def swapped(rows: Any) -> Any:
            """Keras has a GRU's update gate before its reset gate; so both ways."""
            if self.kind != "gru":
                return rows
            reset, update, new = np.split(rows, 3)
            return np.concatenate([update, reset, new])

        # Only Keras's GRU, whose reset comes after the product, keeps both biases.
        bias = np.stack([swapped(b), swapped(c)]) if self.kind == "gru" else b + c
        layer.set_weights([swapped(w).T, swapped(u).T, bias])
        wanted = [x, *(variable.value for variable in layer.trainable_variables)]

        @tf.function
        def forward() -> Any:
            return (layer(x),)

        @tf.function
        def both() -> Any:
            with tf.GradientTape() as tape:
                output = layer(x)
            return tuple(tape.gradient(output, wanted, y)[:3])

        def read(results: Any) -> Any:
            weights = [swapped(array.T) for array in results[1:]]
            return [results[0].transpose(1, 0, 2), *weights]

        return both if self.backward else forward, read

    def deviation(self, results: Any, x: Any, w: Any, u: Any, b: Any, c: Any, y: Any) -> Any:
        if not self.backward:
            exact = states(self.kind, x, w, u, b, c)
            return float(np.abs(results[0] - exact).max() / np.abs(exact).max())
        return self._gradient_deviation(results, {"x": x, "w": w, "u": u}, b, c, y)

    def _gradient_deviation(self, results: Any, operands: Any, b: Any, c: Any, y: Any) -> float:
        """How far the gradients of sum(states * y) by x, w and u are from difference quotients
        in double precision along a direction, relative to the gradient's length."""
        random, farthest = np.random.RandomState(1), 0.0
        for name, gradient in zip(operands, results):
            # Partly along the gradient itself: along only a random direction it is near 0.
            direction = random.standard_normal(gradient.shape)
            direction /= np.linalg.norm(direction)
            direction += gradient / np.linalg.norm(gradient)
            sides = []
            for sign in (1, -1):
                moved = operands[name] + sign * EPSILON * direction
                sides.append(
                    (states(self.kind, b=b, c=c, **dict(operands, **{name: moved})) * y).sum()
                )
            slope = (sides[0] - sides[1]) / (2 * EPSILON)
            difference = abs((gradient * direction).sum() - slope)
            farthest = max(farthest, difference / np.linalg.norm(gradient))
        return float(farthest)
