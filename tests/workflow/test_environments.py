"""A study that measures a framework in an environment of the user's own and in a container, beside
the pinned one; a program stands in for Podman (`fixtures/engine.py`)."""

import csv
import json

import pytest

from fixtures.engines import plant as plant_engine
from fixtures.interpreters import install, plant
from touchstone.environments import ensure
from workflow.project import ENVIRONMENTS, IN_TURN, ROOT, Project

IMAGE = "registry.example/pytorch:26.01-py3"
TABLES = {"gather": 1, "plot": 1, "report": 1}
ONE_AGAIN = {
    "train": 1, "parse_run": 1, "interleave": 1, "parity_steps": 1, "certificate": 1, **TABLES,
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished project, the Python of the environment `mine`, and what plants an image with
    another id."""
    folder = tmp_path_factory.mktemp("own")
    pinned = ensure(ROOT / "envs/pytorch.yaml", ENVIRONMENTS)
    python, image = (plant(folder / name, beside=pinned) for name in ("mine", "image"))
    install(python, "plain", "1.0")

    def build(identity):
        return plant_engine(folder / "engines", "podman", {IMAGE: (identity, str(image))})

    study = {
        "study": "own",
        "title": "PyTorch three times",
        "repeats": 1,
        "interleave": IN_TURN,
        "environments": {
            "mine": {"framework": "pytorch", "python": str(python)},
            "ngc": {"framework": "pytorch", "container": IMAGE},
        },
        "defaults": {
            "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
        },
        "sweeps": [
            {
                "framework": "pytorch", "environment": ["pinned", "mine", "ngc"], "batch_size": 256,
            },
        ],
    }  # fmt: skip
    project = Project(folder / "home", ENVIRONMENTS, study)
    project.variables["PATH"] = f"{build('sha256:aa')}:{project.variables['PATH']}"
    before = sorted(python.parent.parent.rglob("*"))
    project.run()
    assert sorted(python.parent.parent.rglob("*")) == before
    return project, python, build


def test_its_runs_say_where_they_were_made(finished):
    home = finished[0].folder
    (run,) = home.glob("results/runs/pytorch-mine-*/rep1")
    env = json.loads((run / "env.json").read_text())
    own = env["software"]["environment"]
    assert own["name"] == "mine" and len(own["digest"]) == 12
    assert "plain==1.0" in env["software"]["packages"]
    record = json.loads((home / f"results/records/{run.parent.name}/rep1.json").read_text())
    assert record["status"] == "ok" and record["factors"]["environment"] == "mine"
    (pinned,) = home.glob("results/runs/pytorch-lenet5-*/rep1")
    other = json.loads((pinned / "env.json").read_text())["software"]
    assert other["environment"]["name"] == "pinned"
    assert other["environment"]["digest"] != own["digest"]
    assert "plain==1.0" not in other["packages"]


def test_the_run_in_a_container_is_ok_and_its_record_has_the_image(finished):
    (path,) = finished[0].folder.glob("results/records/pytorch-ngc-*/rep1.json")
    record = json.loads(path.read_text())
    assert record["status"] == "ok"
    assert record["provenance"]["software"]["environment"]["image"] == "sha256:aa"
    assert record["metrics"]["host_memory_peak"]["value"] > 50


def test_they_are_compared_proved_and_reported_like_frameworks(finished):
    results = finished[0].folder / "results"
    with open(results / "tables/comparisons.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "throughput"]
    assert {row["basis"] for row in rows} == {"turns"}
    pairs = {frozenset((row["environment"], row["reference_environment"])) for row in rows}
    assert {frozenset((name, "pinned")) for name in ("mine", "ngc")} <= pairs
    certificate = json.loads((results / "parity/lenet5.json").read_text())
    for name in "mine", "ngc":
        assert certificate["frameworks"][f"pytorch@{name}"]["equal"]
    flags = json.loads((results / "findings.json").read_text())["flags"]
    assert flags["parity_not_shown"] == 0
    assert "PyTorch (mine" in (results / "report/own/index.html").read_text()


def test_an_upgrade_there_repeats_its_cells_only(finished):
    project, python, _ = finished
    assert project.jobs() == {}
    install(python, "plain", "2.0")
    assert project.jobs() == ONE_AGAIN
    install(python, "plain", "1.0")
    assert project.jobs() == {}


def test_another_build_of_the_image_repeats_its_cells_only(finished):
    project, _, build = finished
    build("sha256:bb")
    assert project.jobs() == ONE_AGAIN
    build("sha256:aa")
    assert project.jobs() == {}


def test_a_module_that_is_gone_stops_the_study_before_any_run(finished):
    project, python, _ = finished
    (site,) = python.parent.parent.glob("lib/*/site-packages")
    (site / "beside.pth").rename(site / "beside.gone")
    status, output = project.snakemake("--dry-run")
    (site / "beside.gone").rename(site / "beside.pth")
    assert status != 0 and f"`{python} -m pip install torch numpy lmdb`" in output
