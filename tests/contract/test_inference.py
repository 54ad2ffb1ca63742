"""Inference in every framework and mode: the outputs of the network that was trained, no others."""

import json
import re

import numpy as np
import pytest

from contract.test_parity import every_layer
from contract.test_text import every_text_layer
from fixtures.adapter import PROGRAM
from fixtures.specs import EPOCH
from touchstone import networks
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parity import REFERENCE, reduced
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json
from touchstone.schema.values import to_json

ABLE = [name for name in frameworks.adapters() if frameworks.single_purpose(name) != "operations"]
TENSORRT = "onnxruntime", "tensorrt"
MODES = [(name, mode) for name in ABLE for mode in frameworks.modes(name)]
MODES.remove(TENSORRT)  # on GPUs only
OUTPUTS = 1e-5
"""Of outputs of LeNet-5, relative to the largest."""
DEEP = 1e-4
"""The same of any network at reduced resolution."""
SHORT = {"warmup_steps": 2, "warmup_seconds": 0.0, "inference_seconds": 0.2}


@pytest.fixture(scope="module")
def launch(study, root, once):
    """Run a cell's spec, changed, with the runner of its workload: how it ended, its events."""

    def run(cell, code=root / "workflow/scripts", **changes):
        spec = make_spec(cell, 1, root)._replace(**changes)
        ended, events = once(cell.framework, spec, ".jsonl", study.folder, code)
        return ended, [json.loads(line) for line in events.read_text().splitlines()]

    return run


def a_cell(framework, **settings):
    settings = {"mode": frameworks.modes(framework)[0], "learning_rate": 0.01, **settings}
    return Cell(framework=framework, network="lenet5", dataset="mnist-5k", **settings)


@pytest.fixture(scope="module")
def trained(launch, study):
    """By framework, the file of the weights that a short training kept, and its evaluation."""
    known = {}

    def train(framework):
        if framework not in known:
            path = study.folder / f"{framework}-weights.npz"
            ended, events = launch(
                a_cell(framework, **EPOCH),
                keep_weights=str(path),
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            evaluation = next(event for event in events if event["event"] == "evaluation")
            known[framework] = path, evaluation
        return known[framework]

    return train


def predicted(launch, path, framework, code=None, **settings):
    """How a run ended that predicts with these weights, and its events."""
    cell = a_cell(framework, workload="inference", **SHORT, **settings)
    scripts = {"code": code} if code else {}
    return launch(cell, weights=str(path), **scripts)


def of(events, kind):
    return next(event for event in events if event["event"] == kind)


@pytest.mark.parametrize("framework", frameworks.names())
def test_predictions_are_those_of_the_evaluation_in_training(framework, launch, trained):
    path, evaluation = trained(framework)
    # 300 does not divide the 1000 images of the test set: its last batch is filled up.
    ended, events = predicted(launch, path, framework, batch_size=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    found = of(events, "evaluation")
    assert found["examples"] == evaluation["examples"] == 1000
    assert abs(found["correct"] - evaluation["correct"]) <= 1
    assert found["loss"] == pytest.approx(evaluation["loss"], rel=1e-5)
    assert evaluation["correct"] > 500  # it has learnt something that can be lost
    assert of(events, "deviation")["value"] <= OUTPUTS


@pytest.mark.parametrize("framework, mode", MODES)
def test_every_framework_and_mode_predicts_the_same(framework, mode, launch, trained):
    path, _ = trained(REFERENCE)
    ended, events = predicted(launch, path, framework, mode=mode)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert events[-1]["status"] == "ok", events[-1]
    assert of(events, "deviation")["value"] <= OUTPUTS
    settings = of(events, "settings")
    assert set(settings["effective"]) >= set(settings["requested"])
    assert settings["effective"]["mode"] == mode
    assert settings["effective"]["batch_size"] == 64
    assert "momentum" not in settings["requested"]
    phases = [event["name"] for event in events if event["event"] == "phase"]
    assert phases == [
        "import", "load", "build", "first_step", "evaluation", "warmup", "measured", "latency",
    ]  # fmt: skip
    steps = [event for event in events if event["event"] == "chunk"]
    assert [event["first_step"] for event in steps] == list(
        np.cumsum([0, *(event["steps"] for event in steps)])[:-1]
    )
    assert sum(event["steps"] for event in steps if event["phase"] == "evaluation") == 15


@pytest.mark.long
@pytest.mark.framework(REFERENCE)
def test_weights_that_were_never_trained_are_no_secret(launch, study):
    ended, events = launch(a_cell(REFERENCE, workload="inference", weights="initial", **SHORT))
    assert events[-1]["status"] == "ok"
    assert not [event for event in events if event["event"] == "deviation"]
    assert of(events, "evaluation")["correct"] < 300


def spoilt(change):
    """Weights, changed."""

    def write(path, arrays):
        change(arrays)
        np.savez(path, **arrays)

    return write


SPOILT = {
    "an array is missing": (
        spoilt(lambda arrays: arrays.pop("conv1.bias")), "conv1.bias is missing",
    ),
    "another shape": (
        spoilt(lambda arrays: arrays.update({"conv1.bias": np.zeros(7, np.float32)})),
        r"conv1.bias has the shape \(7,\), not \(6,\)",
    ),
    "an array too many": (
        spoilt(lambda arrays: arrays.update(other=np.zeros(1))), "other is none of its arrays",
    ),
    "other weights": (
        spoilt(lambda arrays: arrays.update({"conv1.bias": arrays["conv1.bias"] + 1})),
        r"the outputs are [\d.e+-]+ from those kept there",
    ),
    "no archive": (lambda path, arrays: path.write_bytes(b"PK, no"), "no file of weights"),
    "no file": (lambda path, arrays: path.unlink(missing_ok=True), "no file of weights"),
}  # fmt: skip


@pytest.mark.framework(REFERENCE)
@pytest.mark.parametrize("case", SPOILT)
def test_a_wrong_file_of_weights_is_refused_by_its_name(case, launch, trained, tmp_path):
    change, message = SPOILT[case]
    with np.load(trained(REFERENCE)[0]) as file:
        arrays = dict(file)
    path = tmp_path / "weights.npz"
    change(path, arrays)
    ended, _ = predicted(launch, path, REFERENCE)
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode and str(path) in last and re.search(message, last), last


PLANTED = {
    "onnxruntime": (r"\bthreads: asked \d+, found 7", """
class Adapter(Adapter):
    def _session(self, model):
        self.threads = 7
        return super()._session(model)
"""),
    "pytorch": ("mode: asked 'compile', found 'eager_channels_last'", """
class Adapter(Adapter):
    def build(self, weights):
        super().build(weights)
        self.predictor = self.model.forward
"""),
}  # fmt: skip
"""By framework, what the run must say, and what is at the end of its adapter."""


@pytest.mark.parametrize("framework", PLANTED)
def test_a_setting_that_is_not_the_asked_one_fails_the_run(framework, planted, trained, launch):
    message, lines = PLANTED[framework]
    scripts = planted(f"runner/adapters/{framework}/adapter", lines)
    mode = "compile" if framework == "pytorch" else frameworks.modes(framework)[0]
    ended, _ = predicted(launch, trained(REFERENCE)[0], framework, scripts, mode=mode)
    assert ended.returncode and re.search(message, ended.stderr.splitlines()[-1])


@pytest.mark.framework("onnxruntime")
def test_tensorrt_computes_on_gpus_only(launch):
    framework, mode = TENSORRT
    cell = a_cell(framework, mode=mode, workload="inference", weights="initial", **SHORT)
    ended, events = launch(cell)
    assert events[-1]["status"] == "unsupported"
    assert events[-1]["reason"] == "TensorRT computes on NVIDIA's GPUs only"


@pytest.mark.framework("onnxruntime")
def test_onnxruntime_does_not_train(launch):
    ended, events = launch(a_cell("onnxruntime", epochs=1))
    assert events[-1]["status"] == "unsupported"
    assert events[-1]["reason"] == "ONNX Runtime does not train here: it predicts only"


ALL = """
import contextlib
from touchstone.schema.spec import Network
from touchstone.schema.values import from_json
for index, graph in enumerate(json.load(open(sys.argv[3]))):
    own = job._replace(network=from_json(Network, graph))
    parameters = own.network.parameters
    start = initial_weights.initial_weights(parameters, 1)
    start = parity.perturb_constant_arrays(start, parameters, 1)
    getattr(adapter, "inferring", contextlib.ExitStack()).close()  # PyTorch's, of the graph before
    adapter = type(adapter)(own, 1)
    try:
        adapter.build(start)
    except NotImplementedError as fault:
        print(index, fault)
        continue
    shape = (job.batch_size,) + tuple(graph["input"])
    random = np.random.RandomState(2)
    images = random.standard_normal(shape)
    if "vocabulary" in graph:
        images = random.randint(0, graph["vocabulary"], shape)
    images = images.astype(np.float32)
    logits = adapter.fetch_outputs(adapter.predict(adapter.prepare(images)))
    np.save("%s-%s-%d.npy" % (sys.argv[3], job.framework, index), logits)
"""


@pytest.mark.framework("onnxruntime")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param([], marks=pytest.mark.long, id="layers"),
        pytest.param(networks.names(), marks=pytest.mark.release, id="networks"),
    ],
)
def test_onnxruntime_computes_what_the_reference_does(names, root, execute, tmp_path):
    graphs = [every_layer().network(), every_text_layer().network(), *map(reduced, names)]
    for framework in (REFERENCE, "onnxruntime"):
        spec = make_spec(a_cell(framework, workload="inference", batch_size=4), 1, root)
        path = tmp_path / f"{framework}.json"
        path.write_text(json.dumps(spec_to_json(spec)))
        (tmp_path / "graphs").write_text(json.dumps(to_json(graphs)))
        arguments = [root / "workflow/scripts", path, tmp_path / "graphs"]
        ended = execute(framework, "-c", PROGRAM + ALL, *arguments)
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert ended.stdout == ""
    for index, graph in enumerate(graphs):
        ours, theirs = (np.load(tmp_path / f"graphs-{name}-{index}.npy")
                        for name in ("onnxruntime", REFERENCE))  # fmt: skip
        deviation = np.abs(ours - theirs).max() / np.abs(theirs).max()
        print(graph.name, deviation)
        shape = (4, *graph.layers[-1]["shape"])
        assert ours.shape == theirs.shape == shape and deviation <= DEEP, graph.name
