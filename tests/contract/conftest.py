"""A small study in every framework's own format, for all tests of the adapters."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.adapter import PROGRAM, copy_with, locked
from fixtures.certificates import beyond, layers_alone
from fixtures.commands import call
from fixtures.specs import parity_of
from fixtures.warm import MODULES, PROGRAMS, Warm
from touchstone.datasets import formats
from touchstone.measure import variables as run_variables
from touchstone.measure.launch import thread_variables
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parity import REFERENCE, steps_spec
from touchstone.plan.spec import make_spec
from touchstone.results.parity import compare
from touchstone.schema.spec import ProfileSpec, spec_to_json

FRAMEWORKS = frameworks.names()
FEW = {"train": 640, "test": 128}
"""Examples of `study.few`."""
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
"""Of the specs that `once` runs."""
KEPT = 500_000_000
"""How much of what compilers made is kept, bytes; one session makes about 16 million."""
QUICK_JAX = {
    "cpu": "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false",
    "gpu": "--xla_gpu_autotune_level=0",
}[DEVICE]
"""How JAX compiles in the tests, but in those that ask for it as it is (`usual_xla`)."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all workers of this session have in common."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def planted(root, tmp_path):
    """Makes a copy of our scripts with a fault, lines at the end of a module in the package.

    What they define takes the place of what has that name there: `class Adapter(Adapter)` is the
    adapter with another method, `def pad(x, right=pad)` a function that changes what it is given.
    """

    def plant(module, lines):
        scripts = tmp_path / "scripts"
        copy_with(root / "workflow/scripts", scripts, module, lines)
        return scripts

    return plant


def early(framework, arguments):
    """What must be set before the framework is imported, for the specs among the arguments."""
    needed = frameworks.capabilities(framework.partition("-")[0]).variables
    found = {name: value for name, value in needed.get("", {}).items() if name not in os.environ}
    for path in arguments:
        if path.endswith(".json"):
            spec = json.loads(Path(path).read_text())
            execution = spec.get("training", spec)["execution"]
            for asked in (execution["mode"], execution.get("wait_policy")):
                found.update(needed.get(asked, {}))
    return found


@pytest.fixture(scope="session")
def compilers(root, shared):
    """Variables with which JAX and PyTorch's compiler do not make again what they made once.

    What they make for a kind of CPU is kept for later sessions, up to `KEPT` bytes; each finds it
    by what it compiles, its own version and its options. PyTorch keeps precompiled headers for each
    path of a compiler, so that is the same in all sessions: else each took seconds to make 150 MB
    of them, which nobody deletes.
    """
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    able = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    kept = root / ".pytest_cache/compiler" / hashlib.sha256(able.encode()).hexdigest()[:12]
    compiler, begun = kept.with_name("g++"), shared / "compilers"
    with locked(begun):
        if not begun.exists():  # one worker of this session does this
            kept.mkdir(parents=True, exist_ok=True)
            if sum(path.stat().st_size for path in kept.rglob("*")) > KEPT:
                shutil.rmtree(kept)
                kept.mkdir()
            program = f"#!{sys.executable}\n{Path(__file__).with_name('compiler.py').read_text()}"
            if not compiler.exists() or compiler.read_text() != program:
                compiler.write_text(program)
                compiler.chmod(0o755)
            begun.touch()
    return {
        "CXX": str(compiler),
        "KEPT_BY_COMPILER": str(kept),
        "JAX_COMPILATION_CACHE_DIR": str(kept / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


@pytest.fixture
def quick_jax(compilers, monkeypatch):
    """Has JAX compile quickly in the runs that this process starts by itself, without `execute`.

    These get JAX's variables too, which a run else does not.
    """

    def begin():
        passed = (*run_variables.PASSED, "JAX_*", "XLA_*")
        monkeypatch.setattr(run_variables, "PASSED", passed)
        for name, value in {**compilers, "XLA_FLAGS": QUICK_JAX}.items():
            monkeypatch.setenv(name, value)

    return begin


@pytest.fixture(scope="session")
def variables(compilers):
    """What gives the environment variables of a framework's process.

    As many threads as the test has cores; idle ones sleep, for other tests use the cores too.
    """

    def found():
        # Those of pytest tell one worker, and one test, from another.
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return {**compilers, **own, **thread_variables(len(os.sched_getaffinity(0)), "passive")}

    return found


@pytest.fixture(scope="session")
def execute(python_of, variables):
    """Runs a framework's Python with arguments, as `subprocess.run` does, in a fork of a process
    that has imported the framework; `fresh` asks for a process of its own. `more` are variables.

    JAX's compiler takes two thirds of the time if it optimises little and writes machine code as
    it did before its fusion emitters. `XLA_FLAGS` in `more` ask for something else.
    """
    warm = Warm()
    if DEVICE == "gpu":
        PROGRAMS["pytorch"] = ["torch"]  # its compiler would look for devices, and no fork may then

    def run(framework, *arguments, cwd=None, fresh=False, more=None):
        python, arguments = python_of(framework), [str(each) for each in arguments]
        quick = {"XLA_FLAGS": QUICK_JAX} if framework.startswith("jax") else {}
        begin = {"cwd": str(cwd or Path.cwd()), "env": {**quick, **variables(), **(more or {})}}
        if fresh or framework not in MODULES:
            return subprocess.run([python, *arguments], capture_output=True, text=True, **begin)
        imported = {**begin["env"], **early(framework, arguments)}
        imported.pop("XLA_FLAGS", None)  # which XLA reads when it is first used
        return warm.run(framework, python, arguments, **begin, early=imported)

    yield run
    warm.close()


def place_of(framework, execution):
    """The name of the environment file that has what an execution needs."""
    if (framework, execution.mode) == ("pytorch", "keras"):
        return "pytorch-keras"
    return Path(frameworks.environment(framework, "cpu", execution.style)).stem


def on_device(spec):
    """The spec with `DEVICE` for its device."""
    if isinstance(spec, ProfileSpec):
        return spec._replace(training=on_device(spec.training))
    return spec._replace(execution=spec.execution._replace(device=DEVICE))


@pytest.fixture(scope="session")
def once(execute, variables, shared, root):
    """Runs a spec: how that ended, and the path of its output.

    What any test of this session ran already is not run again; another `output`, whose end is the
    kind of file, makes it another run. `code` is the folder of the scripts.
    """

    def run(
        framework, spec, output, cwd=shared, code=root / "workflow/scripts", fresh=False, more=None,
        place=None,
    ):  # fmt: skip
        if DEVICE != "cpu":
            spec = on_device(spec)
        asked = spec_to_json(spec)
        place = place or place_of(framework, spec.execution)
        key = [place, asked, output, str(cwd), str(code), fresh, variables(), more]
        text = json.dumps(key, sort_keys=True)
        stem = shared / hashlib.sha256(text.encode()).hexdigest()[:16]
        path, kept = Path(f"{stem}{output}"), Path(f"{stem}.ended")
        with locked(stem):
            if not kept.exists():
                file = Path(f"{stem}.json")
                file.write_text(json.dumps(asked))
                program = code / "run_in_framework.py"
                ended = execute(place, program, file, path, cwd=cwd, fresh=fresh, more=more)
                kept.write_text(json.dumps(vars(ended)))
            return SimpleNamespace(**json.loads(kept.read_text())), path

    return run


@pytest.fixture(scope="session")
def trace_of(once):
    """The file of what a spec of single steps leaves, which must go well; see `once`.

    XLA takes half of the time if it leaves its machine code as it is, and JAX's a sixth if it also
    writes it as it did before its fusion emitters: the graphs of these steps are large, and what
    they compute is the same.
    """
    quick = "--xla_backend_optimization_level=0"
    flags = {"jax": f"{quick} --xla_cpu_use_fusion_emitters=false"}

    def run(framework, spec, **others):
        more = {"XLA_FLAGS": flags.get(framework, quick)} if DEVICE == "cpu" else None
        ended, path = once(framework, spec, ".npz", more=more, **others)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return path

    return run


@pytest.fixture(scope="session")
def tracer(root, trace_of):
    """Traces a graph, a function that gives it, in a framework; `scripts` may be a folder of
    changed ones."""

    def traced(framework, mode, graph, scripts=root / "workflow/scripts", single=False):
        spec = steps_spec(graph().network(), framework, mode, single)
        return trace_of(framework, spec, code=scripts)

    return traced


@pytest.fixture(scope="session")
def certificate(root, trace_of):
    """What of a graph, a function that gives it, is not the same in a framework as in the
    reference."""

    def traced(framework, mode, graph, single):
        spec = steps_spec(graph().network(), framework, mode, single)
        return trace_of(framework, spec if single else layers_alone(spec))

    def compared(framework, mode, graph):
        usual = REFERENCE, frameworks.modes(REFERENCE)[0], graph
        single = frameworks.single_precision_only(framework)
        trace, reference = traced(framework, mode, graph, single), traced(*usual, single)
        if not single:
            return beyond(trace, reference)
        paths = {"reference": reference, framework: trace}
        return compare(graph.__name__, paths, reference)["frameworks"][framework]["beyond"]

    return compared


FORWARD = (
    PROGRAM
    + """
images, _ = batches.examples(adapter, job, "train")
weights = initial_weights.initial_weights(job.network.parameters, job.seed)
adapter.build(parity.perturb_constant_arrays(weights, job.network.parameters, job.seed))
batch = batches.sampler_of(job).take(1)[0][0]
np.save(sys.argv[3], parity.subsample("before", np.asarray(adapter.logits(images[batch]))))
"""
)


@pytest.fixture(scope="session")
def forward_deviation(root, execute, tmp_path_factory):
    """How far the logits of a framework are from the reference's before any step, in double
    precision, with `scripts` in the place of ours."""

    @cache
    def logits(framework, graph, scripts):
        spec = steps_spec(graph().network(), framework, frameworks.modes(framework)[0])
        spec = spec._replace(parity_steps={"fp64": spec.parity_steps["fp64"]})
        folder = tmp_path_factory.mktemp("logits")
        files = folder / "spec.json", folder / "logits.npy"
        files[0].write_text(json.dumps(spec_to_json(spec)))
        ended = execute(framework, "-c", FORWARD, scripts, *files)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return np.load(files[1])

    def deviation(framework, graph, scripts):
        right = logits(REFERENCE, graph, root / "workflow/scripts")
        found = logits(framework, graph, scripts)
        return np.abs(found - right).max() / np.abs(right).max()

    return deviation


def write_records(data):
    """Write MNIST-5k in every framework's format to `data`/mnist-5k, the first of its examples to
    `data`/few."""
    source = data / "downloads"
    assert call("download", "mnist-5k", "--output", source).returncode == 0
    for kind in {frameworks.record_format(framework) for framework in FRAMEWORKS}:
        whole, few = (data / name / kind for name in ("mnist-5k", "few"))
        convert = ["mnist-5k", "--source", source, "--format", kind, "--output", whole]
        assert call("convert", *convert).returncode == 0
        few.mkdir(parents=True)
        for split, count in FEW.items():
            examples = formats.load(kind).read(whole / split, [28, 28, 1])
            formats.load(kind).write(few / split, islice(examples, count))


@pytest.fixture(scope="session")
def study(shared, root, once):
    """A folder with the data in every format, and a runner of specs in it."""
    folder = shared / "study"
    scripts = root / "workflow/scripts"
    with locked(folder):
        if not folder.exists():
            draft = shared / "draft"
            write_records(draft / "results/data")
            draft.rename(folder)

    def launch(
        framework, output, traced=(), cwd=folder, repeat=1, data=None,
        code=scripts, fresh=False, place=None, usual_xla=False, **settings,
    ):  # fmt: skip
        """Run a cell with those settings, or trace these numbers of its steps: how it ended, its
        output.

        `data` replaces fields of the spec's data; with `usual_xla` JAX compiles as a user's does;
        see `once` for `code`, `fresh` and `place`.
        """
        settings = {"batch_size": 64, "learning_rate": 0.01, "weight_decay": 0.001, **settings}
        settings.setdefault("mode", frameworks.modes(framework)[0])
        cell = Cell(framework=framework, network="lenet5", dataset="mnist-5k", **settings)
        spec = make_spec(cell, repeat, root)
        spec = spec._replace(data=spec.data._replace(**(data or {})))
        if traced:
            spec = parity_of(spec, *traced)
        more = {"XLA_FLAGS": ""} if usual_xla and framework == "jax" else None
        return once(framework, spec, output, cwd, code, fresh, more, place)

    def run(framework, output, **settings):
        """The path of what a run wrote that went well; see `launch`."""
        ended, path = launch(framework, output, **settings)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return path

    @cache
    def traces(framework, steps, **settings):
        """The arrays that traces of these numbers of steps left, a mapping for each."""
        arrays = np.load(run(framework, ".npz", traced=steps, **settings))
        found = {str(number): {} for number in steps}
        for name in arrays.files:
            number, key = name.split("/")
            found[number][key] = arrays[name]
        return list(found.values())

    def trace(framework, **settings):
        return traces(framework, (10,), **settings)[0]

    def few(framework):
        """The fields of a spec's data of which an epoch has ten batches, and an evaluation two."""
        place = f"results/data/few/{frameworks.record_format(framework)}"
        return {
            "folder": place, "train_examples": FEW["train"], "test_examples": FEW["test"]
        }  # fmt: skip

    run.launch, run.traces, run.trace, run.few = launch, traces, trace, few
    run.folder = folder
    return run
