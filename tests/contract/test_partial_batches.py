"""Partial batches at the end of an epoch; tests/contract/test_truth.py compares them with NumPy."""

import json

import pytest

from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec

FRAMEWORKS = frameworks.names()
KEPT = {"batch_size": 300, "last_batch": "keep", "epochs": 2, "warmup_seconds": 0.0}
LOSS = 1e-3
"""Relative, in single precision, after six steps of Adam."""


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(path):
    chunks = [event for event in events_of(path) if event["event"] == "chunk"]
    return [loss for event in chunks for loss in event["losses"]]


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "pytorch"])
def test_partial_batches_are_the_same_in_every_framework(framework, study):
    """With another optimizer, augmentation and examples that are noise."""
    settings = {**KEPT, "optimizer": "adam", "input": "synthetic", "crop_padding": 2}
    found, expected = (
        losses_of(study(name, ".jsonl", data=study.few(name), **settings))
        for name in (framework, "pytorch")
    )
    assert len(expected) == 6 and found == pytest.approx(expected, rel=LOSS)


@pytest.mark.long
@pytest.mark.parametrize("framework", [n for n in FRAMEWORKS if frameworks.replicas(n)[0]])
def test_replicas_share_a_partial_batch(framework, study):
    few = study.few(framework)
    single, split = (
        study(framework, ".jsonl", data=few, replicas=count, **KEPT) for count in (1, 2)
    )
    assert losses_of(split) == pytest.approx(losses_of(single), rel=LOSS)
    (settings,) = (e for e in events_of(split) if e["event"] == "settings")
    assert settings["effective"]["batch_size"] == 40
    assert settings["effective"]["replicas"] == 2


@pytest.mark.parametrize(
    ("framework", "settings"),
    [
        ("pytorch", {"mode": "compile"}),
        ("tensorflow", {"mode": "xla"}),
        ("mxnet", {"network": "resnet20-cifar"}),
        ("cntk", {"network": "resnet20-cifar"}),
        ("caffe", {"network": "lstm-text", "dataset": "synthetic-text"}),
    ],
)
def test_what_cannot_take_two_batch_sizes_says_why(framework, settings, once, root):
    usual = {
        "mode": frameworks.modes(framework)[0],
        "network": "lenet5",
        "dataset": "synthetic",
        "input": "synthetic",
    }
    spec = make_spec(Cell(framework=framework, **{**usual, **KEPT, **settings}), 1, root)
    ended, path = once(framework, spec, ".jsonl")
    assert ended.returncode == 0, ended.stderr[-3000:]
    result = events_of(path)[-1]
    assert result["status"] == "unsupported", result
    assert "batch" in result["reason"]
