"""What adapters do on a GPU, rehearsed without one: fake CUDA tensors for PyTorch, lowered steps
for JAX, kernels by their registration for TensorFlow.

Tests of the environments for GPUs, gigabytes of packages, run where `GPU_ENVIRONMENTS` is set, as
`make gpu-rehearsal` does.
"""

import json
import os
import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fixtures.adapter import PROGRAM
from touchstone.datasets import formats
from touchstone.environments import read
from touchstone.measure import skip
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import reduced, steps_spec
from touchstone.schema.spec import spec_to_json

TESTS = Path(__file__).parents[1]
DEVICE = TESTS / "rehearsal/fake_cuda.cpp"
FULL = pytest.mark.skipif(
    not os.environ.get("GPU_ENVIRONMENTS"), reason="`make gpu-rehearsal` installs for GPUs"
)
pytestmark = pytest.mark.long
BUILDS = sorted(path.stem for path in (TESTS.parent / "envs").glob("*-gpu.yaml"))
"""The environments for GPUs."""
NETWORKS = ("lenet5", "resnet20-cifar", "lstm-text", "transformer-text", "vit-ti-16")
TYPES = {
    "fp32": "float32", "tf32": "float32", "fp64": "float64", "bf16": "bfloat16",
    "fp16-amp": "float16",
}  # fmt: skip
"""Of what products take, by precision."""
PRODUCTS = (
    *("mm", "addmm", "convolution", "convolution_backward"),
    *("linear", "conv2d", "scaled_dot_product_attention"),  # whole in inference mode
)
"""What PyTorch calls its products. Those of attention in training are left out: which of its
kernels a GPU takes, only a GPU tells."""
CASES = {
    f"{network}/{precision}": (network, {"precision": precision}, {"input": "memory"})
    for network in NETWORKS
    for precision in TYPES
}
"""The network, settings of its cell, and other values of its job."""
PYTORCH = {
    **CASES,
    "eager": ("resnet20-cifar", {"mode": "eager"}, {"input": "memory"}),
    "adam": (
        "lenet5", {"optimizer": "adam", "precision": "fp16-amp", "momentum": 0.0},
        {"input": "synthetic"},
    ),
    "augmented": ("lenet5", {"crop_padding": 2, "flip": True}, {"input": "memory"}),
    "records": ("lenet5", {}, {"input": "records"}),
    "deterministic": ("lenet5", {}, {"input": "memory", "execution": {"deterministic": True}}),
}  # fmt: skip
COMPILED = {
    mode: ("lenet5", {"mode": mode}, {"input": "memory"}) for mode in ("compile", "compile_graphs")
}


def spec_of(framework, network, settings):
    """Parity steps of one step in these settings of a cell."""
    mode = settings.get("mode", frameworks.modes(framework)[0])
    others = {name: value for name, value in settings.items() if name not in ("mode", "precision")}
    spec = steps_spec(reduced(network), framework, mode, **others)
    steps = spec.parity_steps["adam" if settings.get("optimizer") == "adam" else "fp32"]
    steps = steps._replace(precision=settings.get("precision", "fp32"), steps=1)
    return spec._replace(parity_steps={"one": steps})


@pytest.fixture(scope="module")
def rehearse(request, python_of, root, tmp_path_factory):
    """Gives what a framework's program in `tests/rehearsal` answers, by case.

    It has those of the tests that are to run.
    """
    folder = tmp_path_factory.mktemp("rehearsal")
    chosen = {item.callspec.params.get("case") for item in request.session.items if _has_case(item)}
    stem = folder / "records/train"
    stem.parent.mkdir()
    formats.load("lmdb").write(stem, [(1, np.zeros((32, 32, 3), np.uint8))] * 8)
    shards = {"train": [str(stem)]}

    @cache
    def run(framework, build):
        specs = {}
        for name, (network, settings, changes) in (PYTORCH | COMPILED).items():
            if name in chosen:
                spec = spec_of(framework, network, settings)
                data = spec.data._replace(shards=shards, mean=[0.5] * 3, std=[0.25] * 3)
                specs[name] = (spec_to_json(spec._replace(data=data)), changes)
        files = folder / f"{build}.cases.json", folder / f"{build}.found.json"
        files[0].write_text(json.dumps(specs))
        variables = {
            "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2",
            "PYTHONPATH": f"{root / 'workflow/scripts'}:{TESTS}",
        }  # fmt: skip
        python = python_of(build)
        if framework == "pytorch":
            variables["LD_PRELOAD"] = str(fake_cuda(python, folder))
        program = TESTS / f"rehearsal/{framework}_steps.py"
        ended = subprocess.run(
            [python, program, *files], env=variables, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        return json.loads(files[1].read_text())

    def answer(framework, case, build=None):
        found = run(framework, build or framework)[case]
        assert "failed" not in found, found["failed"][-3000:]
        return found

    return answer


def _has_case(item):
    return hasattr(item, "callspec") and "case" in item.callspec.params


def fake_cuda(python, folder):
    """Compile the device that PyTorch's build for CPUs is given."""
    find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    package = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True)
    headers, libraries = (f"{package.stdout.strip()}/{name}" for name in ("include", "lib"))
    library = folder / "fake_cuda.so"
    subprocess.run(
        ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{headers}", DEVICE, f"-L{libraries}",
         "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}", "-o", library],
        check=True,
    )  # fmt: skip
    return library


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("case", PYTORCH)
def test_pytorch_steps_are_on_the_device_in_their_precision(case, rehearse):
    found, (_, settings, _) = rehearse("pytorch", case), PYTORCH[case]
    precision = settings.get("precision", "fp32")
    for read_back in (found["settings"], found["inference_settings"]):
        assert read_back["device"] == "gpu"
        assert read_back["precision"] == precision
        assert read_back["mode"] == settings.get("mode", "eager_channels_last")
    for calls in (found["step"], found["prediction"]):
        # It would wait for the device.
        assert [call for call in calls if call["operation"] == "_local_scalar_dense"] == []
        products = [call for call in calls if call["operation"] in PRODUCTS]
        types = {given["type"] for call in products for given in call["given"]}
        assert products and types == {TYPES[precision]}
        assert [call for call in calls if mixed(call)] == []
    convolved = [call["given"][0] for call in found["step"] if call["operation"] == "convolution"]
    if precision != "fp64":  # for which cuDNN has no channels-last kernels
        in_order = settings.get("mode") != "eager"
        assert {one["channels_last"] for one in convolved} <= {in_order}


def mixed(call):
    """Whether an operation takes arrays of the CPU beside those of the device."""
    places = {given["device"] for given in call["given"] if given["shape"]}
    return len(places) > 1 and call["operation"] not in ("_to_copy", "copy_")


def copies(calls):
    """What a copy between host and device is given."""
    return [
        call["given"][0]
        for call in calls
        if call["operation"] == "_to_copy" and call["given"][0]["device"] == "cpu"
    ]


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("case", ["records"])
def test_pytorch_copies_records_from_pinned_memory(case, rehearse):
    """From other memory, a copy waits until the device has it."""
    pixels, labels = copies(rehearse("pytorch", case)["step"])
    assert (pixels["type"], labels["type"]) == ("uint8", "int64")
    assert pixels["pinned"] and labels["pinned"]


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("case", COMPILED)
def test_pytorch_compiles_for_a_gpu_with_triton_only(case, rehearse):
    reason = "torch.compile needs Triton for a GPU, which is missing"
    assert rehearse("pytorch", case) == {"unsupported": reason}


def small() -> Graph:
    """A network with a layer that changes its own statistics."""
    graph = Graph("small", (8, 8, 3))
    x = graph.relu("r1", graph.batch_norm("n1", graph.conv("c1", "input", 8, 3)))
    graph.dense("logits", graph.global_avg_pool("p1", x), 10)
    graph.check()
    return graph


@pytest.fixture(scope="module")
def in_graphs(python_of, root, tmp_path_factory):
    """Gives what `tests/rehearsal/pytorch_graphs.py` answers in a mode."""
    folder = tmp_path_factory.mktemp("graphs")

    @cache
    def run(mode, *options):
        spec = steps_spec(small().network(), "pytorch", mode)
        spec = spec._replace(parity_steps={"one": spec.parity_steps["fp64"]})
        files = folder / f"{mode}.json", folder / f"{mode}.found.json"
        files[0].write_text(json.dumps({"one": (spec_to_json(spec), {"input": "memory"})}))
        variables = {
            "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{root / 'workflow/scripts'}:{TESTS}",
        }  # fmt: skip
        program = [python_of("pytorch"), TESTS / "rehearsal/pytorch_graphs.py", *files, *options]
        ended = subprocess.run(program, env=variables, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr[-3000:]
        found = json.loads(files[1].read_text())["one"]
        assert "failed" not in found, found["failed"][-3000:]
        return found

    return run


GRAPHS = "CUDA graphs run on NVIDIA's GPUs only"


@pytest.mark.release
@pytest.mark.framework("pytorch")
def test_pytorch_trains_and_predicts_with_graphs_as_without(in_graphs):
    """Its graphs are stand-ins that overwrite what a step gave when the next one begins."""
    found, expected = in_graphs("compile_graphs"), in_graphs("eager_channels_last")
    assert (found["reason"], expected["reason"]) == (GRAPHS, None)
    for name in ("losses", "outputs"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)
    for name, array in expected["weights"].items():
        np.testing.assert_allclose(found["weights"][name], array, rtol=1e-9, atol=1e-12)
    # The first step only warms up.
    assert found["modes"] == ["compile", *["compile_graphs"] * 3]


@pytest.mark.release
@pytest.mark.framework("pytorch")
def test_pytorch_is_unsupported_where_it_makes_no_graph(in_graphs):
    reason = in_graphs("compile_graphs", "refused")["unsupported"]
    assert reason.endswith("skipping cudagraphs due to mutated inputs (1 instances)")


PRECISION = {"fp32": "HIGHEST", "tf32": "HIGH", "bf16": "HIGHEST", "fp64": "HIGHEST"}
"""Of products in StableHLO. On a GPU XLA rounds to TF32 unless the highest is asked for."""
ELEMENTS = {"fp32": "f32", "tf32": "f32", "bf16": "bf16", "fp64": "f64"}


@pytest.mark.framework("jax")
@pytest.mark.parametrize("case", CASES)
def test_jax_lowers_its_step_for_cuda(case, rehearse):
    found, precision = rehearse("jax", case), case.split("/")[1]
    if precision == "fp16-amp":
        assert found == {"unsupported": "JAX has no loss scaling of its own, which fp16 needs"}
        return
    for text in (found["step"], found["prediction"]):
        lines = [one for one in text.splitlines() if re.search(r"dot_general|convolution", one)]
        asked = Counter(word for one in lines for word in re.findall(r"HIGHEST|HIGH|DEFAULT", one))
        assert asked == {PRECISION[precision]: 2 * len(lines)} and lines
        elements = {kind for one in lines for kind in re.findall(r"x(b?f\d+)>", one)}
        assert elements == {ELEMENTS[precision]}
        layouts = re.findall(r"dim_numbers = \[(.*?)\]", text)
        # The gradient of weights contracts over the images.
        assert {one[0] for one in layouts} <= {"b", "f"}
    # Every array of the state but the last step's scalars becomes one of the next state.
    assert found["step"].count("tf.aliasing_output") == found["state"] - 1
    assert found["memory_peak"] == 1024.0


LOSSES = (
    PROGRAM
    + """
import tensorflow as tf
adapter.job = job._replace(execution=job.execution._replace(device="gpu"))
labels = tf.constant([1, 0], tf.int64)
logits = tf.constant([[1.0, 2.0, 3.0], [-50.0, 0.0, 700.0]], tf.float64)
traced = tf.function(adapter._losses, autograph=False).get_concrete_function(labels, logits)
exact = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
kinds = [operation.type for operation in traced.graph.get_operations()]
print(json.dumps([traced(labels, logits).numpy().tolist(), exact.numpy().tolist(), kinds]))
"""
)


@pytest.mark.framework("tensorflow")
def test_tensorflow_takes_a_cross_entropy_that_gpus_have_in_double_precision(
    execute, root, tmp_path
):
    path = tmp_path / "spec.json"
    path.write_text(
        json.dumps(spec_to_json(spec_of("tensorflow", "lenet5", {"precision": "fp64"})))
    )
    ended = execute("tensorflow", "-c", LOSSES, root / "workflow/scripts", path)
    assert ended.returncode == 0, ended.stderr[-3000:]
    losses, exact, kinds = json.loads(ended.stdout.splitlines()[-1])
    assert losses == pytest.approx(exact, rel=1e-15)
    assert "SoftmaxCrossEntropyWithLogits" in kinds
    assert "SparseSoftmaxCrossEntropyWithLogits" not in kinds


@FULL
@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize("case", CASES)
def test_tensorflow_has_a_gpu_kernel_for_every_operation(case, rehearse):
    found = rehearse("tensorflow", case, "tensorflow-gpu")
    assert found["step"] == found["prediction"] == []
    assert min(found["operations"]) > 10
    assert found["tf32"] is (case.split("/")[1] == "tf32")
    assert len(found["grown"]) == 1


@FULL
@pytest.mark.parametrize("build", BUILDS)
def test_an_environment_for_gpus_installs_and_imports(build, python_of, root):
    framework = build.removesuffix("-gpu")
    _, requirements = read(root / f"envs/{build}.yaml")
    modules = frameworks.capabilities(framework).modules
    lines = [f"import {module}" for module in modules]
    lines.append("import json; from importlib.metadata import distributions as d")
    lines.append("print(json.dumps({x.metadata['Name']: x.version for x in d()}))")
    ended = subprocess.run(
        [python_of(build), "-c", "\n".join(lines)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    there = {canonical(name): version for name, version in found.items()}
    for pin in requirements.lines:
        name, version = re.match(r"([\w.-]+)(?:\[.*?\])?==(\S+)", pin).groups()
        # PyTorch's build adds its CUDA version.
        assert there[canonical(name)].split("+")[0] == version
    assert any(name.startswith("nvidia-cu") for name in there)


def canonical(name):
    """A package's name as registries compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@FULL
@pytest.mark.skipif(skip.no_device("gpu") is None, reason="this machine may have a GPU")
@pytest.mark.parametrize("build", BUILDS)
def test_a_build_for_gpus_says_that_there_is_none(build, python_of, root, tmp_path):
    framework = build.removesuffix("-gpu")
    spec = spec_of(framework, "lenet5", {})
    spec = spec._replace(execution=spec.execution._replace(device="gpu"))
    (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    program = root / "workflow/scripts/run_in_framework.py"
    ended = subprocess.run(
        [python_of(build), program, tmp_path / "spec.json", tmp_path / "steps.npz"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    reason = str(np.load(tmp_path / "steps.npz")["unsupported"])
    assert re.search("sees no|predicts only", reason), reason


@FULL
def test_onnx_runtime_is_built_for_cuda(python_of):
    """Which it needs a driver to prove; without one its sessions fall back to the CPU."""
    program = "import onnxruntime; print(onnxruntime.get_available_providers())"
    command = [python_of("onnxruntime-gpu"), "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "CUDAExecutionProvider" in ended.stdout
