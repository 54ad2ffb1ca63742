"""A training run: phases, the loop of chunks, evaluation."""

import time
from typing import Any, Callable, Optional, Tuple

import numpy as np

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import BatchSampler, RecordReader, examples, reader_of, sampler_of
from touchstone.runner.checks import arithmetic, prove_settings, requested_settings, software_of
from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.events import json_number, sample_now
from touchstone.runner.group import FOLLOWS, group_of, processes_of, threads_of_replica
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import job_of
from touchstone.runner.lr_schedule import LRSchedule
from touchstone.runner.outcome import Diverged, raise_foreseen
from touchstone.runner.tasks import overlap_of
from touchstone.schema.events import Chunk, Evaluation, Fit, Memory
from touchstone.schema.spec import BEST, LAST, TrainingPhases, TrainingSpec
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


def keep_weights(adapter: Any, path: str, images: Array, batch_size: int) -> None:
    """Write the weights, canonical, and what they make of the first images, as `logits`."""
    shown = min(batch_size, len(images))
    batch = np.resize(images[:shown], (batch_size,) + images.shape[1:])
    logits = np.asarray(adapter.logits(batch))
    logits = logits[: shown if logits.ndim == 2 else 1]  # of several labels, one is large enough
    np.savez(path, logits=logits, **adapter.weights())


class StepLoop:
    """Hands chunks of steps to the adapter and writes one event per finished chunk.

    With `waits`, each chunk is waited for before the next begins. `announce` gets the number of
    steps of a chunk before it begins.
    """

    def __init__(
        self,
        adapter: Any,
        sampler: BatchSampler,
        rates: LRSchedule,
        events: Any,
        total: int,
        reader: Optional[RecordReader] = None,
        waits: bool = False,
        announce: Optional[Callable[[int], None]] = None,
    ) -> None:
        self.adapter, self.sampler, self.rates, self.events = adapter, sampler, rates, events
        self.total, self.reader, self.waits, self.announce = total, reader, waits, announce
        self.step = 0
        self.pending: Any = None

    def begin(self, phase: str, steps: int) -> None:
        """Begin a chunk; wait for the one before it, so that at most one is queued.

        A loop that `waits` also waits for this one: its time is then a latency. A partial batch
        is a chunk of its own.
        """
        left = steps
        while left:
            alike = self.sampler.alike(left)
            left -= alike
            self._begin(phase, alike, left or steps)

    def _begin(self, phase: str, steps: int, next_steps: int) -> None:
        """Begin a chunk of batches of one size; the next one will probably have `next_steps`."""
        first, start = self.step, time.monotonic()
        if self.announce:
            self.announce(steps)
        batches, draws = self.sampler.take(steps)
        self.step += steps
        if self.reader:
            following = self.sampler.peek(min(next_steps, self.total - self.step))
            batches = self.reader.take(batches, following)
        self.last_rates = self.rates.take(first, steps)
        handle = self.adapter.train_steps(batches, self.last_rates, draws)
        previous, self.pending = self.pending, (phase, first, steps, start, handle)
        self._finish(previous)
        if self.waits:
            self.finish()

    def last_batch_size(self) -> int:
        """Examples of the last step that was begun, of all replicas."""
        return self.sampler.epochs.size_of(self.step - 1)

    @property
    def queued(self) -> int:
        """Steps of the chunk that the next one waits for; 0 without one."""
        return self.pending[2] if self.pending else 0

    def finish(self) -> float:
        """Wait for every step begun; returns the time."""
        previous, self.pending = self.pending, None
        self._finish(previous)
        self.adapter.synchronize()
        return time.monotonic()

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


def run_phases(
    loop: StepLoop,
    phases: TrainingPhases,
    events: Any,
    begin: float,
    evaluated: Callable[[float], float],
) -> float:
    """First step, warm-up, measured steps; `begin` is the time. Raises Diverged.

    At every end of an epoch at which `phases` want an evaluation, but the last, the phase is
    closed, `evaluated` is called with the time and returns it, and another part begins.
    """
    total = loop.total
    every = phases.evaluate_every * loop.sampler.steps

    def phase(name: str, begin: float, first: int) -> float:
        steps = loop.step - first
        examples = loop.sampler.epochs.examples_of(first, steps)
        written: float = events.phase(name, begin, steps=steps, examples=examples)
        return written

    def left() -> int:
        """Steps until the next evaluation, or the end."""
        return min(every - loop.step % every if every else total, total - loop.step)

    def due() -> bool:
        return every > 0 and loop.step % every == 0 and loop.step < total

    def pause(begin: float) -> float:
        begin = evaluated(begin)
        sample_now()
        return begin

    loop.begin("first_step", 1)
    loop.finish()
    begin = phase("first_step", begin, 0)
    if due():
        begin = pause(begin)

    size, first, warm = ChunkSize(phases.chunk_seconds), loop.step, begin
    start_of_part, paused = first, 0.0
    while loop.step < (total + 1) // 2:
        if (
            size.found
            and loop.step - first >= phases.warmup_steps
            and time.monotonic() - warm - paused >= phases.warmup_seconds
        ):
            break
        start = time.monotonic()
        steps = min(size.steps, left(), total // 2 - loop.step) or 1
        loop.begin("warmup", steps)
        size.learn(steps, loop.finish() - start)
        size.found |= steps == every  # a chunk ends where an evaluation begins
        if due():
            end = phase("warmup", begin, start_of_part)
            begin, start_of_part = pause(end), loop.step
            paused += begin - end
    if loop.step > start_of_part or not paused:
        begin = phase("warmup", begin, start_of_part)

    first, most = loop.step, phases.measured_seconds
    if phases.measured_steps is not None:
        total = loop.total = min(total, first + phases.measured_steps)
    while loop.step < total and (most is None or time.monotonic() - begin < most):
        start, awaited = time.monotonic(), loop.queued
        loop.begin("measured", min(size.steps, left()))
        size.learn(awaited, time.monotonic() - start)
        if due():
            loop.finish()
            begin, first = pause(phase("measured", begin, first)), loop.step
    loop.finish()
    return phase("measured", begin, first)


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
        reader = reader_of(adapter, job)
        loaded = None if reader else examples(adapter, job, "train")
        evaluates = not FOLLOWS and phases.measured_steps is None
        test_images, test_labels = np.empty(0), np.empty(0)
        if evaluates:
            test_images, test_labels = examples(adapter, job, "test")
        begin = events.phase("load", begin)
        adapter.build(initial_weights(spec.network.parameters, spec.seed))
        if loaded:
            adapter.load_examples(*loaded)
            loaded = None  # some frameworks keep a copy of their own
        begin = events.phase("build", begin)

        sampler = sampler_of(job, share)
        rates = LRSchedule(
            spec.optimizer.learning_rate, spec.schedule, sampler.steps, phases.epochs
        )
        total = phases.epochs * sampler.steps
        if phases.probe_steps is not None:
            total = phases.probe_steps
            test_images = test_images[: sampler.batch_size]
            test_labels = test_labels[: sampler.batch_size]
        announce = process.announce if process and not FOLLOWS else None
        waits = phases.chunk_seconds == 0
        loop = StepLoop(adapter, sampler, rates, events, total, reader, waits, announce)
        if FOLLOWS:
            process.follow(loop)
            return

        most_correct = -1

        def evaluated(begin: float) -> float:
            nonlocal most_correct
            overlap = overlap_of(spec.network)
            correct, loss = evaluate(adapter, test_images, test_labels, sampler.batch_size, overlap)
            if correct > most_correct and phases.kept_weights == BEST and spec.keep_weights:
                keep_weights(adapter, spec.keep_weights, test_images, sampler.batch_size)
            most_correct = max(correct, most_correct)
            events.write(
                Evaluation(
                    loop.step // sampler.steps, loop.step, test_labels.size, correct,
                    json_number(loss), overlap.mean_iou() if overlap else None,
                )
            )  # fmt: skip
            end: float = events.phase("evaluation", begin)
            return end

        begin = run_phases(loop, phases, events, begin, evaluated)
        if process:
            process.end()
        requested = requested_settings(
            job, threads, loop.last_rates[-1], loop.last_batch_size(), adapter
        )
        effective = dict(adapter.settings(), arithmetic=arithmetic(adapter, job))
        effective["reader_threads"] = reader.live() if reader else 0
        prove_settings(events, adapter, job, requested, effective)

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
            keep_weights(adapter, spec.keep_weights, test_images, sampler.batch_size)
    except Exception as error:
        if process and not FOLLOWS:
            process.end(process.PATIENCE)  # if another failed first, this process ends as it did
        raise_foreseen(adapter, error)
        raise
