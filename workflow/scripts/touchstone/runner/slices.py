"""A runner that works in slices, whenever the conductor of a set asks (measure/interleaving.py).

It builds what an ordinary run builds, and writes that and its first step to its events too. Then it
reads commands, one a line: the seconds that a slice lasts. For about so long it works in whole
chunks, and waits for the device at both ends. It answers with a line of JSON, an `Answer`
(schema/interleaved.py), and waits in read(2) for the next command, without using a core. At the
end of the commands it proves its settings, as an ordinary run does.
"""

import json
import os
import resource
import sys
import time
from typing import Any, Callable, NamedTuple

import numpy as np

from touchstone import operations
from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples, reader_of, sampler_of
from touchstone.runner.checks import (
    arithmetic,
    prove_settings,
    requested_settings,
    shown_by_products,
    software_of,
)
from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.infer import Predictions, read_weights
from touchstone.runner.infer import requested_settings as requested_for_inference
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import job_of
from touchstone.runner.lr_schedule import LRSchedule
from touchstone.runner.operate import Calls
from touchstone.runner.outcome import raise_foreseen
from touchstone.runner.train import StepLoop
from touchstone.schema.interleaved import Answer
from touchstone.schema.spec import InferenceSpec, OperationSpec, RunSpec, TrainingSpec


class Work(NamedTuple):
    """What a slice does.

    begin: begins that many steps; at most one chunk of them is queued after another
    finish: waits for all steps begun
    examples: of all steps begun so far; of a call of an operation 1
    prove: proves the settings, at the end
    """

    begin: Callable[[int], Any]
    finish: Callable[[], Any]
    examples: Callable[[], int]
    prove: Callable[[], None]


class NoEvents:
    """In the place of a run's events: slices write none."""

    def write(self, event: Any) -> None:
        """Nothing."""

    def phase(self, name: str, begin: float, steps: int = 0, examples: int = 0) -> None:
        """Nothing."""


def training(spec: TrainingSpec, adapter: Any, threads: int, events: Any) -> Work:
    """Training steps, epoch after epoch without an end or an evaluation."""
    job = job_of(spec, threads=threads)
    reader = reader_of(adapter, job)
    loaded = None if reader else examples(adapter, job, "train")
    adapter.build(initial_weights(spec.network.parameters, spec.seed))
    if loaded:
        adapter.load_examples(*loaded)
    sampler = sampler_of(job)
    rates = LRSchedule(
        spec.optimizer.learning_rate, spec.schedule, sampler.steps, spec.phases.epochs
    )
    waits = spec.phases.chunk_seconds == 0
    loop = StepLoop(adapter, sampler, rates, NoEvents(), sys.maxsize, reader, waits)

    def prove() -> None:
        requested = requested_settings(
            job, threads, loop.last_rates[-1], loop.last_batch_size(), adapter
        )
        effective = dict(adapter.settings(), arithmetic=arithmetic(adapter, job))
        effective["reader_threads"] = reader.live() if reader else 0
        prove_settings(events, adapter, job, requested, effective)

    def begun() -> int:
        return sampler.epochs.examples_of(0, loop.step)

    return Work(lambda steps: loop.begin("slice", steps), loop.finish, begun, prove)


def inference(spec: InferenceSpec, adapter: Any, threads: int, events: Any) -> Work:
    """Predictions of batches of the test set, in turn. Raises ValueError for wrong weights."""
    size, job, parameters = spec.factors.batch_size, job_of(spec), spec.network.parameters
    images, _ = examples(adapter, job, "test")
    missing = -len(images) % size
    if missing:
        images = np.concatenate([images, images[:missing]])
    if spec.weights is None:
        weights = initial_weights(parameters, spec.seed)
    else:
        weights, _ = read_weights(spec.weights, parameters)
    images = adapter.prepare(images)
    adapter.build(weights)
    predictions = Predictions(adapter, images, size, NoEvents())

    def prove() -> None:
        requested = requested_for_inference(job, threads, adapter)
        effective = dict(adapter.inference_settings(), arithmetic=arithmetic(adapter, job))
        prove_settings(events, adapter, job, requested, effective)

    def begun() -> int:
        return predictions.made * size

    return Work(lambda steps: predictions.begin("slice", steps), predictions.finish, begun, prove)


def operation(spec: OperationSpec, adapter: Any, threads: int, events: Any) -> Work:
    """Calls of an operation."""
    job, module = job_of(spec), operations.load(spec.operation.name)
    if not hasattr(module, spec.factors.framework):
        message = "{} has no {} here: add it in operations/{}.py"
        name = spec.operation.name
        raise NotImplementedError(message.format(spec.factors.framework, name, name))
    arrays = module.arrays(np.random.RandomState(spec.seed), **spec.operation.dimensions)
    made = getattr(module, spec.factors.framework)(adapter, **arrays)
    calls = Calls(made[0] if isinstance(made, tuple) else made, adapter, NoEvents())

    def prove() -> None:
        requested = {"arithmetic": shown_by_products(job)}
        prove_settings(
            events,
            adapter,
            job,
            requested,
            {"arithmetic": arithmetic(adapter, job)},
        )

    return Work(lambda steps: calls.begin("slice", steps), calls.finish, lambda: calls.made, prove)


class Slicer:
    """Works for about as long as it is asked, in chunks of about `chunk_seconds`; 0: of one step.

    The first slice begins with the first step, and finds how many steps a chunk has. The others
    may double them.
    """

    def __init__(self, work: Work, chunk_seconds: float, events: Any) -> None:
        self.work, self.size, self.begun = work, ChunkSize(chunk_seconds), False
        self.events = events

    def slice(self, seconds: float) -> Answer:
        """Work for at least so long."""
        arrived, before = time.monotonic(), _usage()
        if not self.begun:
            self._first_steps()
        size = self.size.steps
        examples, chunks, begin = self.work.examples(), 0, time.monotonic()
        while not chunks or time.monotonic() - begin < seconds:
            self.work.begin(size)
            chunks += 1
        self.work.finish()
        end, after = time.monotonic(), _usage()
        self.size.learn(size, (end - begin) / chunks)
        examples = self.work.examples() - examples
        return Answer(arrived, begin, end, chunks * size, examples, *before, *after)

    def _first_steps(self) -> None:
        """Do the first step, and chunks until one lasts half as long as it should."""
        begin = time.monotonic()
        self.work.begin(1)
        self.work.finish()
        self.events.phase("first_step", begin, steps=1, examples=self.work.examples())
        self.begun = True
        while not self.size.found:
            begin, size = time.monotonic(), self.size.steps
            self.work.begin(size)
            self.work.finish()
            self.size.learn(size, time.monotonic() - begin)


def _usage() -> Any:
    """CPU time, s, and major page faults of this process so far."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def conducted(commands: int, answers: int) -> Callable[[RunSpec, Any, int], None]:
    """The work of a runner whose conductor has the other ends of these two pipes."""

    def work(spec: RunSpec, events: Any, threads: int) -> None:
        adapter = make_adapter(job_of(spec, threads=threads), threads)
        events.write(software_of(adapter))
        begin = events.phase("import", BEGIN)
        try:
            if isinstance(spec, TrainingSpec):
                made = training(spec, adapter, threads, events)
            elif isinstance(spec, InferenceSpec):
                made = inference(spec, adapter, threads, events)
            else:
                made = operation(spec, adapter, threads, events)
            events.phase("build", begin)
            slicer = Slicer(made, spec.phases.chunk_seconds, events)
            os.write(answers, b"{}\n")
            with open(commands, encoding="utf-8") as lines:
                for line in lines:
                    answer = slicer.slice(float(line))
                    os.write(answers, (json.dumps(answer._asdict()) + "\n").encode())
            made.prove()
        except Exception as error:
            raise_foreseen(adapter, error)
            raise

    return work
