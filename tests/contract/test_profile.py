"""The records of each framework's own profiler belong to the right layers."""

import json

import pytest

from fixtures.adapter import copy_with, locked
from fixtures.profiles import WITH_LAYERS, profile_in, profile_spec
from touchstone.measure.launch import thread_variables
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.schema.spec import spec_to_json

MODES = [
    *(("pytorch", "eager"), ("pytorch", "eager_channels_last")),
    *(("tensorflow", "function"), ("mxnet", "static"), ("mxnet", "hybrid"), ("jax", "jit")),
]
SETTINGS = {"batch_size": 32, "epochs": 1, "threads": 1}
"""With more threads, small layers would wait for those that other programs keep from running."""


def uneven():
    """A network in which one convolution and one dense layer do nearly all of the work."""
    graph = Graph("uneven", (28, 28, 1))
    # Not 1 x 1, of whose gradient oneDNN writes past its memory: docs/limitations.md.
    x = graph.relu("r1", graph.conv("c1", "input", 8, 2, stride=2))
    x = graph.relu("r2", graph.conv("c2", x, 64, 1))
    x = graph.relu("r3", graph.conv("c3", x, 64, 5, padding=2))
    x = graph.relu("r4", graph.conv("c4", x, 4, 1))
    x = graph.relu("r5", graph.dense("d1", graph.flatten("f1", x), 32))
    x = graph.relu("r6", graph.dense("d2", x, 1536))
    x = graph.relu("r7", graph.dense("d3", x, 1536))
    x = graph.relu("r8", graph.dense("d4", x, 32))
    graph.dense("logits", x, 10)
    graph.check()
    return graph


def dense():
    """A network with one layer that has weights."""
    graph = Graph("dense", (28, 28, 1))
    graph.dense("logits", graph.flatten("f1", "input"), 10)
    graph.check()
    return graph


def branches():
    """A network with a block whose convolutions MXNet may compute in any order."""
    graph = Graph("branches", (28, 28, 1))
    x = graph.relu("r1", graph.conv("c1", "input", 8, 3, stride=2))
    left = graph.conv("c3", graph.relu("r2", graph.conv("c2", x, 8, 3, padding=1)), 8, 1)
    x = graph.add("a1", left, graph.conv("c4", x, 8, 1))
    x = graph.concat("k1", x, graph.max_pool("m1", x, 1))
    graph.dense("logits", graph.global_avg_pool("g1", graph.conv("c5", x, 8, 1)), 10)
    graph.check()
    return graph


SHORT = """
ROUNDS, CHUNK_SECONDS, WARMUP_SECONDS = 3, 0.1, 0.2
"""
"""What is at the end of `runner/profile.py`: the layers that are compared are far apart."""


@pytest.fixture(scope="module")
def short_rounds(shared, root):
    """The folder of scripts whose profiles have short rounds."""
    scripts = shared / "short-profile/scripts"  # "scripts" as in `tool.coverage.paths`
    scripts.parent.mkdir(exist_ok=True)
    with locked(scripts):
        if not scripts.exists():
            copy_with(root / "workflow/scripts", scripts, "runner/profile", SHORT)
    return scripts


@pytest.fixture
def profiled(once, short_rounds):
    """Profiles a graph, a function that gives it, in a framework."""

    def run(framework, mode, graph, **settings):
        spec = profile_spec(framework, graph().network(), mode=mode, **{**SETTINGS, **settings})
        more = thread_variables(1, "passive")
        ended, path = once(framework, spec, ".profile", code=short_rounds, more=more)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return profile_in(path)

    return run


def share_of(found, layer, others, direction):
    """The share that a layer has of the time of all layers `others`; layers that are computed with
    it count as a part of it."""
    times = {tuple(one.layers): getattr(one, direction) or 0.0 for one in found.layers}
    own = sum(time for layers, time in times.items() if layer in layers)
    return own / sum(time for layers, time in times.items() if {*others} & {*layers})


@pytest.mark.parametrize(("framework", "mode"), MODES)
def test_the_layers_that_work_most_have_most_of_the_time(profiled, framework, mode):
    found = profiled(framework, mode, uneven)
    assert (found.status, found.reason) == ("ok", None)
    for direction in ("forward", "backward"):
        convolutions, products = ["c1", "c2", "c3", "c4"], ["d1", "d2", "d3", "d4", "logits"]
        assert share_of(found, "c3", convolutions, direction) > 0.5, direction
        assert share_of(found, "d3", products, direction) > 0.5, direction


@pytest.mark.parametrize(("framework", "mode"), MODES)
def test_every_layer_has_a_time_and_all_add_up_to_the_step(profiled, framework, mode):
    found = profiled(framework, mode, uneven)
    for direction in ("forward", "backward"):
        known = {n for one in found.layers if getattr(one, direction) for n in one.layers}
        assert set(found.ops) - known <= {"f1"}, direction  # a view of the same numbers
    parts = sum((one.forward or 0.0) + (one.backward or 0.0) for one in found.layers)
    assert parts + found.other == pytest.approx(found.profiled_step)
    assert all(time is None or time > 0 for one in found.layers for time in one[1:])
    assert 0 < found.other < 0.5 * found.profiled_step


@pytest.mark.parametrize("framework", WITH_LAYERS)
def test_branches_and_layers_without_arrays(profiled, framework):
    found = profiled(framework, frameworks.modes(framework)[0], branches)
    assert found.status == "ok", found.reason
    rows = {tuple(one.layers) for one in found.layers}
    assert set(found.ops) == {name for layers in rows for name in layers}
    if framework == "mxnet":  # its records do not say which of them was first
        assert ("c2", "c3", "c4") in rows and ("c1",) in rows and ("c5",) in rows
    if framework == "pytorch":
        assert rows == {(name,) for name in found.ops}


@pytest.mark.long
def test_tensorflow_lists_layers_that_it_fuses_together(profiled):
    found = profiled("tensorflow", "function", uneven)
    fused = [one for one in found.layers if one.layers == ["d3", "r7"]]
    alone = [one for one in found.layers if one.layers == ["d3"]]
    # oneDNN's kernels compute both, where TensorFlow uses them; the gradients are two.
    if fused:
        assert fused[0].forward and not fused[0].backward
        assert alone[0].backward and not alone[0].forward
    else:
        assert alone[0].forward and alone[0].backward


UNSUPPORTED = [
    ("pytorch", {"mode": "compile"}, "torch.compile makes kernels of several layers"),
    ("tensorflow", {"mode": "xla"}, "XLA compiles a step as a whole"),
    ("mxnet", {"mode": "imperative"}, "as one task"),
    *((name, {"device": "gpu"}, "on the CPU only") for name in WITH_LAYERS),
    *((name, {"replicas": 2}, "one process with one device") for name in WITH_LAYERS),
]


@pytest.mark.parametrize(("framework", "settings", "reason"), UNSUPPORTED)
def test_what_has_no_profile_says_why(once, short_rounds, framework, settings, reason):
    """At once: nothing is compiled."""
    spec = profile_spec(framework, dense().network(), **{**SETTINGS, **settings})
    training = spec.training
    execution = training.execution._replace(replicas_are=None)  # no process waits for others
    spec = spec._replace(training=training._replace(execution=execution))
    ended, path = once(framework, spec, ".profile", code=short_rounds)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = profile_in(path)
    assert found.status == "unsupported" and reason in found.reason
    assert not found.layers


OLDER_JAX = """
import runpy, sys
import jax.profiler
del jax.profiler.ProfileData
program, *sys.argv[1:] = sys.argv[1:]
sys.path[0] = program.rpartition("/")[0]
runpy.run_path(program, run_name="__main__")
"""


@pytest.mark.framework("jax")
def test_a_jax_that_does_not_read_its_records_has_no_profile_and_says_why(execute, root, tmp_path):
    """As 0.4.36, whose adapter trains all the same (test_releases.py)."""
    spec, path = tmp_path / "spec.json", tmp_path / "layers.profile"
    asked = profile_spec("jax", dense().network(), **SETTINGS)
    spec.write_text(json.dumps(spec_to_json(asked)))
    program = root / "workflow/scripts/run_in_framework.py"
    ended = execute("jax", "-c", OLDER_JAX, program, spec, path)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = profile_in(path)
    assert found.status == "unsupported" and "no jax.profiler.ProfileData" in found.reason
