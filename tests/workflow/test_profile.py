"""A study with `profile` has a profile of each cell that trains, after its first run."""

import csv
import json

import pytest

from workflow.project import ENVIRONMENTS, Project

pytestmark = pytest.mark.long
STUDY = {
    "study": "layers",
    "title": "Layers",
    "repeats": 1,
    "parity": False,
    "profile": True,
    "defaults": {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
        "input": "synthetic", "threads": 1,
    },
    # Which mode a run chose is known after it.
    "sweeps": [{"framework": "mxnet", "mode": ["best", "static", "imperative"]}],
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("project") / "home", ENVIRONMENTS, STUDY)
    # How exact the times are is the subject of tests/contract/test_profile.py.
    made.change("runner/profile", ROUNDS=1, CHUNK_SECONDS=0.0, WARMUP_SECONDS=0.0)
    made.change("measure/trials", WARMUP_SECONDS=0.0, MEASURED_SECONDS=0.2)
    made.run()
    return made


def test_each_cell_has_its_layers_in_the_table_and_on_the_page(project):
    results = project.folder / "results"
    found = {path.stem: json.loads(path.read_text()) for path in results.glob("profiles/*.json")}
    modes = {
        name: json.loads((results / f"runs/{name}/rep1/spec.json").read_text())["execution"]["mode"]
        for name in found
    }
    assert len(found) == 3 and {"static", "imperative"} <= {*modes.values()}
    for name, mode in modes.items():
        if mode == "imperative":
            assert found[name]["status"] == "unsupported" and "as one task" in found[name]["reason"]
        else:
            assert (found[name]["status"], found[name]["reason"]) == ("ok", None)
    with open(results / "tables/profile.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["mode"] == "static"]
    assert [row["layer"] for row in own if float(row["total_s"]) > 0][0] == "conv1"
    assert sum(float(row["share"]) for row in own) == pytest.approx(1)
    page = (results / "report/layers/index.html").read_text()
    assert "Time of each layer" in page and "times a step without the profiler" in page
    assert (results / "figures/profile.svg").exists()


def test_no_run_knows_of_its_profile(project):
    assert project.jobs() == {}
    project.configure({**STUDY, "profile": False})
    assert not {"train", "profile"} & set(project.jobs())
    project.configure(STUDY)
