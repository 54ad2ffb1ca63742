"""Every layer kind is the same function in every framework and mode, and a break is seen."""

import json
import os
import subprocess
from functools import cache

import numpy as np
import pytest

from touchstone.measure.supervisor import thread_variables
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, trace_spec
from touchstone.results.files import InputError
from touchstone.results.parity import TOLERANCES, compare

MODES = [(name, mode) for name in frameworks.names() for mode in frameworks.modes(name)]
USUAL = REFERENCE, frameworks.modes(REFERENCE)[0]


def every_layer() -> Graph:
    """A network with every operation of the graph, and every way to pad."""
    graph = Graph("every_layer", (16, 16, 3))
    with graph.frozen():
        x = graph.conv("c0", "input", 3, 1)
    x = graph.conv("c1", x, 8, 3, stride=2, padding="same", bias=False)
    x = graph.lrn("n1", graph.relu("r1", graph.batch_norm("b1", x)), 5, 0.1, 0.75, 2.0)
    dilated = graph.conv("c2", x, 8, 3, padding=2, dilation=2, groups=2)
    depthwise = graph.conv("c3", x, 8, 3, padding=1, groups=8, bias=False)
    multiplied = graph.conv("c4", x, 16, (3, 1), padding=(1, 1, 0, 0), groups=8)
    x = graph.concat("k1", graph.add("a1", dilated, depthwise, x), multiplied)
    x = graph.dropout("o1", graph.batch_norm("b2", x, epsilon=1e-3, momentum=0.99), 0.25)
    pools = [
        graph.max_pool("m1", x, 3, 2, ceil=True),
        graph.max_pool("m2", x, 3, 2, padding=1),
        graph.max_pool("m3", x, 3, 2, padding="same"),
        graph.max_pool("m4", x, 2, 2),
        graph.avg_pool("p1", x, 2, 2),
        graph.avg_pool("p2", x, 3, 2, padding=1),
        graph.avg_pool("p3", x, 3, 2, padding="same"),
        graph.avg_pool("p4", x, 3, 2, padding=(1, 0, 1, 0)),
    ]
    x = graph.concat("k2", *pools)
    pooled = graph.dense("d1", graph.global_avg_pool("g1", x), 24, bias=False)
    x = graph.conv("c5", x, 5, 3, stride=2, padding=(0, 1, 0, 1))
    x = graph.dropout("o2", graph.relu("r2", graph.flatten("f1", x)), 0.5)
    x = graph.dense("d2", x, 24, l1=2.0**-5, l2=2.0**-5)
    x = graph.relu("r3", graph.add("a2", x, pooled))
    graph.dense("logits", graph.dropout("o3", x, 0.5), 10)
    graph.check()
    return graph


VARIANTS = {
    "usual": {},
    "plain": {"momentum": 0.0, "schedule": "step", "milestones": [0.5]},
    "rate rises and falls": {
        "schedule": "cosine", "rate_warmup_epochs": 0.25, "weight_decay_on": "weights",
    },
    "nesterov, rate falls": {"nesterov": True, "schedule": "step", "milestones": [0.3, 0.6]},
    "decoupled, augmented": {
        "weight_decay_form": "decoupled", "weight_decay_on": "weights", "crop_padding": 3,
        "flip": True,
    },
}  # fmt: skip
"""Settings of the update equation and of augmentation beside `plan.parity.USUAL`."""


@pytest.fixture(scope="module")
def tracer(tmp_path_factory, root, python_of):
    """Trace `every_layer` in a framework; `scripts` may be a folder of changed ones."""
    folder = tmp_path_factory.mktemp("parity")
    graph = every_layer().as_dict()
    ours = root / "workflow/scripts"

    def run(framework, mode, variant="usual", scripts=ours, single=False):
        stem = f"{scripts.parent.name}-{framework}-{mode}-{list(VARIANTS).index(variant)}-{single}"
        spec, output = folder / f"{stem}.json", folder / f"{stem}.npz"
        told = trace_spec(graph, framework, mode, single, **VARIANTS[variant])
        spec.write_text(json.dumps(told))
        command = [
            python_of(framework),
            str(scripts / "run_in_framework.py"),
            str(spec),
            str(output),
        ]
        threads = thread_variables(len(os.sched_getaffinity(0)), "passive")
        ended = subprocess.run(command, env={**os.environ, **threads}, capture_output=True)
        assert ended.returncode == 0, ended.stderr.decode()[-3000:]
        return output

    run.cached = cache(run)
    return run


def certificate(tracer, framework, mode, variant="usual", scripts=None):
    alone = frameworks.single_precision_only(framework)
    trace = tracer(framework, mode, variant, scripts, alone) if scripts else None
    trace = trace or tracer.cached(framework, mode, variant, single=alone)
    paths = {"reference": tracer.cached(*USUAL, variant), framework: trace}
    single = tracer.cached(*USUAL, variant, single=True) if alone else None
    return compare("every_layer", paths, single)["frameworks"][framework]


@pytest.mark.parametrize("framework, mode", MODES)
def test_every_layer_is_the_same_everywhere(framework, mode, tracer):
    found = certificate(tracer, framework, mode)
    print(framework, mode, found["deviations"])
    assert found["beyond"] == []


@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
@pytest.mark.parametrize("framework", frameworks.names())
def test_every_update_equation_is_the_same_everywhere(framework, variant, tracer):
    found = certificate(tracer, framework, frameworks.modes(framework)[0], variant)
    print(framework, variant, found["deviations"])
    # MXNet's kernel of Nesterov's equation computes in single precision: 1e-7 in the velocities.
    assert [what for what in found["beyond"] if what != "fp64 gradients"] == []


@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_another_update_equation_is_another_one(variant, tracer):
    """What the variants change is large enough to be seen."""
    paths = {variant: tracer.cached(*USUAL, variant), "usual": tracer.cached(*USUAL)}
    found = compare("every_layer", paths)["frameworks"]["usual"]
    assert {"fp64 update", "adam update"} & set(found["beyond"])


SINGLE_BREAKS = {
    "epsilon of batch normalisation": (
        '(eps=layer["epsilon"])', '(eps=2 * layer["epsilon"])', "sgd32 forward",
    ),
    "padding that wins a maximum": (
        "        told = dict(pool=kind,",
        """        zeros = dict(
            num_output=layer["shape"][2], kernel_size=[1], pad=[pads[0]], bias_term=False,
            group=layer["shape"][2], weight_filler=dict(type="constant", value=1),
        )
        source = self.add(
            "Convolution", name + "/padded", [source], convolution_param=zeros,
            param=[dict(lr_mult=0)],
        )
        pads = 0, 0
        told = dict(pool=kind,""", "sgd32 forward",
    ),
    "ceiling whose extra row is at the top": (
        'before, out = layer["padding"][2 * axis]', 'before, out = layer["padding"][2 * axis + 1]',
        "sgd32 forward",
    ),
    "average that counts the padding": (
        "sides[0][:, None] * sides[1]", "np.ones(layer['shape'][:2])", "sgd32 forward",
    ),
    "weight decay that spares biases": (
        "own and kind not in self.spared", 'own and kind not in ["bias"]', "sgd32 gradients",
    ),
    "penalty that is forgotten": (
        "gradient += l1 * np.sign(array) + l2 * array", "gradient += 0", "sgd32 gradients",
    ),
    "Adam's own place for epsilon": (
        'asked["epsilon"] * root', 'asked["epsilon"]', "adam32 update",
    ),
    "momentum that scales with the rate": (
        """        self.solver.apply_update()
        #""", """        self.solver.param.base_lr = self.rate
        self.solver.apply_update()
        return
        #""", "sgd32 update",
    ),
    "biased running variance": ("self.count / (self.count - 1.0)", "1.0", "sgd32 statistics"),
    "momentum of the running statistics": (
        "np.float32(self.momentum) * blob", "np.float32(0.9) * blob", "sgd32 statistics",
    ),
}  # fmt: skip
"""The same breaks, for Caffe, whose proof is in single precision."""
BREAKS = {
    "epsilon of batch normalisation": (
        "pytorch", 'layer["epsilon"], 1 - layer', '2 * layer["epsilon"], 1 - layer',
        "fp64 forward",
    ),
    "padding that wins a maximum": ("tensorflow", "x.dtype.min", "0", "fp64 forward"),
    "ceiling whose extra row is at the top": (
        "tensorflow", "[top, bottom], [left, right]", "[bottom, top], [right, left]",
        "fp64 forward",
    ),
    "average that counts the padding": (
        "mxnet", "count_include_pad=False", "count_include_pad=True", "fp64 forward",
    ),
    "weight decay that spares biases": (
        "tensorflow", 'not in asked["spared"]:', 'not in ["bias"]:',
        "fp64 gradients",
    ),
    "penalty that is forgotten": (
        "pytorch", "array.grad.add_(array.sign(), alpha=l1)", "array.grad", "fp64 gradients",
    ),
    "Adam's own place for epsilon": (
        "tensorflow", 'self.optimizer["epsilon"] * root', 'self.optimizer["epsilon"]',
        "adam update",
    ),
    "momentum that scales with the rate": (
        "mxnet", 'asked["momentum"] * ratio', 'asked["momentum"]', "fp64 update",
    ),
    "biased running variance": (
        "mxnet", "return count / (count - 1.0)", "return 1.0", "fp64 statistics",
    ),
    "alpha that is divided twice": (
        "cntk", 'layer["k"], layer["alpha"],', 'layer["k"], layer["alpha"] / layer["size"],',
        "fp64 forward",
    ),
    "momentum of the running statistics": (
        "tensorflow", 'keep = 1 - layer["momentum"]', "keep = 0.1", "fp64 statistics",
    ),
    **{f"{name}, single precision": ("caffe", *told) for name, told in SINGLE_BREAKS.items()},
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_adapter_fails_its_certificate(case, tracer, planted):
    framework, old, new, beyond = BREAKS[case]
    scripts = planted(framework, old, new)
    variant = "rate rises and falls" if "rate" in case else "usual"
    mode = frameworks.modes(framework)[0]
    found = certificate(tracer, framework, mode, variant, scripts)
    assert beyond in found["beyond"], found
    trace, what = beyond.split()
    tolerance = found.get("tolerances", TOLERANCES)[trace][what]
    assert found["deviations"][trace][what] > 10 * tolerance


def test_a_trace_of_other_batches_is_refused(tracer, tmp_path):
    path = tracer.cached(*USUAL)
    arrays = dict(np.load(path))
    arrays["fp32/batches"] = arrays["fp32/batches"][:, ::-1]
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(InputError, match="other batches"):
        compare("x", {"a": path, "b": tmp_path / "other.npz"})


def test_what_a_framework_cannot_do_is_told_with_its_reason(tracer, tmp_path):
    path = tracer.cached(*USUAL)
    np.savez(tmp_path / "without.npz", unsupported="it has no such layer")
    found = compare("x", {"a": path, "b": tmp_path / "without.npz"})
    assert found["frameworks"]["b"]["unsupported"] == "it has no such layer"
    assert not found["frameworks"]["b"]["equal"]
