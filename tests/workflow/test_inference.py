"""Training, then inference with its weights: what is run, and what is run again."""

import copy
import csv
import json
import re
import shutil

import pytest

from touchstone.measure.progress import short_names
from workflow.project import ENVIRONMENTS, Project

pytestmark = pytest.mark.long

STUDY = {
    "study": "predict",
    "title": "Training and inference",
    "repeats": 2,
    "parity": False,
    "defaults": {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
    },
    "sweeps": [
        {"framework": "pytorch", "batch_size": 128},
        {
            "framework": "pytorch", "workload": "inference", "batch_size": [100, 250],
            "trained_batch_size": 128, "inference_seconds": 0.5,
        },
    ],
}  # fmt: skip
TABLES = {"gather": 1, "plot": 1, "report": 1}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project") / "home", ENVIRONMENTS, STUDY)
    project.output = project.run()
    return project


@pytest.fixture
def study():
    return copy.deepcopy(STUDY)


def run_of(project, inference, rate="0.01", repeat=1):
    """The folder of a run, of the cell that predicts or of the one that trains."""
    runs = project.folder.glob(f"results/runs/*-lr{rate}-*/rep{repeat}")
    return next(path for path in runs if ("-inference-" in path.parent.name) == inference)


def outcome(folder):
    return json.loads((folder / "events.jsonl").read_text().splitlines()[-1])


def test_inference_follows_the_training_of_its_weights(finished):
    assert finished.jobs() == {}
    with open(finished.folder / "results/tables/measurements.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "test_accuracy"]
    accuracies = {(row["cell"], row["repeat"]): float(row["value"]) for row in rows}
    assert len(accuracies) == 6
    trained = run_of(finished, False).parent.name
    for (cell, repeat), accuracy in accuracies.items():
        assert accuracy == pytest.approx(accuracies[trained, repeat], abs=0.002), cell
    assert (
        '<h2 id="inference">' in (finished.folder / "results/report/predict/index.html").read_text()
    )


def test_the_terminal_has_the_throughput_of_the_records(finished):
    shown = re.findall(r"run \d of 6  (\S+) +rep(\d)  ok  ([0-9,.]+) images/s", finished.output)
    assert len(shown) == 6
    cells = {path.name for path in finished.folder.glob("results/records/*")}
    names = {short: cell for cell, short in short_names(cells).items()}
    for name, repeat, speed in shown:
        cell = names[name]
        path = finished.folder / f"results/records/{cell}/rep{repeat}.json"
        recorded = json.loads(path.read_text())["metrics"]["throughput"]["value"]
        assert float(speed.replace(",", "")) == pytest.approx(recorded, rel=0.01), cell


def test_another_batch_size_of_inference_trains_nothing(finished, study):
    study["sweeps"][1]["batch_size"] = [100, 200]
    finished.configure(study)
    assert finished.jobs() == {"plan": 1, "train": 2, "parse_run": 2, **TABLES}


def test_without_inference_nothing_is_trained_again(finished, study):
    del study["sweeps"][1]
    finished.configure(study)
    assert finished.jobs() == {"plan": 1, **TABLES}


def test_weights_that_are_trained_again_are_predicted_with_again(finished, study):
    finished.configure(study)
    events = run_of(finished, False, repeat=2) / "events.jsonl"
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
    assert outcome(run_of(finished, False, "1000000.0"))["status"] == "diverged"
    found = outcome(run_of(finished, True, "1000000.0"))
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
    assert outcome(run_of(finished, True))["status"] == "ok"
    assert finished.jobs() == {}
