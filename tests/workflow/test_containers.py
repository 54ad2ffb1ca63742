"""A study that measures a framework in a container, beside the pinned one; a program stands in for
Podman (`fixtures/engine.py`)."""

import csv
import json

import pytest

from fixtures.engines import plant
from fixtures.interpreters import plant as plant_python
from touchstone.environments import ensure
from workflow.project import ENVIRONMENTS, ROOT, Project

IMAGE = "registry.example/pytorch:26.01-py3"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A finished project, and what plants the image with another id."""
    folder = tmp_path_factory.mktemp("container")
    python = plant_python(folder / "image", beside=ensure(ROOT / "envs/pytorch.yaml", ENVIRONMENTS))

    def build(identity):
        return plant(folder / "engines", "podman", {IMAGE: (identity, str(python))})

    study = {
        "study": "own",
        "title": "PyTorch twice",
        "repeats": 1,
        "interleave": {"sets": 3, "rounds": 3, "slice_seconds": 0.05, "lead_seconds": 0.01},
        "environments": {"ngc": {"framework": "pytorch", "container": IMAGE}},
        "defaults": {
            "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
        },
        "sweeps": [{"framework": "pytorch", "environment": ["pinned", "ngc"], "batch_size": 256}],
    }  # fmt: skip
    project = Project(folder / "home", ENVIRONMENTS, study)
    project.variables["PATH"] = f"{build('sha256:aa')}:{project.variables['PATH']}"
    project.run()
    return project, build


def test_its_run_is_ok_and_the_record_has_the_image(project):
    home = project[0].folder
    (path,) = home.glob("results/records/pytorch-ngc-*/rep1.json")
    record = json.loads(path.read_text())
    assert record["status"] == "ok"
    assert record["provenance"]["software"]["environment"]["image"] == "sha256:aa"
    assert record["metrics"]["host_memory_peak"]["value"] > 50


def test_it_is_compared_in_turn_and_proved(project):
    results = project[0].folder / "results"
    with open(results / "tables/comparisons.csv", newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["metric"] == "throughput"]
    assert (row["environment"], row["basis"]) == ("ngc", "turns")
    certificate = json.loads((results / "parity/lenet5.json").read_text())
    assert certificate["frameworks"]["pytorch@ngc"]["equal"]


def test_another_build_of_the_image_repeats_its_cells_only(project):
    project, build = project
    assert project.jobs() == {}
    build("sha256:bb")
    assert project.jobs()["train"] == 1
    build("sha256:aa")
    assert project.jobs() == {}
