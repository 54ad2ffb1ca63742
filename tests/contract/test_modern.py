"""Small forms of today's image classifiers are the same function in every framework and mode."""

import math

import numpy as np
import pytest

from touchstone.networks import _convnext, _inverted_residuals, _vit, efficientnet_b0, mobilenetv2
from touchstone.networks._inverted_residuals import Stage
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, steps_spec
from touchstone.runner import batches, initial_weights, parity
from touchstone.runner.job import parity_job

pytestmark = pytest.mark.long

NO_GELU = {
    "caffe": "Caffe has no error function, as gelu needs",
    "cntk": "CNTK has no error function, as gelu needs",
}
"""Frameworks whose adapters have no GELU, and what they say."""
STAGES = (
    Stage(expansion=1, filters=8, depth=1, stride=1),
    Stage(expansion=2, filters=12, depth=2, stride=2, kernel=5),
)


def small_vit() -> Graph:
    """A Vision Transformer of two layers, for six patches."""
    return _vit.build("small_vit", (32, 48, 3), 10, width=24, heads=3, layers=2)


def small_convnext() -> Graph:
    """A ConvNeXt of two stages of a block each."""
    return _convnext.build("small_convnext", (16, 24, 3), 10, (8, 12), (1, 1), depth_rate=0.3)


def small_mobilenet() -> Graph:
    """Three of MobileNetV2's blocks; the last image is one pixel wide."""
    style, shape = mobilenetv2.STYLE, (16, 4, 3)
    return _inverted_residuals.build("small_mobilenet", shape, 10, style, STAGES, last=24)


def small_efficientnet() -> Graph:
    """Three of EfficientNet's blocks."""
    style, shape = efficientnet_b0.STYLE, (16, 4, 3)
    return _inverted_residuals.build("small_efficientnet", shape, 10, style, STAGES, last=24)


SMOOTH = (small_vit, small_convnext)
"""Networks with GELU."""
OTHERS = (small_mobilenet, small_efficientnet)
"""Their layers are in `test_parity.every_layer`, which is compared in every mode."""
MODES = [
    (name, mode, graph)
    for graph in SMOOTH
    for name in frameworks.names()
    if name not in NO_GELU
    for mode in frameworks.modes(name)
]


@pytest.mark.parametrize("framework, mode, graph", MODES)
def test_a_small_form_is_the_same_everywhere(framework, mode, graph, certificate):
    assert certificate(framework, mode, graph) == []


@pytest.mark.long
@pytest.mark.parametrize("graph", OTHERS)
@pytest.mark.parametrize("framework", frameworks.names())
def test_a_small_form_of_usual_layers_is_the_same(framework, graph, certificate):
    assert certificate(framework, frameworks.modes(framework)[0], graph) == []


@pytest.mark.parametrize("graph", SMOOTH)
@pytest.mark.parametrize("framework", NO_GELU)
def test_a_framework_without_gelu_says_so(framework, graph, tracer):
    path = tracer(framework, frameworks.modes(framework)[0], graph)
    assert str(np.load(path)["unsupported"]) == NO_GELU[framework]


@pytest.mark.framework("caffe")
def test_caffe_still_has_no_error_function(execute):
    kinds = execute("caffe", "-c", "import caffe; print(*caffe.layer_type_list())").stdout.split()
    assert "Sigmoid" in kinds
    assert not [kind for kind in kinds if any(word in kind.lower() for word in ("erf", "gelu"))]


@pytest.mark.framework("cntk")
def test_cntk_still_has_no_error_function(execute):
    names = execute("cntk", "-c", "import cntk; print(*dir(cntk.ops))").stdout.split()
    assert "sigmoid" in names and not {"erf", "gelu"} & set(names)


def convolution(layer, x, weight):
    """As Graph.conv has it, window by window."""
    top, bottom, left, right = layer["padding"]
    x = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
    size, stride, groups = weight.shape[2:], layer["stride"], layer["groups"]
    windows = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))[:, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 3), np.split(weight, groups), strict=True)
    return np.concatenate([np.einsum("nhwcij,fcij->nhwf", a, b) for a, b in parts], 3)


def attention(layer, x):
    """As Graph.attention has it."""
    batch, steps, features = x.shape
    parts = x.reshape(batch, steps, 3, layer["heads"], -1)
    q, k, v = np.moveaxis(parts, (2, 3), (0, 2))
    products = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    shares = np.exp(products - products.max(axis=3, keepdims=True))
    found = shares / shares.sum(axis=3, keepdims=True) @ v
    return found.swapaxes(1, 2).reshape(batch, steps, features // 3)


def layer_output(layer, inputs, own):
    """What the equations of `Graph` make of a layer's inputs, in float64."""
    op, x = layer["op"], inputs[0]
    if op == "conv":
        return convolution(layer, x, own["weight"]) + own["bias"]
    if op == "dense":
        return x @ own["weight"].T + own["bias"]
    if op == "layer_norm":
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + layer["epsilon"])
        return x * own["scale"] + own["offset"]
    if op == "class_token":
        token = np.broadcast_to(own["weight"], (len(x), 1, x.shape[2]))
        return np.concatenate([token, x], axis=1)
    return {
        "gelu": lambda: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
        "layer_scale": lambda: x * own["scale"],
        "add": lambda: sum(inputs),
        "to_sequence": lambda: np.stack([x[:, i, j] for i, j in np.ndindex(x.shape[1:3])], 1),
        "stochastic_depth": lambda: x,  # the pass is that of an evaluation
        "position": lambda: x + own["weight"],
        "attention": lambda: attention(layer, x),
        "step": lambda: x[:, layer["index"]],
        "global_avg_pool": lambda: x.mean(axis=(1, 2)),
    }[op]()


@pytest.mark.framework(REFERENCE)
@pytest.mark.parametrize("graph", SMOOTH)
def test_the_reference_computes_what_the_graph_says(graph, tracer):
    mode, network = frameworks.modes(REFERENCE)[0], graph().network()
    spec = steps_spec(network, REFERENCE, mode)
    found = np.load(tracer(REFERENCE, mode, graph))
    start = initial_weights.initial_weights(network.parameters, spec.seed)
    start = parity.perturb_constant_arrays(start, network.parameters, spec.seed)
    images, _ = batches.examples(None, parity_job(spec, spec.parity_steps["fp64"]), "train")
    values = {"input": images[found["fp64/batches"][0]].astype(np.float64)}
    for layer in network.layers:
        own = {
            name.split(".")[1]: array.astype(np.float64)
            for name, array in start.items()
            if name.split(".")[0] == layer["name"]
        }
        inputs = [values[source] for source in layer["inputs"]]
        values[layer["name"]] = layer_output(layer, inputs, own)
    expected = values[network.output]
    assert np.abs(found["fp64/before"] - expected).max() <= 1e-12 * np.abs(expected).max()
