"""Single steps of training, kept to compare frameworks."""

import zlib
from typing import Any, Dict, List, Optional

import numpy as np

from touchstone.runner.adapters import make_adapter
from touchstone.runner.batches import examples, reader_of, sampler_of
from touchstone.runner.initial_weights import CONSTANT, initial_weights
from touchstone.runner.job import Job, parity_job
from touchstone.runner.lr_schedule import LRSchedule
from touchstone.runner.outcome import raise_as_outcome
from touchstone.schema.spec import Network, Parameter, ParitySpec
from touchstone.schema.types import Array, Arrays

SAMPLE = 2**13
"""Numbers of an array that are kept: all of VGG16's gradients would be gigabytes."""


def perturb_constant_arrays(weights: Arrays, parameters: List[Parameter], seed: int) -> Arrays:
    """The weights with every array moved off its start: a bias of 0 shows no decay."""
    moved = {}
    for parameter in parameters:
        random = np.random.RandomState([seed, 1, zlib.crc32(parameter.name.encode())])
        array = weights[parameter.name]
        if parameter.init in CONSTANT:
            array = array + np.float32(0.1) * random.random_sample(array.shape).astype(np.float32)
        moved[parameter.name] = array
    return moved


def dropout_masks(network: Network, seed: int, batch_size: int) -> Arrays:
    """Seeded masks for every dropout layer, and for stochastic depth, where they have one number
    of each example: 0 with its rate, else 1 / (1 - rate)."""
    made = {}
    for layer in network.layers:
        if layer["op"] in ("dropout", "stochastic_depth"):
            shape = layer["shape"]
            if layer["op"] == "stochastic_depth":
                shape = [1] * len(shape)
            random = np.random.RandomState([seed, zlib.crc32(layer["name"].encode())])
            kept = random.random_sample([batch_size] + shape) >= layer["rate"]
            made[layer["name"]] = (kept / (1 - layer["rate"])).astype(np.float32)
    return made


def subsample(name: str, array: Array) -> Array:
    """At most `SAMPLE` numbers of an array, drawn by its name: enough to tell two apart."""
    if array.size <= SAMPLE:
        return array
    random = np.random.RandomState([zlib.crc32(name.encode())])
    return np.asarray(array).ravel()[random.randint(0, array.size, SAMPLE)]


def parity_steps(job: Job, steps: int, perturbation: Optional[float], threads: int) -> Arrays:
    """What single steps of training did, by name.

    `before`, `after`: the first batch's logits in evaluation mode; `losses`, one a step;
    `batches`, the examples they saw; `weight:NAME`, every array in the end, `moved:NAME`, the
    largest change of its numbers, and, with momentum, `gradient:NAME` of the first step. Logits,
    weights and gradients are sampled. Dropout multiplies by supplied masks. Pixels change by the
    share `perturbation` of themselves at most.

    Raises what the adapter raises, and NotImplementedError with its reason where it knows an error
    to mean that it cannot do what the spec asks for.
    """
    adapter = make_adapter(job, threads)
    try:
        return _steps(adapter, job, steps, perturbation)
    except Exception as error:
        raise_as_outcome(adapter, error)
        raise


def _steps(adapter: Any, job: Job, steps: int, perturbation: Optional[float]) -> Arrays:
    """The steps of `parity_steps`, and what it keeps of them."""
    images, labels = examples(adapter, job, "train")
    if perturbation:
        random = np.random.RandomState([job.seed, 2])
        images = images * (1 + perturbation * random.uniform(-1, 1, images.shape))
        images = images.astype(np.float32)
    reader = reader_of(adapter, job)
    parameters = job.network.parameters
    start = perturb_constant_arrays(initial_weights(parameters, job.seed), parameters, job.seed)
    adapter.build(start)
    if not reader:
        adapter.load_examples(images, labels)
    sampler = sampler_of(job)
    rates = LRSchedule(job.optimizer.learning_rate, job.schedule, sampler.steps, 1)
    batches, draws = sampler.take(steps)
    kept: Dict[str, Any] = {
        "batches": batches,
        "before": subsample("before", np.asarray(adapter.logits(images[batches[0]]))),
    }
    losses = []
    for i in range(steps):
        adapter.set_masks(dropout_masks(job.network, job.seed + i, sampler.batch_size))
        cut = None if draws is None else draws[i : i + 1]
        batch = batches[i : i + 1]
        if reader:
            batch = reader.take(batch, batches[i + 1 : i + 2])
        handle = adapter.train_steps(batch, rates.take(i, 1), cut)
        losses.append(float(adapter.losses(handle)[0]))
        if i == 0 and job.optimizer.settings.get("momentum"):
            for name, array in adapter.velocities().items():
                kept["gradient:" + name] = subsample(name, array)
    after = subsample("after", np.asarray(adapter.logits(images[batches[0]])))
    kept.update(losses=losses, after=after)
    for name, array in adapter.weights().items():
        kept["weight:" + name] = subsample(name, array)
        kept["moved:" + name] = np.abs(array.astype(np.float64) - start[name]).max()
    return kept


def parity(spec: ParitySpec, path: str, threads: int) -> None:
    """Write the arrays of all steps of a spec as `NAME/ARRAY` into one .npz file.

    Of steps that the framework cannot do the file holds `NAME/unsupported`, the reason; where it
    can do none of them, `unsupported` and nothing else.
    """
    kept: Dict[str, Any] = {}
    reasons: Dict[str, str] = {}
    for name, case in spec.parity_steps.items():
        try:
            arrays = parity_steps(parity_job(spec, case), case.steps, case.perturbation, threads)
        except NotImplementedError as fault:
            reasons[name] = str(fault)
            arrays = {"unsupported": str(fault)}
        kept.update({name + "/" + key: array for key, array in arrays.items()})
    if len(reasons) == len(spec.parity_steps):
        kept = {"unsupported": next(iter(reasons.values()))}
    np.savez(path, **kept)
