"""JAX's training step and prediction, lowered for a CUDA device without one, as StableHLO."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import numpy as np

from rehearsal import answers
from touchstone.runner.adapters.jax import adapter as module
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job

GPU = SimpleNamespace(
    platform="gpu",
    memory_stats=lambda: {"peak_bytes_in_use": 2**30},
    client=SimpleNamespace(platform_version="none"),
)
"""What the adapter asks of a device."""


def first_devices(platform: str) -> tuple[list[Any], int]:
    """The CPU in place of the devices of the platform, on which the arrays are."""
    assert platform == "cuda", platform
    assert jax.config.jax_platforms == "cuda,cpu"
    jax.config.update("jax_platforms", "cpu")
    return jax.devices("cpu"), 0


def lowered(function: Any, *arguments: Any) -> str:
    """The StableHLO of a jitted function for CUDA devices."""
    text: str = function.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    return text


def rehearse(job: Job) -> dict[str, Any]:
    """Build the network for a GPU and lower a step and a prediction."""
    with mock.patch.object(module, "first_devices", first_devices):
        adapter = module.Adapter(job, 1)
    adapter.device = GPU
    size, shape = job.batch_size, job.data.shape
    images = np.zeros((2 * size, *shape), np.float32)
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        adapter.build(initial_weights(job.network.parameters, 1))
        adapter.load_examples(images, np.zeros(2 * size, np.int64))
        batch = (np.arange(size, dtype=np.int32),)
        scalars = adapter._scalars(np.array([0.5]))[0]
        step = lowered(
            adapter.step, adapter.state, adapter.data, batch, None, {}, scalars, np.uint32(0)
        )
        arrays = adapter.state["arrays"]
        prediction = lowered(adapter.forward, arrays, adapter.prepare(images)[:size])
    return {
        "step": step,
        "prediction": prediction,
        "state": len(jax.tree.leaves(adapter.state)),
        "memory_peak": adapter.device_memory_peak(),
        "software": adapter.software()._asdict(),
    }


if __name__ == "__main__":
    answers(rehearse)
