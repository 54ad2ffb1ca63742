"""The sum of an array of every replica, which each of them has afterwards: an all-reduce.

It is what replicas exchange gradients with, and each framework does it as its replicas do in
training (docs/parallel.md): PyTorch by its process group, TensorFlow by MirroredStrategy, MXNet by
its kvstore, JAX by a psum over its devices. As many take part as the cell has `replicas`.
"""

import math
from typing import Any

import numpy as np

from touchstone.schema.types import Arrays

SAMPLE = 2**16
"""Elements that are compared."""
LARGEST = 2.0**96
"""By which a sum that is added to itself may have grown before it begins again: far from float32's
end, 2^128."""


def own(a: Any, rank: int) -> Any:
    """The array of a replica: other numbers at every place than the others have there."""
    return np.roll(a, rank)


class Operation:
    dimensions = ("elements",)
    replicas = 2

    def flops(self, elements: Any) -> int:
        """None: what is done element by element does not count."""
        return 0

    def traffic(self, elements: Any) -> Any:
        """A replica's own: its array is read, and the sum is written."""
        return 8 * elements

    def exchanged(self, elements: Any) -> Any:
        """The size of an array, S of the algorithm bandwidth S / t and the bus bandwidth
        S / t x 2 (n - 1) / n of n replicas (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
        return 4 * elements

    def arrays(self, random: Any, elements: Any) -> Any:
        return {"a": random.standard_normal(elements).astype(np.float32)}

    def pytorch(self, adapter: Any, a: Any) -> Any:
        import torch
        from torch import distributed

        adapter.meet()
        mine = torch.from_numpy(own(a, distributed.get_rank())).to(adapter.device)
        total, size, calls = torch.empty_like(mine), distributed.get_world_size(), 0
        # It adds in place. A fresh copy for each call would cost as much as memory copies do.
        period = int(math.log(LARGEST, size))

        def call() -> Any:
            nonlocal calls
            if calls % period == 0:
                total.copy_(mine)
            distributed.all_reduce(total)
            calls += 1
            return (total,)

        return call, lambda results: [results[0] / float(size) ** ((calls - 1) % period)]

    def tensorflow(self, adapter: Any, a: Any) -> Any:
        import tensorflow as tf

        def placed(replica: Any) -> Any:
            rank = replica.replica_id_in_sync_group
            with tf.device(adapter.places[rank]):
                return tf.constant(own(a, rank))

        strategy = tf.distribute.MirroredStrategy(adapter.places)
        arrays = strategy.experimental_distribute_values_from_function(placed)

        def add(array: Any) -> Any:
            return tf.distribute.get_replica_context().all_reduce("SUM", array)

        @tf.function(autograph=False)
        def total(arrays: Arrays) -> Any:
            return strategy.experimental_local_results(strategy.run(add, [arrays]))

        return lambda: total(arrays)

    def mxnet(self, adapter: Any, a: Any) -> Any:
        import mxnet as mx

        store = mx.kv.create("device" if adapter.context.device_type == "gpu" else "local")
        arrays = [adapter.array(own(a, rank), context=c) for rank, c in enumerate(adapter.contexts)]
        totals = [mx.nd.empty(a.shape, ctx=context) for context in adapter.contexts]
        store.init(0, arrays[0])

        def call() -> Any:
            store.pushpull(0, arrays, out=totals)
            return totals

        return call

    def jax(self, adapter: Any, a: Any) -> Any:
        import jax
        from jax.sharding import NamedSharding, PartitionSpec

        (axis,) = adapter.mesh.axis_names
        split = PartitionSpec(axis)
        arrays = np.stack([own(a, rank) for rank in range(adapter.replicas)])
        arrays, total = jax.device_put([arrays, arrays], NamedSharding(adapter.mesh, split))
        # Each replica's own result is a row, so that all are compared.
        add = jax.shard_map(
            lambda array: jax.lax.psum(array, axis), mesh=adapter.mesh, in_specs=split,
            out_specs=split, check_vma=False,
        )  # fmt: skip
        # A call takes the memory of the one before, as a training step does.
        reduced = jax.jit(lambda array, _: add(array), donate_argnums=1, keep_unused=True)

        def call() -> Any:
            nonlocal total
            total = reduced(arrays, total)
            if adapter.device.platform == "cpu":
                # Calls that overlap may hold all threads of XLA's pool, and wait for ever for parts
                # that have none.
                total.block_until_ready()
            return (total,)

        return call

    def deviation(self, results: Any, a: Any) -> float:
        """Of every replica's result that is available; PyTorch's other processes keep theirs."""
        places = np.linspace(0, len(a) - 1, min(SAMPLE, len(a))).astype(int)
        wide = a.astype(np.float64)
        exact = sum(wide[(places - rank) % len(a)] for rank in range(self.replicas))
        sums = np.concatenate([result.reshape(-1, len(a)) for result in results])[:, places]
        return float(np.abs(sums - exact).max() / np.abs(exact).max())
