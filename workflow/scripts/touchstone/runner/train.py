"""A training run: its steps, its evaluations."""

import time
from typing import Any, Callable, Optional, Tuple

import numpy as np

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import BatchSampler, RecordReader, examples, reader_of, sampler_of
from touchstone.runner.checks import arithmetic, prove_settings, requested_settings, software_of
from touchstone.runner.events import json_number
from touchstone.runner.group import IS_FOLLOWER, group_of, processes_of, threads_of_replica
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job, job_of
from touchstone.runner.lr_schedule import LRSchedule
from touchstone.runner.outcome import Diverged, raise_as_outcome
from touchstone.runner.tasks import overlap_of
from touchstone.runner.work import Extent, Phases, Work
from touchstone.schema.events import Chunk, Evaluation, Fit, Memory
from touchstone.schema.spec import BEST, LAST, TrainingSpec
from touchstone.schema.types import Array


def cross_entropy(logits: Any, labels: Array) -> float:
    """Sum over all labels of -log softmax(logits)[label], float64; the last axis of the logits are
    the classes."""
    if labels.ndim > 1:  # of one example at a time: those of a batch may be gigabytes
        return sum(cross_entropy(*pair) for pair in zip(logits, labels))
    logits = np.asarray(logits, np.float64)
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float((total - logits[np.arange(len(labels)), labels]).sum())


def evaluate(
    adapter: Any, images: Array, labels: Array, batch_size: int, overlap: Any = None
) -> Tuple[int, float]:
    """Correctly predicted labels, and the mean cross-entropy over all labels; the last batch is
    filled up and cut. `overlap` is that of the network's task, if it has one."""
    correct, loss = 0, 0.0
    for start in range(0, len(images), batch_size):
        batch, wanted = images[start : start + batch_size], labels[start : start + batch_size]
        missing = batch_size - len(batch)
        if missing:
            batch = np.concatenate([batch, images[np.arange(missing) % len(images)]])
        logits = np.asarray(adapter.logits(batch))[: len(wanted)]
        predicted = logits.argmax(axis=-1)
        correct += int((predicted == wanted).sum())
        if overlap:
            overlap.add(predicted, wanted, logits.shape[-1])
        loss += cross_entropy(logits, wanted)
    return correct, loss / labels.size


def save_weights(adapter: Any, path: str, images: Array, batch_size: int) -> None:
    """Write the weights, canonical, and what they make of the first images, as `logits`."""
    shown = min(batch_size, len(images))
    batch = np.resize(images[:shown], (batch_size,) + images.shape[1:])
    logits = np.asarray(adapter.logits(batch))
    logits = logits[: shown if logits.ndim == 2 else 1]  # of several labels, one is large enough
    np.savez(path, logits=logits, **adapter.weights())


class Training(Work):
    """Hands chunks of steps to the adapter and writes one event per finished chunk.

    Args:
        threads: of this process.
        reader: of the batches, where they are read during training.
        announce: gets the number of steps of a chunk before it begins.
    """

    def __init__(
        self,
        adapter: Any,
        job: Job,
        threads: int,
        sampler: BatchSampler,
        rates: LRSchedule,
        events: Any,
        reader: Optional[RecordReader] = None,
        announce: Optional[Callable[[int], None]] = None,
    ) -> None:
        self.adapter, self.job, self.threads, self.events = adapter, job, threads, events
        self.sampler, self.rates, self.reader, self.announce = sampler, rates, reader, announce
        self.waits = False  # for each chunk before the next begins: its time is then a latency
        self.pending: Any = None

    def begin(self, phase: str, steps: int) -> int:
        """As `Work` has it. A partial batch is a chunk of its own."""
        awaited = self.pending[2] if self.pending else 0
        left = steps
        while left:
            alike = self.sampler.alike(left)
            left -= alike
            self._begin(phase, alike, left or steps)
        return int(awaited)

    def _begin(self, phase: str, steps: int, next_steps: int) -> None:
        """Begin a chunk of batches of one size; the next one will probably have `next_steps`."""
        first, start = self.made, time.monotonic()
        if self.announce:
            self.announce(steps)
        batches, draws = self.sampler.take(steps)
        self.made += steps
        if self.reader:
            following = self.sampler.peek(min(next_steps, self.total - self.made))
            batches = self.reader.take(batches, following)
        self.last_rates = self.rates.take(first, steps)
        handle = self.adapter.train_steps(batches, self.last_rates, draws)
        previous, self.pending = self.pending, (phase, first, steps, start, handle)
        self._finish(previous)
        if self.waits:
            self.finish()

    def finish(self) -> None:
        """Wait for every step begun."""
        previous, self.pending = self.pending, None
        self._finish(previous)
        self.adapter.synchronize()

    def _finish(self, chunk: Any) -> None:
        if chunk is None:
            return
        phase, first, steps, start, handle = chunk
        losses = self.adapter.losses(handle)
        end = time.monotonic()
        self.events.write(
            Chunk(phase, first, steps, start, end, [json_number(loss) for loss in losses])
        )
        if not np.isfinite(losses).all():
            where = first + int(np.argmin(np.isfinite(losses)))
            self.pending = None
            raise Diverged("the loss is {} at step {}".format(losses[where - first], where))

    def examples(self, first: int) -> int:
        """Those of the steps from `first` on."""
        return self.sampler.epochs.examples_of(first, self.made - first)

    def prove(self, events: Any) -> None:
        """As `Work` has it; rate and batch size are those of the last step, of all replicas."""
        batch_size = self.sampler.epochs.size_of(self.made - 1)
        requested = requested_settings(
            self.job, self.threads, self.last_rates[-1], batch_size, self.adapter
        )
        effective = dict(self.adapter.settings(), arithmetic=arithmetic(self.adapter, self.job))
        effective["reader_threads"] = self.reader.live() if self.reader else 0
        prove_settings(events, self.adapter, self.job, requested, effective)


def training_of(
    spec: TrainingSpec,
    adapter: Any,
    job: Job,
    threads: int,
    events: Any,
    begin: float,
    chunks: Any,
    share: slice = slice(None),
    announce: Optional[Callable[[int], None]] = None,
) -> Tuple[Training, float]:
    """The steps of a run, with the data loaded and the network built; and the time.

    Args:
        events: where its phases are written; the first one began at the time `begin`.
        chunks: where the events of its chunks are written.
        share: of each batch, that of this process.
    """
    reader = reader_of(adapter, job)
    loaded = None if reader else examples(adapter, job, "train")
    begin = events.phase("load", begin)
    adapter.build(initial_weights(spec.network.parameters, spec.seed))
    if loaded:
        adapter.load_examples(*loaded)
        loaded = None  # some frameworks keep a copy of their own
    begin = events.phase("build", begin)
    sampler = sampler_of(job, share)
    rates = LRSchedule(
        spec.optimizer.learning_rate, spec.schedule, sampler.steps, spec.phases.epochs
    )
    training = Training(adapter, job, threads, sampler, rates, chunks, reader, announce)
    training.waits = spec.phases.chunk_seconds == 0
    return training, begin


def train(spec: TrainingSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises what the adapter raises, and Diverged."""
    process, share, phases = processes_of(spec.execution, events), slice(None), spec.phases
    threads = threads_of_replica(spec.execution, threads)
    if process:
        size = spec.factors.batch_size // process.size
        share = slice(process.rank * size, (process.rank + 1) * size)
    job = job_of(spec, group_of(process), threads)
    adapter = make_adapter(job, threads)
    events.write(software_of(adapter))
    # The wait for other nodes comes before it.
    begin = events.phase("import", max(BEGIN, process.ready) if process else BEGIN)
    try:
        evaluates = not IS_FOLLOWER and phases.measured_steps is None
        test_images, test_labels = np.empty(0), np.empty(0)
        if evaluates:
            test_images, test_labels = examples(adapter, job, "test")
        announce = process.announce if process and not IS_FOLLOWER else None
        training, begin = training_of(
            spec, adapter, job, threads, events, begin, events, share, announce
        )
        sampler = training.sampler
        training.total = phases.epochs * sampler.steps
        if phases.probe_steps is not None:
            training.total = phases.probe_steps
            test_images = test_images[: sampler.batch_size]
            test_labels = test_labels[: sampler.batch_size]
        if IS_FOLLOWER:
            process.follow_steps(training)
            return

        most_correct = -1

        def evaluated(begin: float) -> float:
            nonlocal most_correct
            overlap = overlap_of(spec.network)
            correct, loss = evaluate(adapter, test_images, test_labels, sampler.batch_size, overlap)
            if correct > most_correct and phases.kept_weights == BEST and spec.keep_weights:
                save_weights(adapter, spec.keep_weights, test_images, sampler.batch_size)
            most_correct = max(correct, most_correct)
            events.write(
                Evaluation(
                    training.made // sampler.steps, training.made, test_labels.size, correct,
                    json_number(loss), overlap.mean_iou() if overlap else None,
                )
            )  # fmt: skip
            end: float = events.phase("evaluation", begin)
            return end

        extent = Extent(
            phases.evaluate_every * sampler.steps, phases.measured_steps, phases.measured_seconds
        )
        steps = Phases(training, phases, extent, events, evaluated)
        begin = steps.measure(steps.warm_up(steps.first_step(begin)))
        if process:
            process.end()
        training.prove(events)

        if phases.measured_seconds is not None:  # a trial only of the speed
            return
        if evaluates:
            evaluated(begin)
        if phases.training_accuracy:
            adapter.close_records()
            images, labels = examples(adapter, job, "train")
            correct, loss = evaluate(adapter, images, labels, sampler.batch_size)
            events.write(Fit(labels.size, correct, json_number(loss)))
        events.write(Memory(adapter.device_memory_peak()))
        if spec.keep_weights and phases.kept_weights == LAST:
            save_weights(adapter, spec.keep_weights, test_images, sampler.batch_size)
    except Exception as error:
        if process and not IS_FOLLOWER:
            process.end(process.PATIENCE)  # if another failed first, this process ends as it did
        raise_as_outcome(adapter, error)
        raise
