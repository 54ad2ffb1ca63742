"""Training, then inference with its weights: what is run, and what is run again."""

import copy
import csv
import json
import shutil

import pytest

from workflow.project import ENVIRONMENTS, Project

STUDY = {
    "study": "predict",
    "title": "Training and inference",
    "repeats": 2,
    "parity": False,
    "defaults": {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
        "inference_seconds": 0.5,
    },
    "sweeps": [
        {"framework": "pytorch", "batch_size": 128},
        {
            "framework": "pytorch", "workload": "inference", "batch_size": [100, 250],
            "trained_batch_size": 128,
        },
    ],
}  # fmt: skip
TABLES = {"gather": 1, "plot": 1, "report": 1}
TRAINED = "pytorch-lenet5-mnist-5k-cpu-fp32-b128-lr0.01"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project") / "home", ENVIRONMENTS, STUDY)
    project.run()
    return project


@pytest.fixture
def study():
    return copy.deepcopy(STUDY)


def outcome(project, cell, repeat=1):
    path = next(project.folder.glob(f"results/runs/{cell}/rep{repeat}/events.jsonl"))
    return json.loads(path.read_text().splitlines()[-1])


def test_inference_follows_the_training_of_its_weights(finished):
    assert finished.jobs() == {}
    with open(finished.folder / "results/tables/measurements.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "test_accuracy"]
    accuracies = {(row["cell"], row["repeat"]): float(row["value"]) for row in rows}
    assert len(accuracies) == 6
    for (cell, repeat), accuracy in accuracies.items():
        assert accuracy == pytest.approx(accuracies[TRAINED, repeat], abs=0.002), cell
    assert '<h2 id="inference">' in (finished.folder / "results/report/index.html").read_text()


def test_another_batch_size_of_inference_trains_nothing(finished, study):
    study["sweeps"][1]["batch_size"] = [100, 200]
    finished.configure(study)
    assert finished.jobs() == {"plan": 1, "train": 2, "parse_run": 2, **TABLES}


def test_without_inference_nothing_is_trained_again(finished, study):
    del study["sweeps"][1]
    finished.configure(study)
    assert finished.jobs() == {"plan": 1, **TABLES}


def test_weights_that_are_trained_anew_are_predicted_with_anew(finished, study):
    finished.configure(study)
    events = finished.folder / f"results/runs/{TRAINED}/rep2/events.jsonl"
    kept = events.with_suffix(".kept")
    events.rename(kept)
    try:
        assert finished.jobs() == {"train": 3, "parse_run": 3, **TABLES}
    finally:
        kept.rename(events)


def test_a_training_that_failed_leaves_inference_unsupported(finished, study):
    study["defaults"]["learning_rate"] = 1.0e6
    study["repeats"] = 1
    study["sweeps"][1]["batch_size"] = 100
    finished.configure(study)
    finished.run()
    assert outcome(finished, f"{TRAINED.replace('0.01', '1000000.0')}")["status"] == "diverged"
    found = outcome(finished, "*-lr1000000.0-inference-*")
    assert found["status"] == "unsupported"
    assert "rep1 ended as diverged (the loss is" in found["reason"]


def test_inference_that_is_added_later_has_its_training_made_again_once(finished, study):
    shutil.rmtree(finished.folder / "results/runs")
    study["repeats"] = 1
    alone = {**study, "sweeps": study["sweeps"][:1]}
    finished.configure(alone)
    finished.run()
    assert not list(finished.folder.glob("results/runs/*/rep1/weights.npz"))
    study["sweeps"][1]["batch_size"] = 100
    finished.configure(study)
    assert finished.jobs() == {"plan": 1, "train": 2, "parse_run": 2, **TABLES}
    finished.run()
    assert outcome(finished, "*-inference-*")["status"] == "ok"
    assert finished.jobs() == {}
