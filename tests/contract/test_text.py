"""Networks on texts: their layers are the same function everywhere, and tokens arrive whole."""

from functools import cache

import numpy as np
import pytest
import yaml

from fixtures.certificates import beyond, layers_alone
from fixtures.commands import call
from fixtures.specs import parity_of
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parity import REFERENCE, parity_spec, steps_spec
from touchstone.plan.spec import make_spec
from touchstone.results.parity import TOLERANCES, compare
from touchstone.runner import batches, initial_weights, parity
from touchstone.runner.job import parity_job

WITHOUT = {"caffe": "Caffe multiplies no two inputs as matrices, as attention does"}
"""Frameworks whose adapters have not all of these layers, and what they say."""
COMPILED = {("pytorch", "compile"): "torch.compile does not support LSTMs"}
"""Modes that have no LSTM, and what they say."""
FRAMEWORKS = [name for name in frameworks.names() if name not in WITHOUT]
MODES = [(name, mode) for name in FRAMEWORKS for mode in frameworks.modes(name)]
SMOOTH = 1e-4
"""Of gradients in single precision, of a network that has no ReLU: sums over 32 steps."""


def every_text_layer(recurrent: bool = True) -> Graph:
    """A network with every layer that sequences have, and those that they share with images.

    Unless it is `recurrent` it has no LSTM.
    """
    graph = Graph("every_text_layer", (7, 1, 1))
    x = graph.position("p1", graph.embedding("e1", "input", width=12))
    y = graph.attention("a1", graph.dense("d1", graph.layer_norm("n1", x), 36), heads=3)
    x = graph.add("s1", x, graph.dense("d2", graph.dropout("o1", y, 0.25), 12, bias=False))
    y = graph.relu("r1", graph.dense("d3", x, 24, l1=2.0**-6, l2=2.0**-6))
    x = graph.add("s2", graph.dense("d4", y, 12), x)
    mean = graph.mean_over_steps("m1", x)
    if recurrent:
        states = graph.lstm("l1", x, units=5, sequence=True)
        mean = graph.add("s3", graph.lstm("l2", states, units=12), mean)
    graph.dense("logits", graph.dropout("o2", graph.relu("r2", mean), 0.5), 10)
    graph.check()
    return graph


def without_lstm() -> Graph:
    """The others of these layers."""
    return every_text_layer(recurrent=False)


def lstm_alone() -> Graph:
    """A small network with an LSTM."""
    graph = Graph("lstm_alone", (7, 1, 1))
    x = graph.lstm("l1", graph.embedding("e1", "input", width=12), units=5)
    graph.dense("logits", x, 10)
    graph.check()
    return graph


@pytest.fixture(scope="module")
def tracer(root, trace_of):
    """Traces a graph in a framework; `scripts` may be a folder of changed ones."""

    def run(framework, spec, scripts=root / "workflow/scripts"):
        return trace_of(framework, spec, code=scripts)

    @cache
    def traced(framework, mode, graph=every_text_layer):
        return run(framework, layers_alone(steps_spec(graph().network(), framework, mode)))

    run.traced = traced
    return run


@pytest.mark.parametrize("framework, mode", MODES)
def test_every_text_layer_is_the_same_everywhere(framework, mode, tracer):
    graph = without_lstm if (framework, mode) in COMPILED else every_text_layer
    reference = tracer.traced(REFERENCE, frameworks.modes(REFERENCE)[0], graph)
    assert beyond(tracer.traced(framework, mode, graph), reference) == []


@pytest.mark.parametrize("framework", WITHOUT)
def test_a_framework_without_these_layers_says_so(framework, tracer):
    path = tracer.traced(framework, frameworks.modes(framework)[0])
    assert str(np.load(path)["unsupported"]) == WITHOUT[framework]


@pytest.mark.framework("caffe")
def test_caffe_still_multiplies_no_two_inputs_as_matrices(execute, tmp_path):
    """A product takes one input and a weight, and no other layer is there that would do."""
    (tmp_path / "net.prototxt").write_text("""
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "c" type: "InnerProduct" bottom: "a" bottom: "b" top: "c"
  inner_product_param { num_output: 2 } }
""")
    code = "import sys, caffe; print(*caffe.layer_type_list()); sys.stdout.flush()\n"
    code += "caffe.Net(sys.argv[1], caffe.TEST)"
    ended = execute("caffe", "-c", code, tmp_path / "net.prototxt")
    assert ended.returncode and "InnerProduct Layer takes 1 bottom" in ended.stderr
    kinds = ended.stdout.split()
    assert "InnerProduct" in kinds
    words = ("matmul", "gemm", "attention", "bilinear", "dot")
    assert not [kind for kind in kinds if any(word in kind.lower() for word in words)]


LSTM_IN_CAFFE = {
    "as it is": None,
    "gates in Caffe's own order": """
class Adapter(Adapter):
    def _ordered(self, name, array):
        return array
""",
    "a state that outlives its sequence": """
class Adapter(Adapter):
    def build(self, weights):
        super().build(weights)
        for name in self.lstms:
            for net in (self.net, self.evaluated):
                net.blobs[name + "/goes on"].data[...] = 1
""",
}
"""What is at the end of Caffe's adapter."""


@pytest.fixture(scope="module")
def lstm_references(tracer):
    """The reference's traces of `lstm-text`, and those for single precision only."""
    return [
        tracer(REFERENCE, parity_spec("lstm-text", REFERENCE, single)) for single in (False, True)
    ]


@pytest.mark.framework("caffe")
@pytest.mark.parametrize("case", LSTM_IN_CAFFE)
def test_an_lstm_in_single_precision_only_has_its_own_certificate(
    case, tracer, lstm_references, planted
):
    lines = LSTM_IN_CAFFE[case]
    scripts = [planted("runner/adapters/caffe/adapter", lines)] if lines else []
    reference, single = lstm_references
    trace = tracer("caffe", parity_spec("lstm-text", "caffe"), *scripts)
    found = compare("lstm-text", {REFERENCE: reference, "caffe": trace}, single)
    print(case, found["frameworks"]["caffe"])
    assert found["equal"] == (lines is None)


@pytest.mark.parametrize("framework, mode", COMPILED)
def test_a_mode_without_lstms_says_so(framework, mode, tracer):
    found = str(np.load(tracer.traced(framework, mode))["unsupported"])
    assert COMPILED[framework, mode] in found


@pytest.mark.framework("pytorch")
def test_dynamo_still_takes_no_lstm(execute):
    code = """
import torch
layer = torch.compile(torch.nn.LSTM(2, 3), fullgraph=True)
layer(torch.zeros(1, 1, 2))
"""
    ended = execute("pytorch", "-c", code)
    assert "Dynamo does not support RNN, GRU, or LSTM" in ended.stderr


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(layer, x, weight, recurrent, bias):
    """As Graph.lstm has it, example by example."""
    states = np.zeros((*x.shape[:2], layer["units"]))
    for example, sequence in enumerate(x):
        h = c = np.zeros(layer["units"])
        for step, features in enumerate(sequence):
            gates = weight @ features + recurrent @ h + bias
            i, f, g, o = gates.reshape(4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states[example, step] = h
    return states if layer["sequence"] else states[:, -1]


def attention(layer, x):
    """As Graph.attention has it, example by example and head by head."""
    q, k, v = np.split(x, 3, 2)
    size = q.shape[2] // layer["heads"]
    found = np.zeros_like(q)
    for example in range(len(x)):
        for begin in range(0, q.shape[2], size):
            own = np.s_[example, :, begin : begin + size]
            shares = np.exp(q[own] @ k[own].T / np.sqrt(size))
            found[own] = shares / shares.sum(axis=1, keepdims=True) @ v[own]
    return found


def outputs(graph, weights, tokens):
    """What the graph makes of tokens in evaluation mode, by the equations, in float64."""
    values = {"input": tokens}
    for layer in graph.layers:
        op, x = layer["op"], values[layer["inputs"][0]]
        own = {
            name.split(".")[1]: array.astype(np.float64)
            for name, array in weights.items()
            if name.split(".")[0] == layer["name"]
        }
        if op == "embedding":
            x = own["weight"][x[:, :, 0, 0].astype(int)]
        elif op == "position":
            x = x + own["weight"]
        elif op == "dense":
            x = x @ own["weight"].T + own.get("bias", 0)
        elif op == "layer_norm":
            x = x - x.mean(axis=2, keepdims=True)
            x = x / np.sqrt((x**2).mean(axis=2, keepdims=True) + layer["epsilon"])
            x = x * own["scale"] + own["offset"]
        elif op == "attention":
            x = attention(layer, x)
        elif op == "lstm":
            x = lstm(layer, x, own["weight"], own["recurrent"], own["bias"])
        elif op == "mean_over_steps":
            x = x.mean(axis=1)
        elif op == "relu":
            x = np.maximum(x, 0)
        elif op == "add":
            x = sum(values[source] for source in layer["inputs"])
        else:
            assert op == "dropout"
        values[layer["name"]] = x
    return values[graph.output]


@pytest.mark.framework(REFERENCE)
def test_the_reference_computes_what_the_graph_says(tracer):
    mode = frameworks.modes(REFERENCE)[0]
    graph = every_text_layer().network()
    spec = steps_spec(graph, REFERENCE, mode)
    found = np.load(tracer.traced(REFERENCE, mode))
    start = initial_weights.initial_weights(graph.parameters, spec.seed)
    start = parity.perturb_constant_arrays(start, graph.parameters, spec.seed)
    tokens, _ = batches.examples(None, parity_job(spec, spec.parity_steps["fp64"]), "train")
    assert set(np.unique(tokens)) <= set(range(256)) and len(np.unique(tokens)) > 200
    expected = outputs(graph, start, tokens[found["fp64/batches"][0]])
    assert np.abs(found["fp64/before"] - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_of_an_lstm_are_right_in_single_precision_too(framework, tracer):
    """Where its kernel is another one than in double precision: no ReLU parts the two."""

    def first_step(name, precision):
        spec = parity_spec("lstm-text", name)
        one = spec.parity_steps[precision]._replace(steps=1)
        return np.load(tracer(name, spec._replace(parity_steps={precision: one})))

    reference, found = first_step(REFERENCE, "fp64"), first_step(framework, "fp32")
    names = [name for name in reference if name.startswith("fp64/gradient:")]
    assert len(names) == 6
    for name in names:
        single = found[name.replace("fp64", "fp32")]
        assert np.abs(single - reference[name]).max() <= SMOOTH * np.abs(reference[name]).max()


BREAKS = {
    "gates in another order": ("jax", lstm_alone, """
def _lstm(layer, x, own, right=_lstm):
    parts = {name: jnp.split(array, 4, -1) for name, array in own.items()}
    return right(layer, x, {
        name: jnp.concatenate([f, i, g, o], -1) for name, (i, f, g, o) in parts.items()
    })
"""),
    "gates in the order of another kernel": ("tensorflow", lstm_alone, """
def lstm_states(layer, x, w, u, b, right=lstm_states):
    parts = [tf.split(array, 4, -1) for array in (w, u, b)]
    return right(layer, x, *(tf.concat([i, g, f, o], -1) for i, f, g, o in parts))
"""),
    "products of attention that are not scaled": ("mxnet", without_lstm, """
def attention(F, x, layer):
    q, k, v = F.split(x, num_outputs=3, axis=2)
    size = layer["shape"][1] // layer["heads"]
    return _attention(F, F.concat(q * size**0.5, k, v, dim=2), layer)
PLAIN["attention"] = attention
"""),
    "heads that are not taken apart": ("tensorflow", without_lstm, """
def self_attention(x, heads, causal, right=self_attention):
    return right(x, x.shape[2] // 3 // heads, causal)
"""),
    "positions that count twice": ("pytorch", without_lstm, """
Position.forward = lambda self, x: x + 2 * self.weight
"""),
    "epsilon of layer normalisation": ("jax", without_lstm, """
def layer_of(layer, inputs, own, right=layer_of):
    return right(dict(layer, epsilon=0.0) if "epsilon" in layer else layer, inputs, own)
"""),
}  # fmt: skip
"""By name: framework, a network, and what is at the end of the adapter's `network.py`."""


@pytest.mark.parametrize("framework, case", [(one[0], case) for case, one in BREAKS.items()])
def test_a_broken_text_layer_fails_its_certificate(framework, case, forward_deviation, planted):
    _, graph, lines = BREAKS[case]
    scripts = planted(f"runner/adapters/{framework}/network", lines)
    assert forward_deviation(framework, graph, scripts) > 10 * TOLERANCES["fp64"]["forward"]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "caffe"])
def test_texts_from_records_are_those_from_memory(framework, tracer, root, tmp_path):
    """Whole tokens, unscaled, by either way; ten steps on them lead to the same weights."""
    entry = yaml.safe_load((root / "config/datasets/synthetic-text.yaml").read_text())
    entry["splits"] = {"train": 96, "test": 16}
    entry.pop("fingerprints", None)
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(entry))
    kind = frameworks.record_format(framework)
    convert = ["toy", "--source", tmp_path, "--config-folder", tmp_path, "--format", kind]
    assert call("convert", *convert, "--output", tmp_path / "data").returncode == 0
    traces = []
    for source in ("memory", "records"):
        cell = Cell(
            framework=framework, network="lstm-text", dataset="synthetic-text", batch_size=8,
            mode=frameworks.modes(framework)[0], input=source,
        )  # fmt: skip
        spec = make_spec(cell, 1, root)
        assert spec.data.pixel_maximum == 1
        data = spec.data._replace(
            folder=str(tmp_path / "data"), train_examples=96, test_examples=16
        )
        steps = parity_of(spec._replace(data=data), 10)
        traces.append(np.load(tracer(framework, steps)))
    memory, records = traces
    assert np.array_equal(memory["10/batches"], records["10/batches"])
    assert np.abs(memory["10/losses"] - records["10/losses"]).max() <= 1e-6
    for name in memory.files:
        if "/weight:" in name:
            assert np.abs(memory[name] - records[name]).max() <= 1e-6
