"""A study that measures frameworks in environments of the user's own and in containers, and one of
them in the pinned environment too; a program replaces Podman (`fixtures/engine.py`)."""

import csv
import json

import pytest

from fixtures.engines import plant as plant_engine
from fixtures.interpreters import install, plant
from touchstone.environments import ensure
from workflow.project import ENVIRONMENTS, IN_TURN, OPERATION, ROOT, Project

pytestmark = pytest.mark.long

IMAGE, TRAINING_IMAGE = "registry.example/scipy:26.01-py3", "registry.example/mxnet:26.01-py3"
TABLES = {"gather": 1, "plot": 1, "report": 1}
TWO_AGAIN = {
    "train": 2, "parse_run": 2, "interleave": 1, "parity_steps": 1, "certificate": 1, **TABLES,
}  # fmt: skip
"""One that takes turns, and one that trains."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished project, the Pythons of its own environments by name, and what plants its images
    with these ids.

    SciPy starts soonest, so it is what takes turns; the others train, each in a batch size of its
    own, so that nothing is compared with them.
    """
    folder = tmp_path_factory.mktemp("own")
    scipy, mxnet, pytorch = (
        ensure(ROOT / f"envs/{name}.yaml", ENVIRONMENTS) for name in ("scipy", "mxnet", "pytorch")
    )
    pythons = {
        name: plant(folder / name, beside=pinned)
        for name, pinned in (
            ("mine", scipy), ("image", scipy), ("nightly", pytorch), ("other-image", mxnet),
        )
    }  # fmt: skip
    for name in ("mine", "nightly"):
        install(pythons[name], "plain", "1.0")

    def build(identity, of_training):
        images = {
            IMAGE: (identity, str(pythons["image"])),
            TRAINING_IMAGE: (of_training, str(pythons["other-image"])),
        }
        return plant_engine(folder / "engines", "podman", images)

    usual = {
        "network": "lenet5", "dataset": "mnist-5k", "epochs": 1, "warmup_seconds": 0.0,
    }  # fmt: skip
    study = {
        "study": "own",
        "title": "SciPy three times, and two that train",
        "repeats": 1,
        "interleave": IN_TURN,
        "environments": {
            "mine": {"framework": "scipy", "python": str(pythons["mine"])},
            "ngc": {"framework": "scipy", "container": IMAGE},
            "nightly": {"framework": "pytorch", "python": str(pythons["nightly"])},
            "shipped": {"framework": "mxnet", "container": TRAINING_IMAGE},
        },
        "sweeps": [
            {
                **OPERATION, "framework": "scipy", "environment": ["pinned", "mine", "ngc"],
            },
            {**usual, "framework": "pytorch", "environment": "nightly", "batch_size": 256},
            {**usual, "framework": "mxnet", "environment": "shipped", "batch_size": 128},
        ],
    }  # fmt: skip
    project = Project(folder / "home", ENVIRONMENTS, study)
    project.variables["PATH"] = f"{build('sha256:aa', 'sha256:cc')}:{project.variables['PATH']}"
    own = [pythons[name].parent.parent for name in ("mine", "nightly")]
    before = sorted(path for each in own for path in each.rglob("*"))
    project.run()
    assert sorted(path for each in own for path in each.rglob("*")) == before
    return project, pythons, build


def record_of(project, cell):
    """The record of the first run of a cell, whose name begins so."""
    (path,) = project.folder.glob(f"results/records/{cell}*/rep1.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "own"), [("mine", "scipy-mine-"), ("nightly", "pytorch-nightly-")]
)
def test_its_runs_say_where_they_were_made(finished, name, own):
    (mine,), (pinned,) = (
        [
            json.loads(path.read_text())["software"]
            for path in finished[0].folder.glob(f"results/runs/{cell}*/rep1/env.json")
        ]
        for cell in (own, "scipy-sparse_gemm-")
    )
    assert mine["environment"]["name"] == name and len(mine["environment"]["digest"]) == 12
    assert "plain==1.0" in mine["packages"]
    record = record_of(finished[0], own)
    assert record["status"] == "ok" and record["factors"]["environment"] == name
    assert pinned["environment"]["name"] == "pinned"
    assert pinned["environment"]["digest"] != mine["environment"]["digest"]
    assert "plain==1.0" not in pinned["packages"]


@pytest.mark.parametrize(
    ("cell", "identity"), [("scipy-ngc-", "sha256:aa"), ("mxnet-shipped-", "sha256:cc")]
)
def test_the_run_in_a_container_is_ok_and_its_record_has_the_image(finished, cell, identity):
    record = record_of(finished[0], cell)
    assert record["status"] == "ok"
    assert record["provenance"]["software"]["environment"]["image"] == identity
    assert record["metrics"]["host_memory_peak"]["value"] > 20


def test_they_are_compared_proved_and_reported_like_frameworks(finished):
    results = finished[0].folder / "results"
    with open(results / "tables/comparisons.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = [row for row in rows if row["metric"] == "step_rate"]
    assert {row["basis"] for row in rows} == {"turns"}
    pairs = {frozenset((row["environment"], row["reference_environment"])) for row in rows}
    assert {frozenset((name, "pinned")) for name in ("mine", "ngc")} <= pairs
    certificate = json.loads((results / "parity/lenet5.json").read_text())
    for name in "pytorch@nightly", "mxnet@shipped":
        assert certificate["frameworks"][name]["equal"]
    flags = json.loads((results / "findings.json").read_text())["flags"]
    assert flags["parity_not_shown"] == 0
    page = (results / "report/own/index.html").read_text()
    assert "SciPy (mine" in page and "PyTorch (nightly" in page


def test_an_upgrade_there_repeats_its_cells_only(finished):
    project, pythons, _ = finished
    assert project.jobs() == {}
    for name in ("mine", "nightly"):
        install(pythons[name], "plain", "2.0")
    assert project.jobs() == TWO_AGAIN
    for name in ("mine", "nightly"):
        install(pythons[name], "plain", "1.0")


def test_another_build_of_an_image_repeats_its_cells_only(finished):
    project, _, build = finished
    build("sha256:bb", "sha256:dd")
    assert project.jobs() == TWO_AGAIN
    build("sha256:aa", "sha256:cc")
    assert project.jobs() == {}


def test_a_module_that_is_gone_stops_the_study_before_any_run(finished):
    project, pythons, _ = finished
    python = pythons["nightly"]
    (site,) = python.parent.parent.glob("lib/*/site-packages")
    (site / "beside.pth").rename(site / "beside.gone")
    status, output = project.snakemake("--dry-run")
    (site / "beside.gone").rename(site / "beside.pth")
    assert status != 0 and f"`{python} -m pip install torch numpy lmdb`" in output
