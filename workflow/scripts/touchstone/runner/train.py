"""A training run: phases, the loop of chunks, evaluation."""

import time
from typing import Any

import numpy as np

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples, order_of, reader_of
from touchstone.runner.checks import arithmetic, prove_settings, requested_settings
from touchstone.runner.events import sample_now, spelled
from touchstone.runner.group import FOLLOWS, group_of, grouped, threads_of_replica
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.lr_schedule import Rates
from touchstone.runner.outcome import Diverged, raise_foreseen
from touchstone.schema.types import Array, Spec


def cross_entropy(logits: Any, labels: Array) -> float:
    """Sum over the examples of -log softmax(logits)[label], float64."""
    logits = np.asarray(logits, np.float64)
    top = logits.max(axis=1)
    total = np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top
    return float((total - logits[np.arange(len(labels)), labels]).sum())


def evaluate(adapter: Any, images: Array, labels: Array, batch_size: int) -> Any:
    """Correct predictions and mean cross-entropy; the last batch is filled up and cut."""
    correct, loss = 0, 0.0
    for start in range(0, len(images), batch_size):
        batch, wanted = images[start : start + batch_size], labels[start : start + batch_size]
        missing = batch_size - len(batch)
        if missing:
            batch = np.concatenate([batch, images[np.arange(missing) % len(images)]])
        logits = np.asarray(adapter.logits(batch))[: len(wanted)]
        correct += int((logits.argmax(axis=1) == wanted).sum())
        loss += cross_entropy(logits, wanted)
    return correct, loss / len(images)


def keep_weights(adapter: Any, path: str, images: Array, batch_size: int) -> None:
    """Write the weights, canonical, and what they make of the first images, as `logits`."""
    shown = min(batch_size, len(images))
    batch = np.resize(images[:shown], (batch_size,) + images.shape[1:])
    logits = np.asarray(adapter.logits(batch))[:shown]
    np.savez(path, logits=logits, **adapter.weights())


class Loop:
    """Hands chunks of steps to the adapter and writes one event per finished chunk.

    `tell` is given the number of steps of a chunk before it begins.
    """

    def __init__(
        self,
        adapter: Any,
        order: Any,
        rates: Array,
        events: Any,
        total: Any,
        reader: Any = None,
        waits: bool = False,
        tell: Any = None,
    ) -> None:
        self.adapter, self.order, self.rates, self.events = adapter, order, rates, events
        self.total, self.reader, self.waits, self.tell = total, reader, waits, tell
        self.step = 0
        self.pending: Any = None

    def begin(self, phase: str, steps: int) -> None:
        """Begin a chunk; wait for the one before it, so that at most one is queued.

        Where the loop `waits`, it waits for this one too: its time is then a latency.
        """
        first, start = self.step, time.monotonic()
        if self.tell:
            self.tell(steps)
        batches, draws = self.order.take(steps)
        self.step += steps
        if self.reader:
            following = self.order.peek(min(steps, self.total - self.step))
            batches = self.reader.take(batches, following)
        self.last_rates = self.rates.take(first, steps)
        handle = self.adapter.train(batches, self.last_rates, draws)
        previous, self.pending = self.pending, (phase, first, steps, start, handle)
        self._finish(previous)
        if self.waits:
            self.finish()

    def finish(self) -> Any:
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
        self.events.write(
            "chunk", phase=phase, first_step=first, steps=steps, begin=start,
            end=time.monotonic(), losses=[spelled(loss) for loss in losses],
        )  # fmt: skip
        if not np.isfinite(losses).all():
            where = first + int(np.argmin(np.isfinite(losses)))
            self.pending = None
            raise Diverged("the loss is {} at step {}".format(losses[where - first], where))


def run_phases(loop: Any, spec: Spec, events: Any, begin: float, evaluated: Any) -> Any:
    """First step, warm-up, measured steps; `begin` is the time. Raises Diverged.

    At every end of an epoch at which the spec wants an evaluation, but the last, the phase is
    closed, `evaluated` is called with the time and returns it, and another part begins.
    """
    phases, batch_size, total = spec["phases"], spec["factors"]["batch_size"], loop.total
    every = phases["evaluate_every"] * loop.order.steps

    def phase(name: str, begin: float, first: int) -> Any:
        steps = loop.step - first
        return events.phase(name, begin, steps=steps, examples=steps * batch_size)

    def left() -> Any:
        """Steps until the next evaluation, or the end."""
        return min(every - loop.step % every if every else total, total - loop.step)

    def due() -> Any:
        return every and loop.step % every == 0 and loop.step < total

    def pause(begin: float) -> Any:
        begin = evaluated(begin)
        sample_now()
        return begin

    loop.begin("first_step", 1)
    loop.finish()
    begin = phase("first_step", begin, 0)
    if due():
        begin = pause(begin)

    # Chunks double until one lasts half of what is asked, or as long as there is between two
    # evaluations, then take that size for good.
    size, chosen, first, warm = 1, phases["chunk_seconds"] == 0, loop.step, begin
    start_of_part, paused = first, 0.0
    while loop.step < (total + 1) // 2:
        if (
            chosen
            and loop.step - first >= phases["warmup_steps"]
            and time.monotonic() - warm - paused >= phases["warmup_seconds"]
        ):
            break
        start = time.monotonic()
        steps = min(size, left(), total // 2 - loop.step) or 1
        loop.begin("warmup", steps)
        seconds = loop.finish() - start
        if not chosen and (seconds >= phases["chunk_seconds"] / 2 or steps == every):
            size = max(1, int(round(phases["chunk_seconds"] * steps / seconds)))
            chosen = True
        elif not chosen:
            size *= 2
        if due():
            end = phase("warmup", begin, start_of_part)
            begin, start_of_part = pause(end), loop.step
            paused += begin - end
    if loop.step > start_of_part or not paused:
        begin = phase("warmup", begin, start_of_part)

    first, most = loop.step, phases.get("measured_seconds", float("inf"))
    if "measured_steps" in phases:
        total = loop.total = min(total, first + phases["measured_steps"])
    while loop.step < total and time.monotonic() - begin < most:
        loop.begin("measured", min(size, left()))
        if due():
            loop.finish()
            begin, first = pause(phase("measured", begin, first)), loop.step
    loop.finish()
    return phase("measured", begin, first)


def train(spec: Spec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises what the adapter raises, and Diverged."""
    group, share = group_of(spec, events), slice(None)
    threads = threads_of_replica(spec, threads)
    spec = grouped(spec, group)
    if group:
        size = spec["factors"]["batch_size"] // group.size
        share = slice(group.rank * size, (group.rank + 1) * size)
    adapter = make_adapter(spec, threads)
    events.write("software", numpy=np.__version__, **adapter.software())
    # Other nodes are waited for before it.
    begin = events.phase("import", max(BEGIN, group.ready) if group else BEGIN)
    try:
        reader = reader_of(adapter, spec)
        loaded = None if reader else examples(adapter, spec, "train")
        evaluates = not FOLLOWS and "measured_steps" not in spec["phases"]
        test_images, test_labels = examples(adapter, spec, "test") if evaluates else ((), ())
        begin = events.phase("load", begin)
        adapter.build(initial_weights(spec["network"]["parameters"], spec["seed"]))
        if loaded:
            adapter.load(*loaded)
            loaded = None  # some frameworks keep a copy of their own
        begin = events.phase("build", begin)

        order = order_of(spec, share)
        rates = Rates(
            spec["optimizer"]["learning_rate"], spec["schedule"], order.steps,
            spec["phases"]["epochs"],
        )  # fmt: skip
        total = spec["phases"]["epochs"] * order.steps
        if "steps" in spec["phases"]:  # a probe: does this batch size fit into memory?
            total = spec["phases"]["steps"]
            test_images = test_images[: order.batch_size]
            test_labels = test_labels[: order.batch_size]
        waits = spec["phases"]["chunk_seconds"] == 0
        tell = group.tell if group and not FOLLOWS else None
        loop = Loop(adapter, order, rates, events, total, reader, waits, tell)
        if FOLLOWS:
            group.follow(loop)
            return

        def evaluated(begin: float) -> Any:
            correct, loss = evaluate(adapter, test_images, test_labels, order.batch_size)
            events.write(
                "evaluation", epoch=loop.step // order.steps, step=loop.step,
                examples=len(test_labels), correct=correct, loss=spelled(loss),
            )  # fmt: skip
            return events.phase("evaluation", begin)

        begin = run_phases(loop, spec, events, begin, evaluated)
        if group:
            group.end()
        requested = requested_settings(spec, threads, loop.last_rates[-1], adapter)
        effective = dict(adapter.settings(), arithmetic=arithmetic(adapter))
        effective["reader_threads"] = reader.live() if reader else 0
        prove_settings(events, adapter, spec, requested, effective)

        if "measured_seconds" in spec["phases"]:  # a trial of the mode's speed alone
            return
        if evaluates:
            evaluated(begin)
        events.write("memory", device_peak_mib=adapter.device_memory_peak())
        if "keep_weights" in spec:
            keep_weights(adapter, spec["keep_weights"], test_images, order.batch_size)
    except Exception as error:
        if group and not FOLLOWS:
            group.end(group.PATIENCE)  # where another failed first, this process ends as it did
        raise_foreseen(adapter, error)
        raise
