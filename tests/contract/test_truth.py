"""The losses of a run against a second computation that imports nothing of the project."""

import json

import numpy as np
import pytest

from touchstone.plan import frameworks
from truth import training

FRAMEWORKS = frameworks.names()
STEPS = 10
RECORDS = "recordio"
LOSS = 1e-4
"""Relative, in single precision: a value within rounding of 0 before a ReLU may go either way."""
KNOWN: dict[str, list[float]] = {}
"""Losses by the part of a spec that they depend on, for all tests of a process."""


@pytest.fixture(scope="module")
def digits(study):
    """Pixels and labels of the training set, from its record file."""
    stem = study.folder / f"results/data/mnist-5k/{RECORDS}/train"
    if not stem.with_suffix(".rec").exists():
        pytest.skip("no framework that is asked for reads RecordIO")
    return training.read_recordio(stem, 4000)


@pytest.fixture
def losses_of(digits):
    """The losses of the first steps of a spec, in NumPy; those of equal specs are computed once."""

    def compute(spec, steps):
        key = json.dumps(
            [steps, spec["factors"]["batch_size"], spec["phases"]["last_batch"]]
            + [spec[name] for name in ("seed", "network", "optimizer", "schedule", "augmentation")]
            + [spec["data"][name] for name in ("mean", "std", "pixel_maximum", "train_examples")]
        )
        if key not in KNOWN:
            KNOWN[key] = training.losses(spec, *digits, steps)
        return KNOWN[key]

    return compute


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_losses_of_lenet5_are_those_of_numpy(framework, study, losses_of):
    """Its spec, the weights, the order of the examples, every layer, the gradients, the update."""
    path = study(framework, ".jsonl", epochs=2, warmup_seconds=0.0)
    spec = json.loads(path.with_suffix(".json").read_text())
    events = [json.loads(line) for line in path.read_text().splitlines()]
    found = [loss for event in events if event["event"] == "chunk" for loss in event["losses"]]
    expected = losses_of(spec, STEPS)
    assert expected[0] > 2.2 and expected[-1] < expected[0]  # it learns
    assert found[:STEPS] == pytest.approx(expected, rel=LOSS)


@pytest.mark.shared
@pytest.mark.parametrize("source", ["memory", pytest.param("records", marks=pytest.mark.long)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_partial_batch_is_trained_on_as_numpy_does(framework, source, study, losses_of):
    """Epochs of 640 examples in batches of 300: every third step has 40 of them."""
    path = study(
        framework, ".jsonl", batch_size=300, last_batch="keep", epochs=3, warmup_seconds=0.0,
        input=source, reader_threads=1 if source == "memory" else 2, data=study.few(framework),
    )  # fmt: skip
    spec = json.loads(path.with_suffix(".json").read_text())
    events = [json.loads(line) for line in path.read_text().splitlines()]
    found = [loss for event in events if event["event"] == "chunk" for loss in event["losses"]]
    assert found == pytest.approx(losses_of(spec, 9), rel=LOSS)
    measured = next(e for e in events if e.get("name") == "measured")
    assert measured["steps"] == 4 and measured["examples"] == 680
    (settings,) = (e for e in events if e["event"] == "settings")
    assert settings["effective"]["batch_size"] == 40


@pytest.mark.framework("pytorch")
def test_another_spec_would_be_noticed(study, digits):
    path = study("pytorch", ".jsonl", epochs=2, warmup_seconds=0.0)
    text = path.with_suffix(".json").read_text()
    usual = training.losses(json.loads(text), *digits, 3)
    for *parts, name, value in (
        ("optimizer", "settings", "momentum", 0.8),
        ("optimizer", "weight_decay", 1.0),
        ("data", "mean", [0.14]),
        ("seed", 2027),
    ):
        spec = changed = json.loads(text)
        for part in parts:
            changed = changed[part]
        changed[name] = value
        found = training.losses(spec, *digits, 3)
        assert not np.allclose(found, usual, rtol=LOSS), name


def test_gradients_are_the_slopes_of_the_loss():
    """Of a small network with every layer, against differences of the loss."""
    random = np.random.RandomState(1)
    layers = [
        {"name": "a", "op": "conv", "padding": [1, 0, 2, 1]},
        {"name": "b", "op": "relu"},
        {"name": "c", "op": "max_pool"},
        {"name": "d", "op": "flatten"},
        {"name": "e", "op": "dense"},
    ]
    weights = {
        "a.weight": random.standard_normal((3, 2, 3, 2)),
        "a.bias": random.standard_normal(3),
        "e.weight": random.standard_normal((4, 3 * 4 * 4)),
        "e.bias": random.standard_normal(4),
    }
    net = training.Layers(layers, weights)
    x, slope = random.standard_normal((5, 2, 7, 8)), random.standard_normal((5, 4))
    assert net.forward(x).shape == (5, 4)
    found = net.backward(slope)
    for name, weight in weights.items():
        place = tuple(random.randint(0, side) for side in weight.shape)
        ends = []
        for sign in (1, -1):
            weight[place] += sign * 1e-6
            ends.append((net.forward(x) * slope).sum())
            weight[place] -= sign * 1e-6
        assert found[name][place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
