"""The mode `best`, on real runs."""

import csv
import json
import os

import pytest

from workflow.project import ENVIRONMENTS, Project

pytestmark = pytest.mark.long

CELL = {
    "framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k", "epochs": 2, "steps": 20,
    "warmup_seconds": 0.0, "mode": "best",
}  # fmt: skip
PLANTED = """

import os
import time


class Adapter(Adapter):
    def __init__(self, job, threads):
        if job.execution.mode == "static":
            raise NotImplementedError("no static allocation today")
        if job.execution.mode == "hybrid":
            raise ZeroDivisionError
        super().__init__(job, threads)

    def _update(self, rate, count):
        alone = len(os.sched_getaffinity(0)) == 1
        if not alone and os.environ.get("OMP_WAIT_POLICY") != "PASSIVE":
            time.sleep(0.1)
        super()._update(rate, count)
"""
"""At the end of MXNet's adapter: one mode cannot do it, another fails, and the third is left, whose
steps take long, but with one thread or with threads that sleep."""


def test_the_fastest_mode_threads_and_waiting_are_tried_for_and_trained_with(tmp_path, all_cores):
    sweeps = [{**CELL, "wait_policy": "active"}, {**CELL, "threads": 2}]
    study = {"study": "test", "title": "A test", "repeats": 1, "parity": False, "sweeps": sweeps}
    study["defaults"] = {"wait_policy": "default"}
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    project.add("runner/adapters/mxnet/adapter", PLANTED)
    # Of the trials there may be five, three modes and two more, and they may cost twice as much.
    assert project.run("--dry-run", "--verbose").count("runtime=670") == 2
    # Whatever other programs do here, rounds count.
    project.change("schema/interleaved", QUIET=99.0)
    project.run()
    records = {
        record["provenance"]["trials"][0]["wait_policy"]: record
        for path in project.folder.glob("results/records/*/rep1.json")
        if (record := json.loads(path.read_text()))
    }
    assert {record["status"] for record in records.values()} == {"ok"}
    assert {record["factors"]["mode"] for record in records.values()} == {"best"}
    for record in records.values():
        # So many steps are its own; the trials end when they may.
        accuracy = record["metrics"]["test_accuracy"]
        assert (accuracy["value"], record["factors"]["steps"]) == (None, 20)
        assert accuracy["reason"].startswith("the cell ends after 20 measured steps")
        static, hybrid, imperative = record["provenance"]["trials"][:3]
        assert (static["mode"], static["status"]) == ("static", "unsupported")
        assert static["reason"] == "no static allocation today"
        assert (hybrid["mode"], hybrid["status"]) == ("hybrid", "error")
        assert (imperative["mode"], imperative["status"]) == ("imperative", "ok")
        assert imperative["throughput"] > 0 and imperative["first_step_time"] > 0
        assert record["provenance"]["settings"]["requested"]["mode"] == "imperative"
        assert imperative["ratio"] == 1.0
        (best,) = [one for one in record["provenance"]["trials"] if one["chosen"]]
        # Beside other programs nothing may be shown to be faster.
        assert best is imperative or best["low"] > 1

    # Where the study says how threads wait, their number is tried, and the other way round.
    one_thread, *half = records["active"]["provenance"]["trials"][3:]
    assert (one_thread["mode"], one_thread["threads"]) == ("imperative", 1)
    assert {trial["wait_policy"] for trial in (one_thread, *half)} == {"active"} and len(half) < 2
    provenance = records["active"]["provenance"]
    used = 1 if one_thread["chosen"] else len(os.sched_getaffinity(0))
    environment = provenance["environment"]
    assert (environment["threads"], len(environment["affinity"])) == (used, used)
    assert provenance["settings"]["effective"]["threads"] == used
    waiting = records["default"]["provenance"]["trials"][3:]
    assert [trial["wait_policy"] for trial in waiting] == ["passive", "active"]
    assert [(trial["mode"], trial["threads"]) for trial in waiting] == [("imperative", 2)] * 2
    environment = records["default"]["provenance"]["environment"]
    passive = environment["environment"].get("OMP_WAIT_POLICY") == "PASSIVE"
    assert (passive, environment["threads"]) == (waiting[0]["chosen"], 2)

    with open(project.folder / "results/tables/measurements.csv") as file:
        rows = list(csv.DictReader(file))
    assert {(row["mode"], row["trained_mode"]) for row in rows} == {("best", "imperative")}
    with open(project.folder / "results/tables/summary.csv") as file:
        found = {(row["trained_modes"], row["best_chose"]) for row in csv.DictReader(file)}
    words = ["imperative, 1 thread (1)" if one_thread["chosen"] else "imperative (1)"]
    words.append("imperative, passive waiting (1)" if passive else "imperative (1)")
    assert found == {("imperative 1", choice) for choice in words}
    with open(project.folder / "results/tables/trials.csv") as file:
        files = [row["files"] for row in csv.DictReader(file) if row["chosen"] == "yes"]
    page = (project.folder / "results/report/test/index.html").read_text()
    assert len(files) == 2
    for choice in words:
        assert f"chosen: {choice}<" in page
        assert f"{choice.removesuffix(' (1)')}; static, the default, ended as unsupported." in page
    for path in files:
        assert (project.folder / path / "events.jsonl").exists()
        assert f'href="../../{path.removeprefix("results/")}/events.jsonl"' in page
    # The trials are no runs of the study, and what came of them makes nothing stale.
    assert len((project.folder / "results/.order.jsonl").read_text().splitlines()) == 2
    assert project.jobs() == {}
