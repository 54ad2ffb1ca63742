"""A study that measures a framework in an environment of the user's own, beside the pinned one."""

import csv
import json

import pytest

from fixtures.interpreters import install, plant
from touchstone.environments import ensure
from workflow.project import ENVIRONMENTS, ROOT, Project

TABLES = {"gather": 1, "plot": 1, "report": 1}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A finished project, and the Python of the environment `mine`."""
    folder = tmp_path_factory.mktemp("own")
    python = plant(folder / "mine", beside=ensure(ROOT / "envs/pytorch.yaml", ENVIRONMENTS))
    install(python, "plain", "1.0")
    study = {
        "study": "own",
        "title": "PyTorch twice",
        "repeats": 1,
        "interleave": {"sets": 3, "rounds": 3, "slice_seconds": 0.05, "lead_seconds": 0.01},
        "environments": {"mine": {"framework": "pytorch", "python": str(python)}},
        "defaults": {
            "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
        },
        "sweeps": [
            {"framework": "pytorch", "environment": ["pinned", "mine"], "batch_size": 256},
        ],
    }  # fmt: skip
    project = Project(folder / "home", ENVIRONMENTS, study)
    before = sorted(python.parent.parent.rglob("*"))
    project.run()
    assert sorted(python.parent.parent.rglob("*")) == before
    return project, python


def test_its_runs_say_where_they_were_made(project):
    home = project[0].folder
    (run,) = home.glob("results/runs/pytorch-mine-*/rep1")
    env = json.loads((run / "env.json").read_text())
    told = env["software"]["environment"]
    assert told["name"] == "mine" and len(told["digest"]) == 12
    assert "plain==1.0" in env["software"]["packages"]
    record = json.loads((home / f"results/records/{run.parent.name}/rep1.json").read_text())
    assert record["status"] == "ok" and record["factors"]["environment"] == "mine"
    (pinned,) = home.glob("results/runs/pytorch-lenet5-*/rep1")
    other = json.loads((pinned / "env.json").read_text())["software"]
    assert other["environment"]["name"] == "pinned"
    assert other["environment"]["digest"] != told["digest"]
    assert "plain==1.0" not in other["packages"]


def test_it_is_compared_proved_and_reported_like_a_framework(project):
    results = project[0].folder / "results"
    with open(results / "tables/comparisons.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "throughput"]
    (row,) = rows
    assert (row["environment"], row["reference_environment"]) == ("mine", "pinned")
    assert row["basis"] == "turns"
    certificate = json.loads((results / "parity/lenet5.json").read_text())
    assert certificate["frameworks"]["pytorch@mine"]["equal"]
    flags = json.loads((results / "findings.json").read_text())["flags"]
    assert flags["parity_not_shown"] == 0
    assert "PyTorch (mine" in (results / "report/own/index.html").read_text()


def test_an_upgrade_there_repeats_its_cells_only(project):
    project, python = project
    assert project.jobs() == {}
    install(python, "plain", "2.0")
    assert project.jobs() == {
        "train": 1, "parse_run": 1, "interleave": 1, "parity_steps": 1, "certificate": 1, **TABLES,
    }  # fmt: skip
    install(python, "plain", "1.0")
    assert project.jobs() == {}


def test_a_module_that_is_gone_stops_the_study_before_any_run(project):
    project, python = project
    (site,) = python.parent.parent.glob("lib/*/site-packages")
    (site / "beside.pth").rename(site / "beside.gone")
    status, output = project.snakemake("--dry-run")
    (site / "beside.gone").rename(site / "beside.pth")
    assert status != 0 and f"`{python} -m pip install torch numpy lmdb`" in output
