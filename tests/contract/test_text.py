"""Networks on texts: their layers are the same function everywhere, and tokens arrive whole."""

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import yaml

from touchstone.measure.supervisor import thread_variables
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parity import REFERENCE, parity_spec, trace_spec
from touchstone.plan.spec import make_spec
from touchstone.results.parity import TOLERANCES, compare
from touchstone.runner import batches, initial_weights, parity

WITHOUT = {"caffe": "Caffe multiplies no two inputs as matrices, as attention does"}
"""Frameworks whose adapters have not all of these layers, and what they say."""
COMPILED = {("pytorch", "compile"): "torch.compile does not support LSTMs"}
"""Modes that have no LSTM, and what they say."""
FRAMEWORKS = [name for name in frameworks.names() if name not in WITHOUT]
MODES = [(name, mode) for name in FRAMEWORKS for mode in frameworks.modes(name)]
SMOOTH = 1e-4
"""Of gradients in single precision, of a network that has no ReLU: sums over 32 steps."""


def every_text_layer(recurrent: bool = True) -> Graph:
    """A network with every layer that sequences have, and those that they share with images."""
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


@pytest.fixture(scope="module")
def tracer(tmp_path_factory, root, python_of):
    """Traces a graph in a framework; `scripts` may be a folder of changed ones."""
    folder = tmp_path_factory.mktemp("text")
    ours = root / "workflow/scripts"

    def run(framework, spec, scripts=ours):
        stem = folder / f"{len(list(folder.iterdir()))}"
        path, output = stem.with_suffix(".json"), stem.with_suffix(".npz")
        path.write_text(json.dumps(spec))
        command = [
            python_of(framework),
            str(scripts / "run_in_framework.py"),
            str(path),
            str(output),
        ]
        threads = thread_variables(len(os.sched_getaffinity(0)), "passive")
        ended = subprocess.run(command, env={**os.environ, **threads}, capture_output=True)
        assert ended.returncode == 0, ended.stderr.decode()[-3000:]
        return output

    @cache
    def traced(framework, mode, recurrent=True):
        graph = every_text_layer(recurrent).as_dict()
        return run(framework, trace_spec(graph, framework, mode))

    run.traced = traced
    return run


def certificate(tracer, framework, path, recurrent=True):
    reference = tracer.traced(REFERENCE, frameworks.modes(REFERENCE)[0], recurrent)
    return compare("every_text_layer", {"reference": reference, framework: path})["frameworks"][
        framework
    ]


@pytest.mark.parametrize("framework, mode", MODES)
def test_every_text_layer_is_the_same_everywhere(framework, mode, tracer):
    recurrent = (framework, mode) not in COMPILED
    found = certificate(tracer, framework, tracer.traced(framework, mode, recurrent), recurrent)
    print(framework, mode, found["deviations"])
    assert found["beyond"] == [] and "unsupported" not in found


@pytest.mark.parametrize("framework", WITHOUT)
def test_a_framework_without_these_layers_says_so(framework, tracer):
    path = tracer.traced(framework, frameworks.modes(framework)[0])
    assert str(np.load(path)["unsupported"]) == WITHOUT[framework]


def test_caffe_still_multiplies_no_two_inputs_as_matrices(python_of, tmp_path):
    """A product takes one input and a weight, and no other layer is there that would do."""
    (tmp_path / "net.prototxt").write_text("""
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "c" type: "InnerProduct" bottom: "a" bottom: "b" top: "c"
  inner_product_param { num_output: 2 } }
""")
    code = "import sys, caffe; print(*caffe.layer_type_list()); sys.stdout.flush()\n"
    code += "caffe.Net(sys.argv[1], caffe.TEST)"
    command = [python_of("caffe"), "-c", code, str(tmp_path / "net.prototxt")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode and "InnerProduct Layer takes 1 bottom" in ended.stderr
    kinds = ended.stdout.split()
    assert "InnerProduct" in kinds
    words = ("matmul", "gemm", "attention", "bilinear", "dot")
    assert not [kind for kind in kinds if any(word in kind.lower() for word in words)]


LSTM_IN_CAFFE = {
    "as it is": (None, None),
    "gates in Caffe's own order": (
        "[first, forget, fourth, third]",
        "[first, forget, third, fourth]",
    ),
    "a state that outlives its sequence": (".data[1:] = 1", ".data[...] = 1"),
}


@pytest.fixture(scope="module")
def lstm_references(tracer):
    """The reference's traces of `lstm-text`, and those for single precision alone."""
    return [
        tracer(REFERENCE, parity_spec("lstm-text", REFERENCE, single)) for single in (False, True)
    ]


@pytest.mark.parametrize("case", LSTM_IN_CAFFE)
def test_an_lstm_in_single_precision_alone_has_its_own_certificate(
    case, tracer, lstm_references, planted
):
    old, new = LSTM_IN_CAFFE[case]
    scripts = [planted("caffe", old, new)] if old else []
    reference, single = lstm_references
    trace = tracer("caffe", parity_spec("lstm-text", "caffe"), *scripts)
    found = compare("lstm-text", {REFERENCE: reference, "caffe": trace}, single)
    print(case, found["frameworks"]["caffe"])
    assert found["equal"] == (old is None)


@pytest.mark.parametrize("framework, mode", COMPILED)
def test_a_mode_without_lstms_says_so(framework, mode, tracer):
    found = str(np.load(tracer.traced(framework, mode))["unsupported"])
    assert COMPILED[framework, mode] in found


def test_dynamo_still_takes_no_lstm(python_of):
    code = """
import torch
layer = torch.compile(torch.nn.LSTM(2, 3), fullgraph=True)
layer(torch.zeros(1, 1, 2))
"""
    ended = subprocess.run([python_of("pytorch"), "-c", code], capture_output=True, text=True)
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
    for layer in graph["layers"]:
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
    return values[graph["output"]]


def test_the_reference_computes_what_the_graph_says(tracer):
    mode = frameworks.modes(REFERENCE)[0]
    graph = every_text_layer().as_dict()
    spec = trace_spec(graph, REFERENCE, mode)
    found = np.load(tracer.traced(REFERENCE, mode))
    start = initial_weights.initial_weights(graph["parameters"], spec["seed"])
    start = parity.unsettled(start, graph["parameters"], spec["seed"])
    tokens, _ = batches.examples(None, spec, "train")
    assert set(np.unique(tokens)) <= set(range(256)) and len(np.unique(tokens)) > 200
    expected = outputs(graph, start, tokens[found["fp64/batches"][0]])
    assert np.abs(found["fp64/before"] - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_of_an_lstm_are_right_in_single_precision_too(framework, tracer):
    """Where its kernel is another one than in double precision: no ReLU parts the two."""
    reference = np.load(tracer(REFERENCE, parity_spec("lstm-text", REFERENCE)))
    found = np.load(tracer(framework, parity_spec("lstm-text", framework)))
    names = [name for name in reference if name.startswith("fp64/gradient:")]
    assert len(names) == 6
    for name in names:
        single = found[name.replace("fp64", "fp32")]
        assert np.abs(single - reference[name]).max() <= SMOOTH * np.abs(reference[name]).max()


BREAKS = {
    "gates in another order": (
        "jax", "i, f, g, o = jnp.split", "f, i, g, o = jnp.split", "fp64 forward",
    ),
    "gates in the order of another kernel": (
        "tensorflow", "i, f, g, o = tf.split", "i, g, f, o = tf.split", "fp64 forward",
    ),
    "products of attention that are not scaled": (
        "mxnet", "q * size**-0.5", "q", "fp64 forward",
    ),
    "heads that are not taken apart": (
        "tensorflow", "[-1, steps, 3, heads, width // heads]",
        "[-1, steps, 3, width // heads, heads]", "fp64 forward",
    ),
    "positions that count twice": (
        "pytorch", "return x + self.weight", "return x + 2 * self.weight", "fp64 forward",
    ),
    "epsilon of layer normalisation": (
        "jax", 'variance + layer["epsilon"]) * own', 'variance) * own', "fp64 forward",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_text_layer_fails_its_certificate(case, tracer, planted):
    framework, old, new, beyond = BREAKS[case]
    scripts = planted(framework, old, new)
    spec = trace_spec(every_text_layer().as_dict(), framework, frameworks.modes(framework)[0])
    found = certificate(tracer, framework, tracer(framework, spec, scripts))
    assert beyond in found["beyond"], found
    trace, what = beyond.split()
    assert found["deviations"][trace][what] > 10 * TOLERANCES[trace][what]


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "caffe"])
def test_texts_from_records_are_those_from_memory(framework, tracer, root, tmp_path):
    """Whole tokens, unscaled, by either way; ten steps on them lead to the same weights."""
    entry = yaml.safe_load((root / "config/datasets/synthetic-text.yaml").read_text())
    entry["splits"] = {"train": 96, "test": 16}
    entry.pop("fingerprints", None)
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(entry))
    kind = frameworks.record_format(framework)
    convert = [root / "workflow/scripts/cli.py", "convert", "toy", "--source", tmp_path]
    convert += ["--config-folder", tmp_path, "--format", kind, "--output", tmp_path / "data"]
    subprocess.run([sys.executable, *map(str, convert)], check=True)
    traces = []
    for source in ("memory", "records"):
        cell = Cell(
            framework=framework, network="lstm-text", dataset="synthetic-text", batch_size=8,
            mode=frameworks.modes(framework)[0], input=source,
        )  # fmt: skip
        spec = make_spec(cell, 1, root)
        assert spec["data"]["white"] == 1
        told = {"folder": str(tmp_path / "data"), "train_examples": 96, "test_examples": 16}
        spec["data"].update(told)
        one = {"precision": "fp32", "optimizer": spec["optimizer"], "steps": 10}
        traces.append(np.load(tracer(framework, {**spec, "traces": {"one": one}})))
    memory, records = traces
    assert np.array_equal(memory["one/batches"], records["one/batches"])
    assert np.abs(memory["one/losses"] - records["one/losses"]).max() <= 1e-6
    for name in memory.files:
        if "/weight:" in name:
            assert np.abs(memory[name] - records[name]).max() <= 1e-6
