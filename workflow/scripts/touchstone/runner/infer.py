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
from typing import Any, List, Optional, Tuple

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
from touchstone.runner.events import json_number
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.job import Job, job_of
from touchstone.runner.outcome import raise_as_outcome
from touchstone.runner.train import cross_entropy
from touchstone.runner.work import Phases, Work, extent_of
from touchstone.schema.events import Chunk, Deviation, Evaluation, Memory
from touchstone.schema.spec import InferenceSpec, Parameter
from touchstone.schema.types import Array, Arrays

TOLERANCE = 1e-3
"""Of outputs in single precision, relative to the largest: another batch size, framework or form
of the network adds in another order, layer after layer."""

SILENCE = 0.5
"""Seconds between writes of chunks."""


class Predictions(Work):
    """Predicts the batches of the test set in turn, and writes one event per chunk of them.

    Args:
        images: prepared whole batches; the last may be filled up.

    Attributes:
        outputs: arrays, those of each batch that was waited for, while they are kept; else None.
    """

    def __init__(self, adapter: Any, job: Job, threads: int, images: Array, events: Any) -> None:
        self.adapter, self.job, self.threads, self.events = adapter, job, threads, events
        self.images, self.size = images, job.batch_size
        self.of_set = len(images) // self.size
        self.outputs: Optional[List[Array]] = None
        self.pending: Any = None
        self.unwritten: List[Any] = []
        self.written = time.monotonic()

    def begin(self, phase: str, steps: int) -> int:
        """As `Work` has it."""
        start = time.monotonic()
        handles = []
        for number in range(self.made, self.made + steps):
            first = number % self.of_set * self.size
            handles.append(self.adapter.predict(self.images[first : first + self.size]))
        previous, self.pending = self.pending, (phase, self.made, start, handles)
        self.made += steps
        return self._fetch(previous)

    def finish(self) -> None:
        """Wait for every batch begun."""
        previous, self.pending = self.pending, None
        self._fetch(previous)

    def _fetch(self, chunk: Any) -> int:
        """Wait for the outputs of a chunk; returns how many batches it has."""
        if chunk is None:
            return 0
        phase, first, start, handles = chunk
        outputs = [self.adapter.fetch_outputs(handle) for handle in handles]
        end = time.monotonic()
        self.unwritten.append((phase, first, len(handles), start, end))
        if end - self.written > SILENCE:
            self.write()
        if self.outputs is not None:
            self.outputs += outputs
        return len(handles)

    def examples(self, first: int) -> int:
        """Those of the batches from `first` on."""
        return (self.made - first) * self.size

    def write(self) -> None:
        """Write the chunks that are due; a write after each would slow down single images."""
        for phase, first, steps, start, end in self.unwritten:
            self.events.write(Chunk(phase, first, steps, start, end, []))
        self.unwritten = []
        self.written = time.monotonic()

    def prove(self, events: Any) -> None:
        """As `Work` has it: as in training, but for what only an update has."""
        requested = settings_without_updates(self.job, self.threads, self.adapter)
        requested.pop("loss_scaling", None)
        adapter = self.adapter
        effective = dict(adapter.inference_settings(), arithmetic=arithmetic(adapter, self.job))
        prove_settings(events, adapter, self.job, requested, effective)


def predict_all(predictions: Predictions, phases: Phases, begin: float) -> Tuple[Array, float]:
    """Predict every batch of the test set once, the very first by itself.

    Returns the outputs, array (examples, classes), and the time.
    """
    outputs: List[Array] = []
    predictions.outputs = outputs
    begin = phases.first_step(begin)
    begin = phases.do_all("evaluation", begin, predictions.of_set - predictions.made)
    predictions.outputs = None
    return np.concatenate(outputs), begin


def read_weights(path: str, parameters: List[Parameter]) -> Tuple[Arrays, Optional[Array]]:
    """The weights of a file, and the outputs that were kept with them, or None.

    Raises ValueError, which names the file, if they are not those of the network.
    """
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError) as fault:
        raise ValueError("{}: no file of weights: {}".format(path, fault))
    logits, wrong = arrays.pop("logits", None), []
    for parameter in parameters:
        name, shape = parameter.name, tuple(parameter.shape)
        array = arrays.get(name)
        if array is None:
            wrong.append("{} is missing".format(name))
        elif array.shape != shape:
            wrong.append("{} has the shape {}, not {}".format(name, array.shape, shape))
    names = {parameter.name for parameter in parameters}
    wrong += ["{} is none of its arrays".format(name) for name in sorted(set(arrays) - names)]
    if wrong:
        more = "; and {} more".format(len(wrong) - 3) if len(wrong) > 3 else ""
        message = "{}: not the weights of this network: {}{}"
        raise ValueError(message.format(path, "; ".join(wrong[:3]), more))
    return {name: array.astype(np.float32, copy=False) for name, array in arrays.items()}, logits


def predictions_of(
    spec: InferenceSpec,
    adapter: Any,
    job: Job,
    threads: int,
    events: Any,
    begin: float,
    chunks: Any,
    path: Optional[str],
) -> Tuple[Predictions, Array, Optional[Array], float]:
    """The predictions of a run, with the test set loaded and the network built.

    Args:
        events: where its phases are written; the first one began at the time `begin`.
        chunks: where the events of its chunks are written.
        path: of the file of weights; None: they are the initial ones.

    Returns:
        Them, the labels of the test set, the outputs that were kept with the weights, the time.

    Raises:
        ValueError: the weights are not those of the network.
    """
    size, parameters = spec.factors.batch_size, spec.network.parameters
    images, labels = examples(adapter, job, "test")
    missing = -len(images) % size
    if missing:
        images = np.concatenate([images, images[:missing]])
    images = adapter.prepare(images)
    begin = events.phase("load", begin)
    if path is None:
        weights, logits = initial_weights(parameters, spec.seed), None
    else:
        weights, logits = read_weights(path, parameters)
    adapter.build(weights)
    begin = events.phase("build", begin)
    return Predictions(adapter, job, threads, images, chunks), labels, logits, begin


def infer(spec: InferenceSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if weights or outputs are wrong."""
    job = job_of(spec)
    adapter = make_adapter(job, threads)
    events.write(software_of(adapter))
    begin = events.phase("import", BEGIN)
    try:
        path = spec.weights
        if path is None:  # their file is read too, for that is a part of loading a model
            folder = tempfile.TemporaryDirectory()
            path = os.path.join(folder.name, "initial.npz")
            np.savez(path, **initial_weights(spec.network.parameters, spec.seed))
        predictions, labels, logits, begin = predictions_of(
            spec, adapter, job, threads, events, begin, events, path
        )
        phases = Phases(predictions, spec.phases, extent_of(spec.phases), events)
        outputs, begin = predict_all(predictions, phases, begin)
        outputs = outputs[: len(labels)]
        correct = int((outputs.argmax(axis=1) == labels).sum())
        loss = cross_entropy(outputs, labels) / len(labels)
        events.write(Evaluation(0, predictions.made, len(labels), correct, json_number(loss)))
        begin = phases.measure(phases.warm_up(time.monotonic()))
        phases.wait_for_each("latency", begin, spec.phases.seconds)
        predictions.prove(events)
        if logits is not None:
            shown = outputs[: len(logits)]
            deviation = float(np.abs(shown - logits[: len(shown)]).max() / np.abs(logits).max())
            events.write(Deviation(deviation, TOLERANCE))
            if not deviation <= TOLERANCE:
                message = "{}: the outputs are {:.2g} from those kept there; {:g} is the most"
                raise ValueError(message.format(path, deviation, TOLERANCE))
        events.write(Memory(adapter.device_memory_peak()))
    except Exception as error:
        raise_as_outcome(adapter, error)
        raise
