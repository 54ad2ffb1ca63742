"""A copy of an array within the device's memory."""

from typing import Any

import numpy as np


class Operation:
    dimensions = ("mebibytes",)

    def flops(self, mebibytes: Any) -> int:
        return 0

    def traffic(self, mebibytes: Any) -> Any:
        """Every byte is read once and written once."""
        return 2 * mebibytes * 2**20

    def arrays(self, random: Any, mebibytes: Any) -> Any:
        return {"a": random.standard_normal(mebibytes * 2**18).astype(np.float32)}

    def pytorch(self, adapter: Any, a: Any) -> Any:
        import torch

        a = torch.from_numpy(a).to(adapter.device)
        b = torch.empty_like(a)
        return lambda: (b.copy_(a),)

    def tensorflow(self, adapter: Any, a: Any) -> Any:
        import tensorflow as tf

        a = tf.constant(a)
        # An assignment or an identity would share the buffer.
        return lambda: (tf.raw_ops.DeepCopy(x=a),)

    def mxnet(self, adapter: Any, a: Any) -> Any:
        from mxnet import nd

        a = adapter.array(a)
        b = nd.empty(a.shape, ctx=adapter.context)
        return lambda: (a.copyto(b),)

    def jax(self, adapter: Any, a: Any) -> Any:
        import jax

        a = jax.device_put(a)
        copy = jax.jit(lambda a: jax.numpy.array(a, copy=True))
        return lambda: (copy(a),)

    def scipy(self, adapter: Any, a: Any) -> Any:
        b = np.empty_like(a)

        def call() -> Any:
            np.copyto(b, a)
            return (b,)

        return call

    def deviation(self, results: Any, a: Any) -> float:
        return float(np.abs(results[0] - a).max())
