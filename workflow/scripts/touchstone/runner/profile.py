"""Steps of training under the framework's own profiler, and without it beside them."""

import json
import time
from statistics import median
from typing import Any, List, Optional, Tuple

from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples, reader_of, sampler_of
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job, job_of
from touchstone.runner.lr_schedule import LRSchedule
from touchstone.runner.outcome import raise_as_outcome
from touchstone.schema import status
from touchstone.schema.epochs import DROP
from touchstone.schema.profile import FORMAT, Profile, StepTrace, layer_times, without_numbers
from touchstone.schema.spec import ProfileSpec, TrainingSpec
from touchstone.schema.types import Array
from touchstone.schema.values import to_json

ROUNDS = 15
"""Of steps without the profiler and with it, in turn; their medians count."""
CHUNK_SECONDS = 0.15
"""How long the steps of a round take, about, s: as the speed of a shared machine changes, both
halves of a round are short."""
LEAST_STEPS, MOST_STEPS = 1, 25
WARMUP_SECONDS = 1.0


def profile(spec: ProfileSpec, path: str, threads: int) -> None:
    """Write the `Profile` of a spec into the file `path`, as JSON."""
    training = spec.training
    try:
        result = profile_of(training, threads)
    except NotImplementedError as fault:
        result = without_numbers(training.cell, status.UNSUPPORTED, str(fault))
    except MemoryError as fault:
        result = without_numbers(training.cell, status.OOM, str(fault) or "the host ran out of it")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(to_json(result), file, indent=1)


def profile_of(spec: TrainingSpec, threads: int) -> Profile:
    """Where the time of the steps of a run goes. Raises NotImplementedError with the reason."""
    if spec.execution.device != "cpu":
        raise NotImplementedError("profiles are there for steps on the CPU only")
    if spec.execution.world_size > 1:
        raise NotImplementedError("profiles are there for one process with one device only")
    job = job_of(spec, None, threads)._replace(last_batch=DROP)
    adapter = make_adapter(job, threads)
    reason = adapter.why_no_profile()
    if reason:
        raise NotImplementedError(reason)
    try:
        steps, plain, traces = _measured(adapter, job)
    except Exception as error:
        raise_as_outcome(adapter, error)
        raise
    ops = {layer["name"]: layer["op"] for layer in spec.network.layers}
    layers, other = layer_times(traces, steps, list(ops))
    profiled = sum(layer.total for layer in layers) + other
    ratio = median(trace.seconds / seconds for trace, seconds in zip(traces, plain))
    return Profile(
        FORMAT, spec.cell, status.OK, None, traces[0].profiler, ROUNDS, steps, layers, other,
        profiled / ratio, profiled, ops,
    )  # fmt: skip


def _measured(adapter: Any, job: Job) -> Tuple[int, List[float], List[StepTrace]]:
    """How many steps a round has; of each round the time without the profiler, s, and what the
    profiler recorded."""
    reader = reader_of(adapter, job)
    loaded = None if reader else examples(adapter, job, "train")
    adapter.build(initial_weights(job.network.parameters, job.seed))
    if loaded:
        adapter.load_examples(*loaded)
        loaded = None
    sampler = sampler_of(job)
    rates = LRSchedule(job.optimizer.learning_rate, job.schedule, sampler.steps, 1)

    def batches_of(count: int) -> Tuple[Any, Array, Optional[Array]]:
        batches, draws = sampler.take(count)
        # Their time does not depend on the rate.
        return reader.take(batches, ()) if reader else batches, rates.take(0, count), draws

    def seconds_of(count: int) -> float:
        taken = batches_of(count)
        begin = time.monotonic()
        adapter.losses(adapter.train_steps(*taken))
        adapter.synchronize()
        return time.monotonic() - begin

    seconds_of(1)
    steps = int(min(max(CHUNK_SECONDS / seconds_of(1), LEAST_STEPS), MOST_STEPS))
    begin = time.monotonic()
    seconds_of(steps)
    while time.monotonic() - begin < WARMUP_SECONDS:
        seconds_of(steps)
    adapter.profile_steps(*batches_of(steps))  # what a profiler does only once
    plain, traces = [], []
    for _ in range(ROUNDS):
        plain.append(seconds_of(steps))
        traces.append(adapter.profile_steps(*batches_of(steps)))
    return steps, plain, traces
