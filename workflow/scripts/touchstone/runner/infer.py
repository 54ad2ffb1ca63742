"""A run that predicts.

Reads the test set, builds the network with the weights of a file, predicts the whole test set
once, and then measures: first with the queue kept full, then waiting for every batch. Images are
in host memory before, and the network's outputs after it.
"""

import os
import tempfile
import time
import zipfile
import zlib
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples
from touchstone.runner.checks import (
    arithmetic,
    prove_settings,
    settings_without_updates,
    software_of,
)
from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.events import json_number
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job, job_of
from touchstone.runner.outcome import raise_foreseen
from touchstone.runner.train import cross_entropy
from touchstone.schema.events import Chunk, Deviation, Evaluation, Memory
from touchstone.schema.spec import InferenceSpec, Parameter, TimedPhases
from touchstone.schema.types import Array, Arrays

TOLERANCE = 1e-3
"""Of outputs in single precision, relative to the largest: another batch size, framework or form
of the network adds in another order, layer after layer."""

SILENCE = 0.5
"""Seconds between writes of chunks."""


class Predictions:
    """Predicts the batches of the test set in turn, and writes one event per chunk of them."""

    def __init__(self, adapter: Any, images: Array, batch_size: int, events: Any) -> None:
        """`images` are prepared whole batches; the last may be filled up."""
        self.adapter, self.images, self.size = adapter, images, batch_size
        self.events, self.of_set = events, len(images) // batch_size
        self.made = 0
        self.pending: Any = None
        self.unwritten: List[Any] = []
        self.written = time.monotonic()

    def begin(self, phase: str, batches: Any) -> Any:
        """Begin a chunk; wait for the one before it, so that at most one is queued.

        Returns the outputs of that one, a list of arrays.
        """
        start = time.monotonic()
        handles = []
        for number in range(self.made, self.made + batches):
            first = number % self.of_set * self.size
            handles.append(self.adapter.predict(self.images[first : first + self.size]))
        previous, self.pending = self.pending, (phase, self.made, start, handles)
        self.made += batches
        return self._outputs(previous)

    @property
    def queued(self) -> int:
        """Batches of the chunk that the next one waits for; 0 without one."""
        return len(self.pending[3]) if self.pending else 0

    def finish(self) -> Any:
        """Wait for every batch begun; returns the outputs of the last chunk."""
        previous, self.pending = self.pending, None
        return self._outputs(previous)

    def _outputs(self, chunk: Any) -> Any:
        if chunk is None:
            return []
        phase, first, start, handles = chunk
        outputs = [self.adapter.fetch_outputs(handle) for handle in handles]
        end = time.monotonic()
        self.unwritten.append((phase, first, len(handles), start, end))
        if end - self.written > SILENCE:
            self.write()
        return outputs

    def write(self) -> None:
        """Write the chunks that are due; a write after each would slow down single images."""
        for phase, first, steps, start, end in self.unwritten:
            self.events.write(Chunk(phase, first, steps, start, end, []))
        self.unwritten = []
        self.written = time.monotonic()


def phase(predictions: Predictions, name: str, begin: float, first: int) -> float:
    """Write a phase that began at `begin` with batch `first`; returns the time."""
    batches = predictions.made - first
    examples = batches * predictions.size
    predictions.write()
    end: float = predictions.events.phase(name, begin, steps=batches, examples=examples)
    return end


def predict_all(predictions: Predictions, begin: float) -> Tuple[Array, float]:
    """Predict every batch of the test set once, the very first by itself.

    Returns the outputs, array (examples, classes), and the time.
    """
    predictions.begin("first_step", 1)
    outputs = predictions.finish()
    begin = phase(predictions, "first_step", begin, 0)
    first = predictions.made
    while predictions.made < predictions.of_set:
        outputs += predictions.begin("evaluation", 1)
    outputs += predictions.finish()
    return np.concatenate(outputs), phase(predictions, "evaluation", begin, first)


def measure(predictions: Predictions, phases: TimedPhases, begin: float) -> float:
    """Warm up, predict with the queue kept full, and then batch by batch; returns the time."""
    first, size = predictions.made, ChunkSize(phases.chunk_seconds)
    while True:
        start = time.monotonic()
        predictions.begin("warmup", size.steps)
        predictions.finish()
        now = time.monotonic()
        size.learn(size.steps, now - start)
        if predictions.made - first >= phases.warmup_steps:
            if now - begin >= phases.warmup_seconds:
                break
        if now - begin >= phases.warmup_seconds + phases.seconds:
            break  # batches that take this long would be warmed up for minutes
    begin = phase(predictions, "warmup", begin, first)

    first = predictions.made
    while time.monotonic() - begin < phases.seconds:
        start, awaited = time.monotonic(), predictions.queued
        predictions.begin("measured", size.steps)
        size.learn(awaited, time.monotonic() - start)
    predictions.finish()
    begin = phase(predictions, "measured", begin, first)

    first = predictions.made
    while time.monotonic() - begin < phases.seconds:
        predictions.begin("latency", 1)
        predictions.finish()
    return phase(predictions, "latency", begin, first)


def read_weights(path: str, parameters: List[Parameter]) -> Tuple[Arrays, Optional[Array]]:
    """The weights of a file, and the outputs that were kept with them, or None.

    Raises ValueError, which names the file, if they are not those of the network.
    """
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError) as fault:
        raise ValueError("{}: no file of weights: {}".format(path, fault))
    logits, wrong = found.pop("logits", None), []
    for parameter in parameters:
        name, shape = parameter.name, tuple(parameter.shape)
        array = found.get(name)
        if array is None:
            wrong.append("{} is missing".format(name))
        elif array.shape != shape:
            wrong.append("{} has the shape {}, not {}".format(name, array.shape, shape))
    known = {parameter.name for parameter in parameters}
    wrong += ["{} is none of its arrays".format(name) for name in sorted(set(found) - known)]
    if wrong:
        more = "; and {} more".format(len(wrong) - 3) if len(wrong) > 3 else ""
        message = "{}: not the weights of this network: {}{}"
        raise ValueError(message.format(path, "; ".join(wrong[:3]), more))
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}, logits


def requested_settings(job: Job, threads: int, adapter: Any) -> Dict[str, Any]:
    """What must be read back: as in training, but for what only an update has."""
    requested = settings_without_updates(job, threads, adapter)
    requested.pop("loss_scaling", None)
    return requested


def infer(spec: InferenceSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if weights or outputs are wrong."""
    size, parameters = spec.factors.batch_size, spec.network.parameters
    job = job_of(spec)
    adapter = make_adapter(job, threads)
    events.write(software_of(adapter))
    begin = events.phase("import", BEGIN)
    try:
        images, labels = examples(adapter, job, "test")
        missing = -len(images) % size
        if missing:
            images = np.concatenate([images, images[:missing]])
        images = adapter.prepare(images)
        path = spec.weights
        if path is None:
            folder = tempfile.TemporaryDirectory()
            path = os.path.join(folder.name, "initial.npz")
            np.savez(path, **initial_weights(parameters, spec.seed))
        begin = events.phase("load", begin)

        weights, logits = read_weights(path, parameters)
        adapter.build(weights)
        begin = events.phase("build", begin)
        predictions = Predictions(adapter, images, size, events)
        outputs, begin = predict_all(predictions, begin)
        outputs = outputs[: len(labels)]
        correct = int((outputs.argmax(axis=1) == labels).sum())
        loss = cross_entropy(outputs, labels) / len(labels)
        events.write(Evaluation(0, predictions.made, len(labels), correct, json_number(loss)))
        measure(predictions, spec.phases, time.monotonic())

        requested = requested_settings(job, threads, adapter)
        effective = dict(adapter.inference_settings(), arithmetic=arithmetic(adapter, job))
        prove_settings(events, adapter, job, requested, effective)
        if logits is not None:
            shown = outputs[: len(logits)]
            deviation = float(np.abs(shown - logits[: len(shown)]).max() / np.abs(logits).max())
            events.write(Deviation(deviation, TOLERANCE))
            if not deviation <= TOLERANCE:
                message = "{}: the outputs are {:.2g} from those kept there; {:g} is the most"
                raise ValueError(message.format(path, deviation, TOLERANCE))
        events.write(Memory(adapter.device_memory_peak()))
    except Exception as error:
        raise_foreseen(adapter, error)
        raise
