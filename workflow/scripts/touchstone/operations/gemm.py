"""The product of two dense matrices, (rows x inner) (inner x columns).

A file of this folder is an operation, found by its name. It runs in the frameworks' own
environments, so it imports a framework in that framework's method only, and parses as
Python 3.6. It has a class `Operation` with

    dimensions                  what the numbers of a shape mean
    flops(**dimensions)         floating-point operations of one call
    traffic(**dimensions)       bytes that one call reads and writes at least, in single precision
    may_be_zero                 dimensions that may be 0, if there are any
    impossible(**dimensions)    why no array has them, or an empty text; it may be left out
    precisions                  those that it is written for, if they are more than fp32
    replicas                    of an operation between several replicas only: the runner puts the
                                number of those that take part there; and
    exchanged(**dimensions)     of such a one: bytes of the array of a replica
    arrays(random, **dimensions)  the operands, float32, from a RandomState
    <framework>(adapter, **arrays)  a function that makes one call and returns its results in a
                                tuple; they may be asynchronous. What it need not do in every
                                call is done before. If the framework has its results in an
                                order of its own: that function, and one that gives the list of
                                NumPy arrays in the operation's order.
    deviation(results, **arrays)  how far the results, NumPy arrays, are from those in double
                                precision, relative to the largest; of large ones a sample
"""

from typing import Any

import numpy as np

SAMPLE = 64
"""Rows that are compared."""


class Operation:
    dimensions = ("rows", "inner", "columns")
    precisions = ("fp32", "fp64", "tf32", "bf16", "fp16-amp")

    def flops(self, rows: Any, inner: Any, columns: Any) -> Any:
        """A multiplication and an addition for every inner element of every result."""
        return 2 * rows * inner * columns

    def traffic(self, rows: Any, inner: Any, columns: Any) -> Any:
        return 4 * (rows * inner + inner * columns + rows * columns)

    def arrays(self, random: Any, rows: Any, inner: Any, columns: Any) -> Any:
        return {
            "a": random.standard_normal((rows, inner)).astype(np.float32),
            "b": random.standard_normal((inner, columns)).astype(np.float32),
        }

    def pytorch(self, adapter: Any, a: Any, b: Any) -> Any:
        import torch

        a, b = (torch.from_numpy(x).to(adapter.device, adapter.computed) for x in (a, b))
        c = torch.empty(len(a), b.shape[1], dtype=adapter.computed, device=adapter.device)
        return lambda: (torch.mm(a, b, out=c),)

    def tensorflow(self, adapter: Any, a: Any, b: Any) -> Any:
        import tensorflow as tf

        a, b = (tf.cast(tf.constant(array), adapter.computed) for array in (a, b))
        return lambda: (tf.linalg.matmul(a, b),)

    def mxnet(self, adapter: Any, a: Any, b: Any) -> Any:
        from mxnet import nd

        if adapter.mixed:
            raise NotImplementedError("MXNet's mixed precision leaves bare products alone")
        a, b = (adapter.array(x, adapter.dtype) for x in (a, b))
        c = nd.empty((len(a), b.shape[1]), ctx=adapter.context, dtype=adapter.dtype)
        return lambda: (nd.dot(a, b, out=c),)

    def jax(self, adapter: Any, a: Any, b: Any) -> Any:
        import jax

        a, b = (jax.numpy.asarray(array, adapter.computed) for array in (a, b))
        product = jax.jit(jax.numpy.matmul)  # as precise as the adapter has JAX multiply
        return lambda: (product(a, b),)

    def scipy(self, adapter: Any, a: Any, b: Any) -> Any:
        a, b = a.astype(adapter.dtype), b.astype(adapter.dtype)
        c = np.empty((len(a), b.shape[1]), adapter.dtype)
        return lambda: (np.matmul(a, b, out=c),)

    def deviation(self, results: Any, a: Any, b: Any) -> float:
        rows = np.linspace(0, len(a) - 1, SAMPLE).astype(int)
        exact = a[rows].astype(np.float64) @ b
        return float(np.abs(results[0][rows] - exact).max() / np.abs(exact).max())
