"""Cells of a comparison are measured in turn, again only when something of them changed."""

import copy
import csv
import json
import subprocess
import sys

import pytest

from fixtures.interpreters import plant
from touchstone.analysis.again import Kept
from touchstone.environments import ensure
from workflow.project import ENVIRONMENTS, IN_TURN, OPERATION, ROOT, Project

pytestmark = pytest.mark.long

STUDY = {
    "study": "turns",
    "title": "Two modes and two environments in turn",
    "repeats": 1,
    "parity": False,
    "interleave": IN_TURN,
    "defaults": {"warmup_seconds": 0.0, "threads": 1},
    "sweeps": [
        {
            "framework": "mxnet", "mode": ["static", "hybrid"], "network": "lenet5",
            "dataset": "mnist-5k", "epochs": 1, "input": "synthetic", "batch_size": 64,
        },
        {**OPERATION, "framework": "scipy", "environment": ["pinned", "mine"]},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    pinned = ensure(ROOT / "envs/scipy.yaml", ENVIRONMENTS)
    STUDY["environments"] = {
        name: {"framework": "scipy", "python": str(plant(folder / name, beside=pinned))}
        for name in ("mine", "other")
    }
    made = Project(folder / "home", ENVIRONMENTS, STUDY)
    made.output = made.run()
    return made


def group_files(project):
    return sorted((project.folder / "results/interleaved").glob("*.json"))


def test_each_comparison_has_its_sets_and_the_page_says_so(project):
    files = group_files(project)
    assert len(files) == 2
    for path in files:
        found = json.loads(path.read_text())
        assert len(found["cells"]) == 2
        assert [one["number"] for one in found["sets"]] == [1, 2, 3]
        assert found["excluded"] == {}
    findings = json.loads((project.folder / "results/findings.json").read_text())
    assert findings["comparisons"]
    for one in findings["comparisons"]:
        assert one["in_turn"]["sets"] == one["n"] == 3
        assert all(pair["runs_ratio"] and pair["ratio"]["low"] for pair in one["pairs"])
    with open(project.folder / "results/tables/comparisons.csv", newline="") as file:
        basis = {(row["metric"], row["basis"]) for row in csv.DictReader(file)}
    assert ("throughput", "turns") in basis and ("throughput", "runs") not in basis


def test_the_estimate_is_that_of_the_check_and_printed_once(project):
    check = [sys.executable, "workflow/scripts/cli.py", "check-config", "config/config.yaml"]
    done = subprocess.run(
        check, cwd=project.folder, env=project.variables, capture_output=True, text=True, check=True
    )
    size, estimate = done.stdout.splitlines()
    assert size == "turns: 4 cells, 4 runs"
    assert estimate.startswith("4 runs and 2 comparisons in turn: about ")
    assert project.output.count(estimate) == project.output.count("of disk without software") == 1


def test_nothing_changed_nothing_runs(project):
    assert project.jobs() == {}


def test_one_more_cell_measures_its_comparison_only(project):
    study = copy.deepcopy(STUDY)
    study["sweeps"].append({**OPERATION, "framework": "scipy", "environment": "other"})
    project.configure(study)
    jobs = project.jobs()
    project.configure(STUDY)
    assert {"train": 1, "interleave": 1}.items() <= jobs.items()


def test_more_repeats_measure_no_turn_again(project):
    project.configure({**copy.deepcopy(STUDY), "repeats": 2})
    jobs = project.jobs()
    project.configure(STUDY)
    assert jobs["train"] == 4 and "interleave" not in jobs


def test_another_framework_version_measures_its_turns(project):
    path = project.folder / "envs/mxnet.yaml"
    kept = path.read_text()
    path.write_text(kept.replace("numpy==", "numpy-other==", 1))
    try:
        jobs = project.jobs()
    finally:
        path.write_text(kept)
    assert jobs["train"] == 2 and jobs["interleave"] == 1


def test_a_finished_set_survives_and_a_damaged_one_is_measured_again(project):
    (path,) = [path for path in group_files(project) if "sparse_gemm" in path.name]
    folder = path.with_suffix("")
    before = {one.name: one.read_text() for one in folder.glob("set*.json")}
    assert sorted(before) == ["set1.json", "set2.json", "set3.json"]
    (folder / "set3.json").write_text(before["set3.json"][:-20])
    path.unlink()
    project.run(str(path.relative_to(project.folder)))
    after = {one.name: one.read_text() for one in folder.glob("set*.json")}
    assert after["set1.json"] == before["set1.json"] and after["set2.json"] == before["set2.json"]
    assert after["set3.json"] != before["set3.json"] and json.loads(after["set3.json"])
    assert [one["number"] for one in json.loads(path.read_text())["sets"]] == [1, 2, 3]


def test_a_first_run_that_is_repeated_measures_no_turn_again(project):
    sets = {path: path.read_text() for path in project.folder.glob("results/interleaved/*/*.json")}
    (run,) = project.folder.glob("results/runs/scipy-mine-*/rep1/events.jsonl")
    before = run.stat().st_mtime_ns
    project.flag("*/rep1")
    project.flag("scipy-mine-*/rep1", "noisy_machine")
    output = project.make(Kept("turns").again("disturbed"))
    assert "turns: 1 of 4 runs is repeated" in output and "1 run: about" in output
    assert run.stat().st_mtime_ns != before
    assert sets == {path: path.read_text() for path in sets}
    assert project.jobs() == {}


def test_a_cell_whose_first_run_failed_takes_no_turn(project):
    study = copy.deepcopy(STUDY)
    # MXNet has no deterministic algorithms on the CPU.
    study["sweeps"] = [{**study["sweeps"][0], "batch_size": 32, "deterministic": True}]
    project.configure(study)
    project.run("--until", "interleave")
    project.configure(STUDY)
    (without_both,) = [path for path in group_files(project) if "-b32-" in path.name]
    found = json.loads(without_both.read_text())
    assert found["sets"] == [] and len(found["excluded"]) == 2
    assert all("first run ended as" in why for why in found["excluded"].values())
