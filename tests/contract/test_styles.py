"""What a framework's tutorials show computes the same as all else, and does what is asked for."""

from functools import cache

import numpy as np
import pytest

from contract import test_modern, test_tasks, test_text
from contract.test_frameworks import events_of, losses_of, settings_of
from contract.test_parity import VARIANTS, every_layer, every_parameter
from fixtures.certificates import beyond, layers_alone
from fixtures.specs import EPOCH, FEW_STEPS
from fixtures.tiers import tiered
from touchstone.plan import frameworks
from touchstone.plan.parity import REFERENCE, SINGLE_STEPS, steps_spec
from touchstone.results.parity import compare
from touchstone.schema.spec import PLAIN

STYLED = [name for name in frameworks.names() if frameworks.modes(name, PLAIN)]
USUAL = [(name, frameworks.modes(name, PLAIN)[0]) for name in STYLED]
MODES = [(name, mode) for name in STYLED for mode in frameworks.modes(name, PLAIN)]
GRAPHS = (
    test_text.every_text_layer,
    test_modern.small_vit,
    test_modern.small_convnext,
    test_tasks.small_gpt,
    test_tasks.small_unet,
)
SINGLE = [("jax", "keras"), ("pytorch", "keras")]
"""Keras has no double precision there: it is compared as a framework without is."""
LOSS = 1e-3
"""Of the loss after ten steps."""


def cases(things, quick, others="long"):
    """A style's usual modes with each of the things, of which `make test` has `quick`: Keras's,
    which is one module for all of its backends, on PyTorch. The others have the mark `others`."""
    every = [(*case, one) for case in USUAL + SINGLE for one in things]
    return tiered(every, lambda c: c[2] is quick and c[:2] != ("tensorflow", "keras"), others)


@pytest.fixture(scope="module")
def tracer(root, trace_of):
    """Traces a graph in a framework and a style; `scripts` may be a folder of changed ones."""
    ours = root / "workflow/scripts"

    def run(framework, mode, graph, variant="usual", scripts=ours, single=False, **style):
        settings = {**VARIANTS[variant], **style}
        spec = steps_spec(graph().network(), framework, mode, single, **settings)
        if style and single:  # what the reference is given as well
            steps = {name: spec.parity_steps[name] for name in SINGLE_STEPS}
            spec = spec._replace(parity_steps=steps)
        elif not single and graph is not every_parameter:
            spec = layers_alone(spec)
        return trace_of(framework, spec, code=scripts)

    run.cached = cache(run)
    return run


def certificate(tracer, framework, mode, graph, variant="usual", **scripts):
    """What the certificate of a framework in the style `plain` has beyond its tolerances."""
    single = (framework, mode) in SINGLE
    trace = tracer(framework, mode, graph, variant, single=single, style=PLAIN, **scripts)
    usual = REFERENCE, frameworks.modes(REFERENCE)[0], graph, variant
    reference = tracer.cached(*usual, single=single)
    if not single and graph is not every_parameter:
        return beyond(trace, reference)
    paths = {"reference": reference, framework: trace}
    found = compare(graph.__name__, paths, reference)["frameworks"][framework]
    print(framework, mode, graph.__name__, variant, found)
    assert "unsupported" not in found
    return found["beyond"]


@pytest.mark.long
@pytest.mark.parametrize("framework, mode", MODES)
def test_every_layer_is_the_same_in_plain_code(framework, mode, tracer):
    assert certificate(tracer, framework, mode, every_layer) == []


@pytest.mark.parametrize(
    "framework, mode, graph", cases(GRAPHS, test_text.every_text_layer, others="release")
)
def test_a_small_form_is_the_same_in_plain_code(framework, mode, graph, tracer):
    assert certificate(tracer, framework, mode, graph) == []


@pytest.mark.parametrize("framework, mode, variant", cases(list(VARIANTS)[1:], list(VARIANTS)[3]))
def test_every_update_equation_is_the_same_in_plain_code(framework, mode, variant, tracer):
    found = certificate(tracer, framework, mode, every_parameter, variant)
    # MXNet's kernel of Nesterov's equation computes in single precision: 1e-7 in the velocities.
    assert [what for what in found if what != "fp64 gradients"] == []


BREAKS = {
    "pytorch": ("pytorch/plain", "fp64 update", "rate rises and falls", """
class Adapter(Adapter):
    def _update(self, rate):
        super()._update(self.job.optimizer.learning_rate)
"""),
    "tensorflow": ("keras/training", "fp64 statistics", "usual", """
def unbiased(start, now, *others):
    return now
"""),
    "mxnet": ("mxnet/plain", "fp64 gradients", "usual", """
class Adapter(Adapter):
    def _update(self, rate, count):
        self.penalised = []
        super()._update(rate, count)
"""),
    "jax": ("jax/plain_nnx", "fp64 gradients", "usual", """
class Adapter(Adapter):
    def _penalty(self, network):
        return 0.0
"""),
}  # fmt: skip
"""By framework: a module of the adapters, what of the proof is beyond its tolerance, the variant,
and lines at the end of the module (see `planted`)."""


@pytest.mark.parametrize("framework", STYLED)
def test_broken_plain_code_fails_its_certificate(framework, tracer, planted):
    module, far, variant, lines = BREAKS[framework]
    scripts = planted(f"runner/adapters/{module}", lines)
    mode = frameworks.modes(framework, PLAIN)[0]
    found = certificate(tracer, framework, mode, every_parameter, variant, scripts=scripts)
    assert far in found


@pytest.mark.parametrize("framework, mode", MODES)
def test_a_run_is_ok_and_its_settings_are_read_back(framework, mode, study):
    events = events_of(study(framework, ".jsonl", style=PLAIN, mode=mode, **EPOCH))
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    settings = settings_of(events)
    assert set(settings["effective"]) == set(settings["requested"])
    assert settings["effective"]["mode"] == mode
    evaluation = next(e for e in events if e["event"] == "evaluation")
    assert evaluation["correct"] / evaluation["examples"] > 0.5
    tuned = events_of(study(framework, ".jsonl", **EPOCH))
    first, other = (np.array(losses_of(each)[:10]) for each in (events, tuned))
    assert np.abs(first - other).max() <= LOSS


@pytest.mark.parametrize("framework", STYLED)
@pytest.mark.parametrize(
    "own",
    [
        {"optimizer": "adam", "learning_rate": 0.001, "weight_decay_form": "decoupled"},
        pytest.param(
            {"nesterov": True, "weight_decay_on": "weights", "schedule": "cosine"},
            marks=pytest.mark.long,
        ),
    ],
)
def test_settings_of_other_update_equations_are_read_back(framework, own, study):
    mode = frameworks.modes(framework, PLAIN)[0]
    events = events_of(study(framework, ".jsonl", style=PLAIN, mode=mode, **own, **FEW_STEPS))
    assert events[-1]["status"] == "ok"


@pytest.mark.parametrize("framework", STYLED)
def test_products_in_bf16_are_seen(framework, study):
    mode = frameworks.modes(framework, PLAIN)[0]
    events = events_of(
        study(framework, ".jsonl", style=PLAIN, mode=mode, precision="bf16", **FEW_STEPS)
    )
    if events[-1]["status"] == "unsupported":
        assert "bf16" in events[-1]["reason"]
        return
    assert settings_of(events)["effective"]["precision"] == "bf16"


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_pytorch_without_keras_says_what_to_name(study, python_of):
    """Its own environment has none, in which the run is started as if it were named."""
    settings = {"style": PLAIN, "mode": "keras", "place": "pytorch", **FEW_STEPS}
    events = events_of(study("pytorch", ".jsonl", **settings))
    assert events[-1]["status"] == "unsupported"
    assert "envs/pytorch-keras.yaml" in events[-1]["reason"]
