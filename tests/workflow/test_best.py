"""The mode `best`, on real runs."""

import csv
import json

from workflow.project import ENVIRONMENTS, Project

CELL = {
    "framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k", "epochs": 2, "steps": 20,
    "warmup_seconds": 0.0, "mode": "best",
}  # fmt: skip


def test_the_fastest_mode_is_tried_for_and_trained_in(tmp_path):
    study = {"study": "test", "title": "A test", "repeats": 1, "parity": False, "sweeps": [CELL]}
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    # One mode cannot do it, another fails, and the third is left.
    project.edit(
        "workflow/scripts/frameworks/mxnet.py",
        "        self.spec = spec\n",
        "        self.spec = spec\n"
        "        if spec['execution']['mode'] == 'static':\n"
        "            raise NotImplementedError('no static allocation today')\n"
        "        if spec['execution']['mode'] == 'hybrid':\n"
        "            raise ZeroDivisionError\n",
    )
    project.run()
    (path,) = project.folder.glob("results/records/*/rep1.json")
    record = json.loads(path.read_text())
    assert record["status"] == "ok" and record["factors"]["mode"] == "best"
    # So many steps are its own; the trials end when they may.
    accuracy = record["metrics"]["test_accuracy"]
    assert (accuracy["value"], record["factors"]["steps"]) == (None, 20)
    assert accuracy["reason"].startswith("the cell ends after 20 measured steps")
    static, hybrid, imperative = record["provenance"]["trials"]
    assert (static["mode"], static["status"]) == ("static", "unsupported")
    assert static["reason"] == "no static allocation today"
    assert (hybrid["mode"], hybrid["status"]) == ("hybrid", "error")
    assert (imperative["mode"], imperative["status"]) == ("imperative", "ok")
    assert imperative["throughput"] > 0 and imperative["first_step_time"] > 0
    assert record["provenance"]["settings"]["requested"]["mode"] == "imperative"
    with open(project.folder / "results/tables/measurements.csv") as file:
        rows = list(csv.DictReader(file))
    assert {(row["mode"], row["trained_mode"]) for row in rows} == {("best", "imperative")}
    with open(project.folder / "results/tables/summary.csv") as file:
        assert {row["trained_modes"] for row in csv.DictReader(file)} == {"imperative 1"}
    with open(project.folder / "results/tables/trials.csv") as file:
        chosen = {row["mode"]: (row["chosen"], row["files"]) for row in csv.DictReader(file)}
    assert [chosen[mode][0] for mode in ("static", "hybrid", "imperative")] == ["no", "no", "yes"]
    assert (project.folder / chosen["imperative"][1] / "events.jsonl").exists()
    page = (project.folder / "results/report/index.html").read_text()
    assert f'href="../{chosen["imperative"][1].removeprefix("results/")}/events.jsonl"' in page
    # The trials are no runs of the study, and what came of them makes nothing stale.
    assert len((project.folder / "results/.order.jsonl").read_text().splitlines()) == 1
    assert project.jobs() == {}
