"""`snakemake bundle`, `snakemake merge` and `compare_with`, with real runs."""

import csv
import json
import shutil
import zipfile

import pytest

from touchstone.measure import attempts, skip
from workflow.project import ENVIRONMENTS, Project

pytestmark = pytest.mark.long

STUDY = {
    "study": "machines",
    "title": "A small study",
    "repeats": 2,
    "parity": False,
    "defaults": {
        "network": "lenet5",
        "dataset": "mnist-5k",
        "epochs": 1,
        "batch_size": 128,
        "warmup_seconds": 0.0,
    },
    "sweeps": [{"framework": "mxnet"}],
}


@pytest.fixture(scope="module")
def project(tmp_path_factory, python_of):
    """A project with its results, and beside it the bundle of an earlier sitting, `one.zip`."""
    python_of("mxnet")
    folder = tmp_path_factory.mktemp("machines")
    project = Project(folder / "project", ENVIRONMENTS, STUDY)
    output = project.run("bundle", "--config", "machine=number one")
    assert "The bundle of number one: results/bundle.zip" in output
    shutil.move(project.folder / "results/bundle.zip", project.folder / "one.zip")
    for name in ("runs", "records"):
        shutil.rmtree(project.folder / "results" / name)
    project.run("bundle", "--config", "machine=two")
    shutil.copy(project.folder / "results/bundle.zip", project.folder / "two.zip")
    return project


def test_a_bundle_has_all_but_data_and_host_name(project):
    with zipfile.ZipFile(project.folder / "one.zip") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        records = [n for n in archive.namelist() if n.startswith("records/")]
        assert all(
            json.loads(archive.read(n))["provenance"]["machine"]["hostname"] is None
            for n in records
        )
    assert manifest["machine"]["name"] == "number one" and len(records) == 2
    assert manifest["counts"] == {"cells": 1, "outcomes": {"ok": 2}, "runs": 2}
    assert [n for n in manifest["files"] if n.startswith("data/")] == [
        "data/mnist-5k/recordio/manifest.json"
    ]


def test_bundles_are_merged(project):
    output = project.run("merge", "--config", "bundles=one.zip,two.zip")
    assert "2 machines side by side: results/merged/index.html" in output
    with (project.folder / "results/merged/machines.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "throughput"]
    assert [row["machine"] for row in rows] == ["number one", "two"]
    assert rows[1]["reference"] == "number one" and float(rows[1]["ratio"]) > 0


def test_two_sittings_are_compared_with_a_tolerance(project):
    project.run("results/tables/measurements.csv")
    shutil.copytree(project.folder / "results", project.folder / "before")
    options = ("compare", "--config", "against=before", "tolerance=25%")
    status, output = project.snakemake(*options)
    assert "throughput of 1 configuration: " in output and "new / old 1.000 [" in output
    # Two runs a side may be too noisy.
    passed = "Passed: no slowdown of more than 25 % in the configuration." in output
    assert passed or "Cannot tell. A slowdown of up to " in output
    assert (status == 0) == passed
    assert (project.folder / "results/compare/changes.html").exists()


def test_a_bundle_repeats_no_run_and_says_how_its_runs_are(project):
    """Another execution of the study would repeat the one that other programs ended."""
    first, second = sorted(project.folder.glob("results/runs/*/rep*"))
    attempts.note(second, "it ran 60 s after its first step")
    assert project.jobs()["train"] == 1
    before = written(project)
    project.flag("*/rep1", "noisy_machine")
    project.flag("*/rep2")
    output = project.run("bundle", "--config", "machine=two")
    assert "warning: of the bundle's 2 runs 1 was disturbed\n" in output
    assert "Do not trust" not in output
    assert written(project) == before
    bundle = project.folder / "results/bundle.zip"
    whole = bundle.read_bytes()
    (record,) = project.folder.glob("results/records/*/rep2.json")
    kept = record.read_bytes()
    record.write_text("{}")
    status, output = project.snakemake("bundle", "--config", "machine=two")
    assert status != 0 and "rep2.json: not a record of format 1" in output
    assert bundle.read_bytes() == whole
    record.write_bytes(kept)
    (second / attempts.NAME).unlink()


def written(project):
    """When the files of runs were written."""
    return {path: path.stat().st_mtime_ns for path in project.folder.glob("results/runs/*/*/*")}


def test_bundles_that_are_refused_leave_the_page_that_is_there(project):
    project.run("merge", "--config", "bundles=one.zip,two.zip")
    pages = {path: path.read_bytes() for path in project.folder.glob("results/merged/*")}
    assert len(pages) == 6
    status, output = project.snakemake("merge", "--config", "bundles=one.zip,one.zip")
    assert status != 0 and "error: one.zip: " in output
    assert pages == {path: path.read_bytes() for path in project.folder.glob("results/merged/*")}


def test_a_bundle_that_cannot_be_used_is_refused_before_anything(project):
    data = (project.folder / "one.zip").read_bytes()
    (project.folder / "short.zip").write_bytes(data[:-100])
    for bundles, said in (
        ("one.zip,short.zip", "short.zip: not a ZIP archive, or a damaged one"),
        ("one.zip,gone.zip", "gone.zip: the file is missing"),
    ):
        status, output = project.snakemake("merge", "--config", f"bundles={bundles}", "--dry-run")
        assert status != 0 and f"error: {said}" in output and "Traceback" not in output
    status, output = project.snakemake("merge", "--config", "bundles=one.zip", "--forcerun")
    assert status != 0 and "1 to compare, it takes two" in output


def test_the_report_of_a_study_shows_other_machines(project):
    project.configure({**STUDY, "compare_with": ["one.zip"]})
    project.run("--config", "machine=two")
    page = (project.folder / "results/report/machines/index.html").read_text()
    section = (project.folder / "results/machines/section.html").read_text()
    assert section in page and '<a href="#machines">' in page
    assert "number one against two" in section
    assert "Nothing to be done" in project.run("--dry-run", "--config", "machine=two")
    project.configure({**STUDY, "compare_with": ["gone.zip"]})
    status, output = project.snakemake("--dry-run")
    assert status != 0 and "error: gone.zip: the file is missing" in output
    project.configure(STUDY)
    project.run()
    assert (
        '<a href="#machines">'
        not in (project.folder / "results/report/machines/index.html").read_text()
    )


@pytest.mark.skipif(skip.no_device("gpu") is None, reason="this machine may have a GPU")
def test_a_gpu_cell_on_a_machine_without_one(tmp_path, python_of):
    """It is said before any run, costs no environment, and is a result that stays."""
    sweeps = [{"framework": "pytorch", "device": "gpu", "input": "synthetic"}]
    project = Project(tmp_path / "project", tmp_path / "envs", {**STUDY, "sweeps": sweeps})
    output = project.run()
    assert "warning: 2 runs want a GPU, and there is no NVIDIA" in output
    assert not (tmp_path / "envs").exists()
    records = [json.loads(p.read_text()) for p in project.folder.glob("results/records/*/*.json")]
    assert [record["status"] for record in records] == ["unsupported"] * 2
    assert {record["reason"].partition(" (")[0] for record in records} == {
        "no NVIDIA driver on this machine"
    }
    assert project.jobs() == {}
