"""What PyTorch's adapter calls on a fake CUDA device, and what it answers."""

from typing import Any
from unittest import mock

import numpy as np
import torch

from rehearsal import answers
from rehearsal.fake_cuda import fake_cuda, real
from touchstone.runner.adapters.pytorch import adapter as module
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job


def batches_of(job: Job, adapter: Any) -> Any:
    """One batch, as the job's input has it, of examples that are all zero."""
    size, shape = job.batch_size, job.data.shape
    if job.input != "records":
        images = np.zeros((2 * size, *shape), np.float32)
        adapter.load_examples(images, np.zeros(2 * size, np.int64))
        return np.arange(size)[None]
    adapter.open_records(job.data.shards["train"])
    return [adapter.fetch_records(np.arange(size)[None])]


def rehearse(job: Job) -> dict[str, Any]:
    """Build the network, train two steps, predict; the calls and answers."""
    if any(layer["op"] == "lstm" for layer in job.network.layers):
        # A build for CPUs cannot call cuDNN's LSTM; this is PyTorch's own for GPUs.
        torch.backends.cudnn.enabled = False
    with fake_cuda() as called, mock.patch.object(module, "module_of", real(module.module_of)):
        adapter = module.Adapter(job, 1)
        if job.execution.deterministic:
            adapter.make_deterministic()
        adapter.build(initial_weights(job.network.parameters, 1))
        batches, rates = batches_of(job, adapter), np.array([0.5])
        draws = np.zeros((1, job.batch_size, 3), np.int32) if job.augmentation else None
        adapter.train_steps(batches, rates, draws)
        called.calls.clear()
        losses = adapter.train_steps(batches, rates, draws)
        step = called.calls.copy()
        adapter.synchronize()
        found = {"losses": adapter.losses(losses).shape, "settings": adapter.settings()}
        images = np.zeros((job.batch_size, *job.data.shape), np.float32)
        found["logits"] = adapter.logits(images).shape
        found["weights"] = {name: one.shape for name, one in adapter.weights().items()}
        if job.optimizer.settings.get("momentum"):
            found["velocities"] = {name: one.shape for name, one in adapter.velocities().items()}
        pair = np.zeros((16, 16)), np.zeros((16, 16))
        found["products"] = [one.dtype.name for one in adapter.matrix_products(*pair)]
        prepared = adapter.prepare(images)
        called.calls.clear()
        found["predicted"] = adapter.fetch_outputs(adapter.predict(prepared)).shape
        found["inference_settings"] = adapter.inference_settings()
        found["memory_peak"] = adapter.device_memory_peak()
    return {**found, "step": step, "prediction": called.calls}


if __name__ == "__main__":
    answers(rehearse)
