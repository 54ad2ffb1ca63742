"""The product of a sparse matrix, compressed by rows, and a dense one.

vo2021's text calls its number the share of the first matrix that is left out, its code keeps
that share: `zeros`, in per cent, is what is left out, and both readings are shapes.
"""

from typing import Any

import numpy as np

SAMPLE = 64
"""Rows that are compared."""


def _kept(rows: Any, inner: Any, zeros: Any) -> Any:
    return rows * inner - rows * inner * zeros // 100


class Operation:
    dimensions = ("rows", "inner", "columns", "zeros")
    may_be_zero = ("zeros",)

    def impossible(self, rows: Any, inner: Any, zeros: Any, **others: Any) -> str:
        """Whether no element is kept, in words."""
        if zeros > 99 or not _kept(rows, inner, zeros):
            return "{} % zeros leave no element".format(zeros)
        return ""

    def flops(self, rows: Any, inner: Any, columns: Any, zeros: Any) -> Any:
        """A multiplication and an addition for every kept element and column."""
        return 2 * _kept(rows, inner, zeros) * columns

    def traffic(self, rows: Any, inner: Any, columns: Any, zeros: Any) -> Any:
        """Values and 32-bit column numbers of what is kept, row starts, and both dense matrices."""
        return 8 * _kept(rows, inner, zeros) + 4 * (rows + 1 + inner * columns + rows * columns)

    def arrays(self, random: Any, rows: Any, inner: Any, columns: Any, zeros: Any) -> Any:
        """Elements at random places of the whole matrix are kept."""
        kept = np.sort(random.permutation(rows * inner)[: _kept(rows, inner, zeros)])
        starts = np.searchsorted(kept, np.arange(rows + 1) * inner)
        return {
            "values": random.standard_normal(len(kept)).astype(np.float32),
            "places": kept % inner,
            "starts": starts.astype(np.int64),
            "b": random.standard_normal((inner, columns)).astype(np.float32),
        }

    def pytorch(self, adapter: Any, values: Any, places: Any, starts: Any, b: Any) -> Any:
        import torch

        shape = len(starts) - 1, len(b)
        parts = (torch.from_numpy(array).to(adapter.device) for array in (starts, places, values))
        a = torch.sparse_csr_tensor(*parts, size=shape, check_invariants=True)
        b = torch.from_numpy(b).to(adapter.device)
        return lambda: (a @ b,)

    def tensorflow(self, adapter: Any, values: Any, places: Any, starts: Any, b: Any) -> Any:
        import tensorflow as tf

        shape = len(starts) - 1, len(b)
        rows = np.repeat(np.arange(shape[0]), np.diff(starts))
        a, b = tf.sparse.SparseTensor(np.stack([rows, places], 1), values, shape), tf.constant(b)
        return lambda: (tf.sparse.sparse_dense_matmul(a, b),)

    def mxnet(self, adapter: Any, values: Any, places: Any, starts: Any, b: Any) -> Any:
        from mxnet import nd

        shape = len(starts) - 1, len(b)
        places, starts = (adapter.array(indices, "int64") for indices in (places, starts))
        parts = adapter.array(values), places, starts
        a = nd.sparse.csr_matrix(parts, shape=shape, ctx=adapter.context)
        b = adapter.array(b)
        return lambda: (nd.sparse.dot(a, b),)

    def jax(self, adapter: Any, values: Any, places: Any, starts: Any, b: Any) -> Any:
        import jax
        from jax.experimental import sparse

        shape = len(starts) - 1, len(b)
        rows = np.repeat(np.arange(shape[0]), np.diff(starts))
        places = np.stack([rows, places], 1).astype(np.int32)
        values, places, b = jax.device_put([values, places, b])
        a = sparse.BCOO((values, places), shape=shape, indices_sorted=True, unique_indices=True)
        product = jax.jit(lambda a, b: a @ b)
        return lambda: (product(a, b),)

    def scipy(self, adapter: Any, values: Any, places: Any, starts: Any, b: Any) -> Any:
        import scipy.sparse

        a = scipy.sparse.csr_matrix((values, places, starts), shape=(len(starts) - 1, len(b)))
        return lambda: (a @ b,)

    def deviation(self, results: Any, values: Any, places: Any, starts: Any, b: Any) -> float:
        rows = np.linspace(0, len(starts) - 2, SAMPLE).astype(int)
        kept = [slice(starts[row], starts[row + 1]) for row in rows]
        exact = np.stack([values[k].astype(np.float64) @ b[places[k]] for k in kept])
        return float(np.abs(results[0][rows] - exact).max() / np.abs(exact).max())
