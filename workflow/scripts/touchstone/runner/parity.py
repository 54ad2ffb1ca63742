"""Single steps of training, kept to compare frameworks."""

import zlib
from typing import Any, List

import numpy as np

from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples, order_of, reader_of
from touchstone.runner.initial_weights import NORMAL, initial_weights
from touchstone.runner.lr_schedule import Rates
from touchstone.runner.outcome import raise_foreseen
from touchstone.schema.types import Arrays, Spec

SAMPLE = 2**13
"""Numbers of an array that a trace keeps: all of VGG16's gradients would be gigabytes."""


def unsettled(weights: Arrays, parameters: List[Spec], seed: int) -> Any:
    """The weights with every array moved off its start: a bias of 0 shows no decay."""
    moved = {}
    for parameter in parameters:
        random = np.random.RandomState([seed, 1, zlib.crc32(parameter["name"].encode())])
        array = weights[parameter["name"]]
        if parameter["init"] not in NORMAL:
            array = array + np.float32(0.1) * random.random_sample(array.shape).astype(np.float32)
        moved[parameter["name"]] = array
    return moved


def masks(network: Spec, seed: int, batch_size: int) -> Any:
    """Seeded masks for every dropout layer: 0 with its rate, else 1 / (1 - rate)."""
    made = {}
    for layer in network["layers"]:
        if layer["op"] == "dropout":
            random = np.random.RandomState([seed, zlib.crc32(layer["name"].encode())])
            kept = random.random_sample([batch_size] + layer["shape"]) >= layer["rate"]
            made[layer["name"]] = (kept / (1 - layer["rate"])).astype(np.float32)
    return made


def sampled(name: str, array: Any) -> Any:
    """At most `SAMPLE` numbers of an array, drawn by its name: enough to tell two apart."""
    if array.size <= SAMPLE:
        return array
    random = np.random.RandomState([zlib.crc32(name.encode())])
    return np.asarray(array).ravel()[random.randint(0, array.size, SAMPLE)]


def trace(spec: Spec, threads: int) -> Any:
    """What the single steps of a trace did, by name.

    `before`, `after`: the first batch's logits in evaluation mode; `losses`, one a step;
    `batches`, the examples they saw; `weight:NAME`, every array in the end, `moved:NAME`, the
    largest change of its numbers, and, with momentum, `gradient:NAME` of the first step. Weights
    and gradients are sampled. Dropout multiplies by supplied masks. Raises what the adapter
    raises, and NotImplementedError with its reason where it knows an error to mean that it cannot
    do what the spec asks for.
    """
    adapter = make_adapter(spec, threads)
    try:
        return single_steps(adapter, spec)
    except Exception as error:
        raise_foreseen(adapter, error)
        raise


def single_steps(adapter: Any, spec: Spec) -> Any:
    """The steps of `trace`, and what it keeps of them."""
    images, labels = examples(adapter, spec, "train")
    if spec["apart"]:
        random = np.random.RandomState([spec["seed"], 2])
        images = images * (1 + spec["apart"] * random.uniform(-1, 1, images.shape))
        images = images.astype(np.float32)
    reader = reader_of(adapter, spec)
    parameters, steps = spec["network"]["parameters"], spec["steps"]
    start = unsettled(initial_weights(parameters, spec["seed"]), parameters, spec["seed"])
    adapter.build(start)
    if not reader:
        adapter.load(images, labels)
    order = order_of(spec)
    rates = Rates(spec["optimizer"]["learning_rate"], spec["schedule"], order.steps, 1)
    batches, draws = order.take(steps)
    kept = {"batches": batches, "before": np.asarray(adapter.logits(images[batches[0]]))}
    losses = []
    for i in range(steps):
        adapter.set_masks(masks(spec["network"], spec["seed"] + i, order.batch_size))
        cut = None if draws is None else draws[i : i + 1]
        batch = batches[i : i + 1]
        if reader:
            batch = reader.take(batch, batches[i + 1 : i + 2])
        handle = adapter.train(batch, rates.take(i, 1), cut)
        losses.append(float(adapter.losses(handle)[0]))
        if i == 0 and spec["optimizer"].get("momentum"):
            for name, array in adapter.velocities().items():
                kept["gradient:" + name] = sampled(name, array)
    kept.update(losses=losses, after=np.asarray(adapter.logits(images[batches[0]])))
    for name, array in adapter.weights().items():
        kept["weight:" + name] = sampled(name, array)
        kept["moved:" + name] = np.abs(array.astype(np.float64) - start[name]).max()
    return kept


def parity(spec: Spec, path: str, threads: int) -> None:
    """Write the arrays of all traces as `TRACE/NAME` into one .npz file.

    If the framework cannot do what the spec asks, the file holds `unsupported`, the reason.
    """
    kept = {}
    try:
        for name, one in spec["traces"].items():
            execution = dict(spec["execution"], precision=one["precision"], dropout="supplied")
            own = dict(spec, execution=execution, optimizer=one["optimizer"], steps=one["steps"])
            own["apart"] = one.get("apart")
            for key, array in trace(own, threads).items():
                kept[name + "/" + key] = array
    except NotImplementedError as fault:
        kept = {"unsupported": str(fault)}
    np.savez(path, **kept)
