"""Every precision in every framework: it trains, shows its arithmetic, or says why it cannot."""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from contract.test_modern import small_convnext, small_vit
from contract.test_parity import every_layer
from contract.test_text import every_text_layer
from fixtures.specs import EPOCH, FEW_STEPS
from fixtures.tiers import tiered
from touchstone.plan import frameworks
from touchstone.plan.parity import steps_spec

GPUS_ALONE = "TF32 is arithmetic of NVIDIA's GPUs, which no CPU has"
SINGLE = "Caffe's Python interface has single precision only"
WHY = {
    ("pytorch", "tf32"): GPUS_ALONE,
    ("tensorflow", "tf32"): GPUS_ALONE,
    ("jax", "tf32"): GPUS_ALONE,
    ("jax", "fp16-amp"): "JAX has no loss scaling of its own, which fp16 needs",
    ("mxnet", "tf32"): GPUS_ALONE,
    ("mxnet", "fp16-amp"): "MXNet has mixed precision in fp16 on GPUs only, for which it has no"
    " build here",
    **{("cntk", p): f"CNTK has only fp32 and fp64 on CPUs, not {p}"
       for p in ("tf32", "bf16", "fp16-amp")},
    **{("caffe", p): SINGLE for p in ("fp64", "tf32", "bf16", "fp16-amp")},
}  # fmt: skip
"""Why a framework cannot compute in a precision on a CPU."""
if " avx512bw " not in Path("/proc/cpuinfo").read_text():
    WHY["mxnet", "bf16"] = "MXNet has bf16 only on processors with AVX-512"
PRECISIONS = ("fp64", "tf32", "bf16", "fp16-amp")
CASES = [(name, precision) for name in frameworks.names() for precision in PRECISIONS]
TRIED = tiered(CASES, lambda case: case[1] == "bf16")
MIXED = [case for case in CASES if case[1] in ("bf16", "fp16-amp") and case not in WHY]
MODES = [
    pytest.param(name, mode, precision, marks=[pytest.mark.long] if number else [])
    for name, precision in MIXED
    for number, mode in enumerate(frameworks.modes(name))
    # Minutes of g++ for a network of every layer.
    if (name, mode) != ("pytorch", "compile")
]
"""`make test` tries the usual mode of a framework."""
LOSSES = {"fp64": 1e-5, "bf16": 0.02, "fp16-amp": 0.02}
"""How far the losses of the first 20 steps may be from those in fp32, relative to the first. With
loss scaling it is the first only: steps are left out until the scale is found."""
LAST = 0.02
"""How far the mean of the last 20 losses of an epoch may be, likewise."""
FORWARD = 0.1
"""Of logits with bf16's 8 bits through some ten layers, relative to the largest."""


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(events):
    return np.array([x for e in events if e["event"] == "chunk" for x in e["losses"]])


@pytest.fixture(scope="module")
def trained(study):
    """The events of an epoch in a precision; each is trained once."""

    @cache
    def train(framework, precision):
        return events_of(study(framework, ".jsonl", precision=precision, **EPOCH))

    return train


@pytest.mark.parametrize(("framework", "precision"), TRIED)
def test_a_precision_trains_or_says_why_it_cannot(framework, precision, trained):
    events = trained(framework, precision)
    reason = WHY.get((framework, precision))
    assert events[-1] == {
        "event": "result", "status": "unsupported" if reason else "ok", "reason": reason
    }  # fmt: skip
    if reason:
        return
    effective = next(e for e in events if e["event"] == "settings")["effective"]
    assert effective["precision"] == precision
    assert effective["arithmetic"] == precision.replace("-amp", "")
    single = losses_of(trained(framework, "fp32"))
    apart = np.abs(losses_of(events) - single) / single[0]
    compared = slice(1 if precision == "fp16-amp" else 20)
    assert apart[compared].max() <= LOSSES[precision]
    assert apart[compared].max() > 0 or precision == "fp64"
    last = [losses[-20:].mean() for losses in (losses_of(events), single)]
    assert abs(last[0] - last[1]) <= LAST * single[0]
    evaluation = next(e for e in events if e["event"] == "evaluation")
    assert evaluation["correct"] / evaluation["examples"] > 0.5


@pytest.fixture
def traced(trace_of):
    """What two steps of a network did in fp32, and in another precision."""

    def traces(graph, framework, mode, precision):
        found = []
        for name in ("fp32", precision):
            spec = steps_spec(graph.network(), framework, mode)
            one = spec.parity_steps["fp32"]._replace(precision=name, steps=2)
            path = trace_of(framework, spec._replace(parity_steps={"one": one}))
            found.append({key.split("/")[1]: a for key, a in np.load(path).items()})
        return found

    return traces


@pytest.mark.parametrize(("framework", "mode", "precision"), MODES)
def test_every_layer_is_there_in_mixed_precision(framework, mode, precision, traced):
    compare(*traced(every_layer(), framework, mode, precision), precision)


@pytest.mark.long
@pytest.mark.parametrize("graph", [every_text_layer, small_vit, small_convnext])
@pytest.mark.parametrize(("framework", "precision"), MIXED)
def test_every_other_layer_is_there_in_mixed_precision(framework, precision, graph, traced):
    mode = frameworks.modes(framework)[0]
    compare(*traced(graph(), framework, mode, precision), precision)


def compare(single, mixed, precision):
    """The mixed precision is near single precision, and other than it; its weights are single."""
    before = np.abs(mixed["before"] - single["before"]).max() / np.abs(single["before"]).max()
    losses = np.abs(mixed["losses"] / single["losses"] - 1).max()
    print(precision, before, losses)
    assert 0 < before <= FORWARD
    assert losses <= FORWARD
    weights = [name for name in single if name.startswith("weight:")]
    assert weights and all(mixed[name].dtype == np.float32 for name in weights)
    # The masters take steps that bf16 could not tell from none; loss scaling begins with none.
    moved = [mixed[f"moved:{w.split(':')[1]}"] for w in weights if w.endswith(".scale")]
    assert precision == "fp16-amp" or all(step > 0 for step in moved)


PLANTED = {
    "PyTorch without autocast": ("pytorch", "precision: asked 'bf16', found 'fp32'", """
    def _autocast(self):
        return contextlib.nullcontext()
"""),
    "PyTorch's products only": ("pytorch", "precision: asked 'bf16', found 'fp32'", """
    def _loss(self, images, labels):
        logits = self.trained(images)
        return nn.functional.cross_entropy(logits, labels), logits.detach()
"""),
    "TensorFlow in single precision": (
        "tensorflow", "arithmetic: asked 'bf16', found 'fp32'", """
    def __init__(self, spec, threads):
        super().__init__(spec, threads)
        self.computed = tf.float32
"""),
    "JAX in single precision": ("jax", "arithmetic: asked 'bf16', found 'fp32'", """
    def __init__(self, spec, threads):
        super().__init__(spec, threads)
        self.computed = self.dtype
"""),
}  # fmt: skip
"""By name: framework, what the run must say, and methods that the adapter has in the place of its
own."""


@pytest.mark.parametrize("framework, case", [(one[0], case) for case, one in PLANTED.items()])
def test_a_framework_that_computes_in_fp32_instead_fails_the_run(framework, case, study, planted):
    _, message, methods = PLANTED[case]
    lines = f"class Adapter(Adapter):{methods}"
    scripts = planted(f"runner/adapters/{framework}/adapter", lines)
    ended, _ = study.launch(framework, ".jsonl", code=scripts, precision="bf16", **FEW_STEPS)
    assert ended.returncode
    assert re.search(message, ended.stderr.splitlines()[-1])
