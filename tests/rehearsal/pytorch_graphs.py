"""What PyTorch's adapter computes on a CPU, in the mode `compile_graphs` with stand-ins for graphs.

A third argument, `refused`, has PyTorch find that there can be no graph.
"""

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np

from rehearsal import answers
from touchstone.runner.adapters import make_adapter
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job
from touchstone.runner.outcome import raise_as_outcome

CHUNKS = (slice(0, 1), slice(1, 3), slice(3, 6))
RATES = np.array([0.1, 0.2, 0.05, 0.1, 0.02, 0.1])


def rehearse(job: Job) -> dict[str, Any]:
    """Train and predict, on a CPU."""
    job = job._replace(execution=job.execution._replace(device="cpu"))
    found: dict[str, Any] = {"reason": None}
    with ExitStack() as stack:
        try:
            adapter = make_adapter(job, 1)
        except NotImplementedError as reason:
            # PyTorch has been imported, with the variables of the mode.
            from rehearsal.fake_graphs import fake_graphs

            found["reason"] = str(reason)
            stack.enter_context(fake_graphs("refused" in sys.argv[3:]))
            adapter = make_adapter(job, 1)
        try:
            return {**found, **steps(job, adapter)}
        except Exception as error:
            raise_as_outcome(adapter, error)
            raise


def steps(job: Job, adapter: Any) -> dict[str, Any]:
    """Chunks of steps with learning rates of their own, read when all have been begun, then
    predictions, likewise."""
    size, shape = job.batch_size, job.data.shape
    random = np.random.RandomState(1)
    images = random.standard_normal((6 * size, *shape)).astype(np.float32)
    adapter.build(initial_weights(job.network.parameters, 1))
    adapter.load_examples(images, random.randint(0, job.data.classes, 6 * size))
    batches, handles, modes = np.arange(6 * size).reshape(6, size), [], []
    for chunk in CHUNKS:
        handles.append(adapter.train_steps(batches[chunk], RATES[chunk], None))
        modes.append(adapter.settings()["mode"])
    losses = np.concatenate([adapter.losses(handle) for handle in handles])
    weights = {name: array.tolist() for name, array in adapter.weights().items()}
    prepared = adapter.prepare(images)
    predicted = [adapter.predict(prepared[i * size : (i + 1) * size]) for i in range(4)]
    outputs = [adapter.fetch_outputs(one).tolist() for one in predicted]
    modes.append(adapter.inference_settings()["mode"])
    return {"losses": losses.tolist(), "weights": weights, "outputs": outputs, "modes": modes}


if __name__ == "__main__":
    answers(rehearse)
