"""Each optimizer in each framework: its update is that of NumPy, and its settings are read back."""

import json

import numpy as np
import pytest

from fixtures.specs import FEW_STEPS
from fixtures.tiers import tiered
from touchstone import optimizers
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.parity import BATCH_SIZE, REFERENCE, steps_spec
from touchstone.runner.initial_weights import initial_weights
from touchstone.runner.parity import perturb_constant_arrays
from touchstone.schema.spec import PLAIN

TUNED_STACKS = [(framework, "tuned", None) for framework in frameworks.names()]
PLAIN_STACKS = [
    (framework, PLAIN, mode)
    for framework in frameworks.names()
    for mode in frameworks.modes(framework, PLAIN)
]
RATE, LARGE_RATE = 2.0**-32, 2.0**-4
"""At the first ten steps leave gradients as they are, and still show in double precision; one step
at the second shows in single precision."""


def small() -> Graph:
    """Two dense layers, of arrays that parity steps keep whole, without anything random."""
    graph = Graph("small", (4, 4, 3))
    x = graph.dense("d1", graph.flatten("f1", "input"), 12)
    graph.dense("logits", graph.relu("r1", x), 10)
    graph.check()
    return graph


def steps_of(trace_of, framework, single=False):
    """The spec and the arrays of some steps of every optimizer on one batch, by optimizer."""
    rate = LARGE_RATE if single else RATE
    mode = frameworks.modes(framework)[0]
    spec = steps_spec(small().network(), framework, mode, single, learning_rate=rate)
    steps = {
        one.optimizer.name: one._replace(steps=1 if single else 10)
        for name, one in spec.parity_steps.items()
        if one.perturbation is None and one.precision == ("fp32" if single else "fp64")
    }
    data = spec.data._replace(train_examples=BATCH_SIZE)
    spec = spec._replace(parity_steps=steps, data=data)
    found = {name: {} for name in steps}
    for key, array in np.load(trace_of(framework, spec)).items():
        name, what = key.split("/")
        found[name][what] = array
    assert set(found) == set(optimizers.equations())
    return spec, found


def moved_by_numpy(spec, gradient, name):
    """What the steps of an optimizer take off an array that has this gradient in each of them."""
    one = spec.parity_steps[name]
    own, equation = one.optimizer.settings, optimizers.load(name)
    states = [np.zeros_like(gradient) for _ in range(equation.states(own))]
    total = np.zeros_like(gradient)
    for step in range(1, one.steps + 1):
        corrections = equation.corrections(step, own)
        taken, states = equation.direction(gradient, states, corrections, own, np.sqrt)
        total += one.optimizer.learning_rate * taken
    return total


@pytest.mark.parametrize("framework", frameworks.names())
def test_every_update_is_that_of_numpy(framework, trace_of):
    """The gradient is the reference's, which its velocity shows after the first step of SGD."""
    single = frameworks.single_precision_only(framework)
    _, reference = steps_of(trace_of, REFERENCE)
    spec, found = steps_of(trace_of, framework, single)
    parameters = spec.network.parameters
    start = perturb_constant_arrays(initial_weights(parameters, spec.seed), parameters, spec.seed)
    for name in optimizers.equations():
        for parameter in parameters:
            gradient = reference["sgd"][f"gradient:{parameter.name}"].astype(np.float64)
            expected = moved_by_numpy(spec, gradient, name)
            moved = start[parameter.name].astype(np.float64) - found[name][
                f"weight:{parameter.name}"
            ].astype(np.float64)
            worst = np.abs(moved - expected).max() / np.abs(expected).max()
            print(framework, name, parameter.name, worst)
            assert worst < (1e-4 if single else 1e-5), (name, parameter.name)


def unusual(name):
    """Settings of a cell with that optimizer, none of them as usual."""
    own = {
        one.name: (not one.default) if isinstance(one.default, bool) else 0.8 * one.default
        for one in optimizers.own_settings(name)
    }
    return {"optimizer": name, "learning_rate": 0.001, **optimizers.usual(name), **own}


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("framework", "style", "mode", "name"),
    tiered(
        [(*stack, name) for stack in TUNED_STACKS + PLAIN_STACKS for name in optimizers.names()],
        lambda case: case[1] == "tuned" and case[3] == "rmsprop",
    ),
)
def test_its_settings_are_read_back(framework, style, mode, name, study):
    """A run whose framework shows others than those of the spec would fail."""
    asked = unusual(name)
    more = {"style": style, "mode": mode} if mode else {}
    events = events_of(study(framework, ".jsonl", **more, **asked, **FEW_STEPS))
    assert events[-1] == {"event": "result", "status": "ok", "reason": None}
    found = next(e for e in events if e["event"] == "settings")["effective"]
    assert found["optimizer"] == optimizers.equation(name)
    for own in optimizers.own_settings(name):
        assert found[own.name] == pytest.approx(asked[own.name], rel=1e-6)


OTHER = """
class Adapter(Adapter):
    def build(self, weights):
        own = dict(self.job.optimizer.settings, rho=0.5)
        self.optimizer = self.job.optimizer._replace(settings=own)
        self.job = self.job._replace(optimizer=self.optimizer)
        super().build(weights)
"""


@pytest.mark.parametrize("framework", frameworks.names())
def test_another_setting_than_the_asked_one_fails_the_run(framework, study, planted):
    scripts = planted(f"runner/adapters/{framework}/adapter", OTHER)
    ended, _ = study.launch(framework, ".jsonl", code=scripts, optimizer="rmsprop", **FEW_STEPS)
    assert ended.returncode != 0
    found = float(ended.stderr.partition("rho: asked 0.9, found ")[2].partition(";")[0].split()[0])
    assert found == pytest.approx(0.5, rel=1e-6)
