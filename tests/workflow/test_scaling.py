"""A study of replicas, on real runs: its table, figure and part of the report; several nodes."""

import csv
import json

import pytest

from workflow.project import ENVIRONMENTS, Project

USUAL = {
    "network": "lenet5", "dataset": "mnist-5k", "epochs": 2, "warmup_seconds": 0.0,
    "batch_size": 128, "framework": "mxnet",
}  # fmt: skip


@pytest.mark.long
def test_speed_up_and_efficiency_are_reported(tmp_path):
    sweeps = [{**USUAL, "replicas": [1, 2]}, {**USUAL, "replicas": 2, "batch_split": "per_replica"}]
    study = {"study": "test", "title": "A test", "repeats": 2, "parity": False, "sweeps": sweeps}
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    project.run()
    results = project.folder / "results"
    with open(results / "tables/scaling.csv") as file:
        strong, weak = csv.DictReader(file)
    for row, kind in ((strong, "strong"), (weak, "weak")):
        assert (row["scaling"], row["replicas"], row["resources"]) == (kind, "2", "1")
        assert row["reference_cell"] == strong["reference_cell"] != row["cell"]
        assert row["n"] == "2" and float(row["low"]) <= float(row["speedup"]) <= float(row["high"])
        assert float(row["efficiency"]) == float(row["speedup"])
    # A step of the weak cell takes twice the examples of the one by itself.
    record = json.loads((results / f"records/{weak['cell']}/rep1.json").read_text())
    settings = record["provenance"]["settings"]["effective"]
    assert (settings["replicas"], settings["batch_size"]) == (2, 256)
    images, steps = (record["metrics"][name]["value"] for name in ("throughput", "step_rate"))
    assert abs(images / steps - 256) < 1e-6
    assert (results / "figures/scaling.svg").exists()
    page = (results / "report/test/index.html").read_text()
    assert '<h2 id="scaling">' in page and "figure-scaling" in page
    assert project.jobs() == {}


def test_several_nodes_take_slurm(tmp_path):
    sweeps = [{**USUAL, "framework": "pytorch", "nodes": 2}]
    study = {"study": "test", "title": "A test", "sweeps": sweeps}
    status, output = Project(tmp_path / "project", ENVIRONMENTS, study).snakemake()
    assert status != 0 and "Traceback" not in output
    assert "trains on several nodes, which Slurm has to give; use `snakemake --profile" in output
