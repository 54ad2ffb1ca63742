"""The runner of inference, run inside a framework's own environment as `runtime.py` is.

    run.py SPEC.json EVENTS.jsonl

Reads the test set, builds the network with the weights of a file, predicts the whole test set
once, and then measures: first with the queue kept full, then waiting for every batch. Images are
in host memory before, and the network's outputs after it.
"""

import os
import tempfile
import time
import zipfile
from typing import Any, List

import numpy as np

from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples
from touchstone.runner.checks import arithmetic, prove_settings
from touchstone.runner.checks import requested_settings as requested_of_training
from touchstone.runner.events import spelled
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.outcome import raise_foreseen
from touchstone.runner.train import cross_entropy
from touchstone.schema.types import Array, Spec

TOLERANCE = 1e-3
"""Of outputs in single precision, relative to the largest: another batch size, framework or form
of the network adds in another order, layer after layer."""


SILENCE = 0.5
"""Seconds after which chunks are told of."""


class Predictions:
    """Predicts the batches of the test set in turn, and writes one event per chunk of them."""

    def __init__(self, adapter: Any, images: Array, batch_size: int, events: Any) -> None:
        """`images` are prepared whole batches; the last may be filled up."""
        self.adapter, self.images, self.size = adapter, images, batch_size
        self.events, self.of_set = events, len(images) // batch_size
        self.made = 0
        self.pending: Any = None
        self.untold: List[Any] = []
        self.told = time.monotonic()

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
        return self._fetched(previous)

    def finish(self) -> Any:
        """Wait for every batch begun; returns the outputs of the last chunk."""
        previous, self.pending = self.pending, None
        return self._fetched(previous)

    def _fetched(self, chunk: Any) -> Any:
        if chunk is None:
            return []
        phase, first, start, handles = chunk
        outputs = [self.adapter.fetched(handle) for handle in handles]
        end = time.monotonic()
        self.untold.append((phase, first, len(handles), start, end))
        if end - self.told > SILENCE:
            self.tell()
        return outputs

    def tell(self) -> None:
        """Write the events that are due; written after each, they are felt by a single image."""
        for phase, first, steps, start, end in self.untold:
            self.events.write(
                "chunk", phase=phase, first_step=first, steps=steps, begin=start, end=end, losses=[]
            )
        self.untold = []
        self.told = time.monotonic()


def phase(predictions: Any, name: str, begin: float, first: int) -> Any:
    """Write a phase that began at `begin` with batch `first`; returns the time."""
    batches = predictions.made - first
    examples = batches * predictions.size
    predictions.tell()
    return predictions.events.phase(name, begin, steps=batches, examples=examples)


def predict_all(predictions: Any, begin: float) -> Any:
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


def measure(predictions: Any, phases: Any, begin: float) -> Any:
    """Warm up, predict with the queue kept full, and then batch by batch; returns the time."""
    first, size = predictions.made, 1
    chosen = phases["chunk_seconds"] == 0
    while True:
        start = time.monotonic()
        predictions.begin("warmup", size)
        predictions.finish()
        now = time.monotonic()
        if not chosen and now - start >= phases["chunk_seconds"] / 2:
            size = max(1, int(round(phases["chunk_seconds"] * size / (now - start))))
            chosen = True
        elif not chosen:
            size *= 2
        if predictions.made - first >= phases["warmup_steps"]:
            if now - begin >= phases["warmup_seconds"]:
                break
        if now - begin >= phases["warmup_seconds"] + phases["seconds"]:
            break  # batches that take this long would be warmed up for minutes
    begin = phase(predictions, "warmup", begin, first)

    first = predictions.made
    while time.monotonic() - begin < phases["seconds"]:
        predictions.begin("measured", size)
    predictions.finish()
    begin = phase(predictions, "measured", begin, first)

    first = predictions.made
    while time.monotonic() - begin < phases["seconds"]:
        predictions.begin("latency", 1)
        predictions.finish()
    return phase(predictions, "latency", begin, first)


def read_weights(path: str, parameters: List[Spec]) -> Any:
    """The weights of a file, and the outputs that were kept with them, or None.

    Raises ValueError, which names the file, if they are not those of the network.
    """
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as fault:
        raise ValueError("{}: no file of weights: {}".format(path, fault))
    logits, wrong = found.pop("logits", None), []
    for parameter in parameters:
        name, shape = parameter["name"], tuple(parameter["shape"])
        array = found.get(name)
        if array is None:
            wrong.append("{} is missing".format(name))
        elif array.shape != shape:
            wrong.append("{} has the shape {}, not {}".format(name, array.shape, shape))
    known = {parameter["name"] for parameter in parameters}
    wrong += ["{} is none of its arrays".format(name) for name in sorted(set(found) - known)]
    if wrong:
        more = "; and {} more".format(len(wrong) - 3) if len(wrong) > 3 else ""
        message = "{}: not the weights of this network: {}{}"
        raise ValueError(message.format(path, "; ".join(wrong[:3]), more))
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}, logits


def requested_settings(spec: Spec, threads: int, adapter: Any) -> Any:
    """What must be read back: as in training, but for what only an update has."""
    requested = requested_of_training(spec, threads, 0.0, adapter)
    for name in list(spec["optimizer"]) + ["optimizer", "reader_threads", "loss_scaling"]:
        requested.pop(name, None)
    return requested


def infer(spec: Spec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if weights or outputs are wrong."""
    adapter = make_adapter(spec, threads)
    events.write("software", numpy=np.__version__, **adapter.software())
    begin = events.phase("import", BEGIN)
    try:
        images, labels = examples(adapter, spec, "test")
        size = spec["factors"]["batch_size"]
        missing = -len(images) % size
        if missing:
            images = np.concatenate([images, images[:missing]])
        images = adapter.prepare(images)
        parameters = spec["network"]["parameters"]
        path = spec["inference"].get("file")
        if path is None:
            folder = tempfile.TemporaryDirectory()
            path = os.path.join(folder.name, "initial.npz")
            np.savez(path, **initial_weights(parameters, spec["seed"]))
        begin = events.phase("load", begin)

        weights, logits = read_weights(path, parameters)
        adapter.build(weights)
        begin = events.phase("build", begin)
        predictions = Predictions(adapter, images, size, events)
        outputs, begin = predict_all(predictions, begin)
        outputs = outputs[: len(labels)]
        correct = int((outputs.argmax(axis=1) == labels).sum())
        loss = cross_entropy(outputs, labels) / len(labels)
        events.write(
            "evaluation", epoch=0, step=predictions.made, examples=len(labels), correct=correct,
            loss=spelled(loss),
        )  # fmt: skip
        measure(predictions, spec["phases"], time.monotonic())

        requested = requested_settings(spec, threads, adapter)
        effective = dict(adapter.predicting(), arithmetic=arithmetic(adapter))
        prove_settings(events, adapter, spec, requested, effective)
        if logits is not None:
            shown = outputs[: len(logits)]
            deviation = float(np.abs(shown - logits[: len(shown)]).max() / np.abs(logits).max())
            events.write("deviation", value=deviation, tolerance=TOLERANCE)
            if not deviation <= TOLERANCE:
                message = "{}: the outputs are {:.2g} from those kept there; {:g} is the most"
                raise ValueError(message.format(path, deviation, TOLERANCE))
        events.write("memory", device_peak_mib=adapter.device_memory_peak())
    except Exception as error:
        raise_foreseen(adapter, error)
        raise
