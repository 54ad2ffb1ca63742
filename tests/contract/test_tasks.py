"""Networks that give several labels for each example are the same function in every framework."""

import numpy as np
import pytest

from contract.test_modern import layer_output as usual_output
from touchstone.networks import _bert, _gpt, _unet
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, steps_spec
from touchstone.runner import batches, initial_weights, parity
from touchstone.runner.job import parity_job
from touchstone.runner.train import cross_entropy


def small_gpt() -> Graph:
    """A GPT of one layer, for eight tokens; some rows of its table are no byte."""
    return _gpt.build("small_gpt", (9, 1, 1), vocabulary=260, width=24, heads=3, layers=1)


def small_bert() -> Graph:
    """A BERT of one layer, for seven tokens; it gives one label."""
    return _bert.build("small_bert", (7, 1, 1), 10, vocabulary=260, width=24, heads=3, layers=1)


def small_unet() -> Graph:
    """A U-Net of two levels, for images that are no squares."""
    return _unet.build("small_unet", (8, 12, 3), 10, width=6, levels=2)


ONE_LABEL = {
    "caffe": "Caffe's adapter trains on one label of each example",
    "cntk": "CNTK's adapter trains on one label of each example",
}
WITHOUT = {
    small_unet: ONE_LABEL,
    small_gpt: {
        "caffe": "Caffe multiplies no two inputs as matrices, as attention does",
        "cntk": ONE_LABEL["cntk"],
    },
    small_bert: {
        "caffe": "Caffe has no error function, as gelu needs",
        "cntk": "CNTK has no error function, as gelu needs",
    },
}
"""By network, the frameworks that cannot train it, and what they say."""
ABLE = [
    (name, mode, graph)
    for graph, without in WITHOUT.items()
    for name in frameworks.names()
    if name not in without
    for mode in frameworks.modes(name)
]
UNABLE = [(name, graph) for graph, without in WITHOUT.items() for name in without]


@pytest.mark.parametrize("framework, mode, graph", ABLE)
def test_a_small_form_is_the_same_everywhere(framework, mode, graph, certificate):
    assert certificate(framework, mode, graph) == []


@pytest.mark.parametrize("framework, graph", UNABLE)
def test_a_framework_that_cannot_train_it_says_so(framework, graph, tracer):
    path = tracer(framework, frameworks.modes(framework)[0], graph)
    assert str(np.load(path)["unsupported"]) == WITHOUT[graph][framework]


def layer_output(layer, inputs, own, tables):
    """What the equations of `Graph` make of a layer's inputs, in float64."""
    op, x = layer["op"], inputs[0]
    if op == "attention" and layer.get("causal"):
        # Each step by the attention of those up to it, which is not causal.
        parts = [usual_output(layer, [x[:, : step + 1]], own)[:, -1:] for step in range(x.shape[1])]
        return np.concatenate(parts, 1)
    if op == "up_conv":
        each = np.einsum("nhwc,cfij->nhiwjf", x, own["weight"])
        return each.reshape(len(x), *layer["shape"]) + own["bias"]
    return {
        "all_but_last": lambda: x[:, :-1],
        "embedding": lambda: own["weight"][x[:, :, 0, 0].astype(int)],
        "unembedding": lambda: x @ tables[layer.get("embedding", "")].T,
        "relu": lambda: np.maximum(x, 0),
        "concat": lambda: np.concatenate(inputs, axis=3),
        "max_pool": lambda: x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max(
            axis=(2, 4)
        ),
        "tanh": lambda: np.tanh(x),
        "gelu_tanh": lambda: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    }.get(op, lambda: usual_output(layer, inputs, own))()


def expected_output(network, spec, found):
    """The logits of the first batch and its labels."""
    start = initial_weights.initial_weights(network.parameters, spec.seed)
    start = parity.perturb_constant_arrays(start, network.parameters, spec.seed)
    start = {name: array.astype(np.float64) for name, array in start.items()}
    job = parity_job(spec, spec.parity_steps["fp64"])
    images, labels = batches.examples(None, job, "train")
    first = found["fp64/batches"][0]
    values = {"input": images[first].astype(np.float64)}
    tables = {layer["name"]: start.get(layer["name"] + ".weight") for layer in network.layers}
    for layer in network.layers:
        own = {
            name.split(".")[1]: array
            for name, array in start.items()
            if name.split(".")[0] == layer["name"]
        }
        inputs = [values[source] for source in layer["inputs"]]
        values[layer["name"]] = layer_output(layer, inputs, own, tables)
    return values, labels[first]


@pytest.mark.framework(REFERENCE)
@pytest.mark.parametrize("graph", WITHOUT)
def test_the_reference_computes_what_the_graph_says(graph, tracer):
    mode, network = frameworks.modes(REFERENCE)[0], graph().network()
    spec = steps_spec(network, REFERENCE, mode)
    found = np.load(tracer(REFERENCE, mode, graph))
    values, labels = expected_output(network, spec, found)
    logits = values[network.output]
    kept = parity.subsample("before", logits)
    assert np.abs(found["fp64/before"] - kept).max() <= 1e-12 * np.abs(kept).max()
    loss = cross_entropy(logits, labels) / labels.size
    assert found["fp64/losses"][0] == pytest.approx(loss, rel=1e-12)


@pytest.mark.framework(REFERENCE)
def test_the_labels_of_a_text_are_the_tokens_after_each(tracer):
    mode, network = frameworks.modes(REFERENCE)[0], small_gpt().network()
    spec = steps_spec(network, REFERENCE, mode)
    found = np.load(tracer(REFERENCE, mode, small_gpt))
    values, labels = expected_output(network, spec, found)
    assert labels.shape == (8, 8) and network.labels == 8
    assert np.array_equal(values["input"][:, 1:, 0, 0], labels)
    assert np.array_equal(values["known"][:, 1:, 0, 0], labels[:, :-1])


@pytest.mark.framework(REFERENCE)
def test_the_labels_of_pixels_are_the_class_or_the_background(tracer):
    mode, network = frameworks.modes(REFERENCE)[0], small_unet().network()
    spec = steps_spec(network, REFERENCE, mode)
    found = np.load(tracer(REFERENCE, mode, small_unet))
    values, labels = expected_output(network, spec, found)
    assert labels.shape == (8, 8 * 12) and network.labels == 96
    inside = (values["input"] > 0).any(axis=3).reshape(8, -1)
    assert (labels[~inside] == 10).all() and 0 < inside.mean() < 1
    for own, ink in zip(labels, inside, strict=True):
        assert len(set(own[ink])) == 1 and own[ink].max() < 10
