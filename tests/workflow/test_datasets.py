"""Data sets as targets of the workflow: converted, verified, and a bad one refused."""

import subprocess
import sys

import yaml

from workflow.project import ENVIRONMENTS, Project


def test_data_sets_are_converted_and_verified_and_only_a_bad_one_is_refused(tmp_path):
    cell = {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"}
    study = {"study": "test", "title": "A test", "sweeps": [cell]}
    project = Project(tmp_path / "it's größer", ENVIRONMENTS, study)
    entry = yaml.safe_load((project.folder / "config/datasets/synthetic.yaml").read_text())
    del entry["fingerprints"]
    entry |= {"shape": [8, 8, 3], "splits": {"train": 60, "test": 9}, "shards": {"train": 3}}
    (project.folder / "config/datasets/toy.yaml").write_text(yaml.safe_dump(entry))
    entry["decoder"] = {"name": "image-folder", "folder": "nowhere", "test_share": 0.5, "seed": 1}
    (project.folder / "config/datasets/lost.yaml").write_text(yaml.safe_dump(entry))
    formats = ["datum", "lmdb", "png", "recordio", "tfrecord"]
    wanted = [f"results/data/toy/{name}/manifest.json" for name in formats]
    lost = "results/data/lost/lmdb/manifest.json"

    status, output = project.snakemake("--cores", "2", *wanted, lost)
    assert status != 0 and "error: nowhere: there is no such folder; correct its name" in output
    assert all((project.folder / path).is_file() for path in wanted)
    assert not (project.folder / lost).exists()

    output = project.run("verify")
    assert all(f"toy {name}: ok" in output for name in formats)
    damaged = "results/data/toy/tfrecord/train-00001-of-00003.tfrecord"
    content = bytearray((project.folder / damaged).read_bytes())
    content[100] ^= 1
    (project.folder / damaged).write_bytes(content)
    status, output = project.snakemake("verify")
    assert status != 0 and f"error: {damaged}: its SHA-256 is not the manifest's" in output
    assert all(f"toy {name}: ok" in output for name in formats[:-1])
    program = [sys.executable, "workflow/scripts/cli.py", "verify", "--repair"]
    repaired = subprocess.run(
        program, cwd=project.folder, env=project.variables, capture_output=True, text=True
    )
    assert repaired.returncode == 0 and f"deleted {damaged}: " in repaired.stdout
    command = repaired.stdout.split("type: snakemake ")[1].splitlines()[0].split()
    assert command == ["--cores", "all", "results/data/toy/tfrecord/manifest.json"]
    project.run(*command)
    assert "toy tfrecord: ok" in project.run("verify")


def test_a_data_report_belongs_to_the_findings_of_its_study(tmp_path):
    cell = {"framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k"}
    study = {"study": "test", "title": "A test", "sweeps": [cell]}
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    report = "config/datasets/mnist-5k.report.json"
    assert report not in project.run("-n", "-p", "results/findings.json")
    (project.folder / report).write_text("{}")
    assert f"--data {report}" in project.run("-n", "-p", "results/findings.json")
