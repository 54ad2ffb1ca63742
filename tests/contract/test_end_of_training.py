"""What a run does with its network at its end: training accuracy, and the weights that it keeps."""

import json

import numpy as np
import pytest

from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec

pytestmark = pytest.mark.long

FRAMEWORKS = frameworks.names()
EPOCHS = 3


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(events):
    return [loss for event in events if event["event"] == "chunk" for loss in event["losses"]]


@pytest.mark.parametrize("source", ["memory", pytest.param("records", marks=pytest.mark.long)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_training_accuracy_is_that_of_all_frameworks(framework, source, study):
    settings = {"epochs": EPOCHS, "warmup_seconds": 0.0, "batch_size": 60, "input": source}
    found = []
    for name in dict.fromkeys((framework, FRAMEWORKS[0])):
        data = study.few(name)
        path = study(name, ".jsonl", data=data, training_accuracy=True, **settings)
        (fit,) = [event for event in events_of(path) if event["event"] == "fit"]
        assert fit["examples"] == data["train_examples"]
        assert fit["correct"] / fit["examples"] > 0.5  # it has learned, of 10 classes
        found.append((fit["correct"], fit["loss"]))
    assert found[0][0] == pytest.approx(found[-1][0], abs=3)
    assert found[0][1] == pytest.approx(found[-1][1], rel=1e-3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_keeping_the_best_weights_changes_no_loss(framework, study, once, root, tmp_path):
    """At a rate at which the last evaluation need not be the best."""
    cell = Cell(
        framework=framework, network="lenet5", dataset="mnist-5k", epochs=6, evaluate_every=1,
        warmup_seconds=0.0, learning_rate=0.1, kept_weights="best",
        mode=frameworks.modes(framework)[0],
    )  # fmt: skip
    spec = make_spec(cell, 1, root)
    spec = spec._replace(data=spec.data._replace(**study.few(framework)))
    kept = spec._replace(keep_weights=str(tmp_path / "weights.npz"))
    runs = []
    for one in (spec, kept):
        ended, path = once(framework, one, ".jsonl", cwd=study.folder)
        assert ended.returncode == 0, ended.stderr[-3000:]
        runs.append(events_of(path))
    assert losses_of(runs[0]) == pytest.approx(losses_of(runs[1]), rel=1e-3)
    arrays = np.load(tmp_path / "weights.npz")
    names = {parameter.name for parameter in spec.network.parameters}
    assert set(arrays.files) == {"logits", *names}
    found = [event["correct"] for event in runs[1] if event["event"] == "evaluation"]
    # The outputs that were kept with them are those of the epoch with the best accuracy.
    labels = labels_of(study)[: len(arrays["logits"])]
    right = (arrays["logits"].argmax(1) == labels).mean()
    assert len(found) == cell.epochs and right == pytest.approx(max(found) / 128, abs=0.1)


def labels_of(study):
    """The labels of the few test examples, from their records."""
    from touchstone.datasets import formats

    kind = next(iter({frameworks.record_format(name) for name in FRAMEWORKS}))
    folder = study.folder / f"results/data/few/{kind}/test"
    return np.array([label for label, _ in formats.load(kind).read(folder, [28, 28, 1])])
