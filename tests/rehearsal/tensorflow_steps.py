"""The operations of TensorFlow's steps that have no kernel for GPUs.

With soft placement TensorFlow runs them on the CPU without a word, and without it refuses them. It
takes the build for GPUs: the one for CPUs has no such kernel at all.
"""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels

from rehearsal import answers
from touchstone.runner.adapters.tensorflow import adapter as module
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job

GPU = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
ARGUMENTS = ("Placeholder", "_Arg", "_Retval")
"""What stands for the arguments and results of a graph and computes nothing."""


def operations(graph: Any, seen: set[str]) -> Iterator[Any]:
    """The operations of a graph and of the functions that they call."""
    for operation in graph.get_operations():
        yield operation
        for value in operation.node_def.attr.values():
            for name in (value.func.name, *(each.name for each in value.list.func)):
                if name and name not in seen:
                    seen.add(name)
                    yield from operations(graph._get_function(name).graph, seen)


def has_kernel(operation: Any) -> bool:
    """Whether TensorFlow has a GPU kernel of that operation for its types."""
    attributes = operation.node_def.attr
    for kernel in kernels.get_registered_kernels_for_op(operation.type).kernel:
        allowed = all(
            attributes[one.name].type in one.allowed_values.list.type
            or set(attributes[one.name].list.type) & set(one.allowed_values.list.type)
            for one in kernel.constraint
        )
        if kernel.device_type in ("GPU", "DEFAULT") and allowed:
            return True
    return False


def without_kernel(graph: Any) -> tuple[list[str], int]:
    """The operations that no GPU kernel computes, each `type: element types`; how many there are
    in all."""
    found = [one for one in operations(graph, set()) if one.type not in ARGUMENTS]
    lacking = {
        f"{one.type}: {', '.join(sorted({t.dtype.name for t in (*one.inputs, *one.outputs)}))}"
        for one in found
        if not has_kernel(one)
    }
    return sorted(lacking), len(found)


def rehearse(job: Job) -> dict[str, Any]:
    """Build the network for a GPU, and trace a chunk of steps and a prediction."""
    grown = mock.Mock()
    with (
        mock.patch.object(tf.config, "list_physical_devices", lambda kind: [GPU]),
        mock.patch.object(tf.config.experimental, "set_memory_growth", grown),
    ):
        adapter = module.Adapter(job, 1)
    size, shape = job.batch_size, job.data.shape
    images = np.zeros((2 * size, *shape), np.float32)
    adapter.build(initial_weights(job.network.parameters, 1))
    adapter.load_examples(images, np.zeros(2 * size, np.int64))
    step, several = without_kernel(adapter.chunk.get_concrete_function().graph)
    seen = tf.TensorSpec([size, *shape], adapter.dtype)
    prediction, others = without_kernel(adapter.predictor.get_concrete_function(seen).graph)
    return {
        "step": step,
        "prediction": prediction,
        "operations": [several, others],
        "grown": [str(call.args[0]) for call in grown.call_args_list],
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
    }


if __name__ == "__main__":
    answers(rehearse)
