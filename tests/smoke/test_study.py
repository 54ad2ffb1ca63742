"""A tiny study from its configuration to its page, by calls, and a dry run of the default one.

Only the base environment is needed: SciPy is there, and its runner is started with this Python.
"""

import csv
import html
import json
import subprocess
import sys
import tempfile

from fixtures.commands import call
from fixtures.records import require_valid
from touchstone.analysis.findings_file import read_findings
from touchstone.commands import run
from touchstone.paths import ROOT
from touchstone.plan.study import make_plan
from touchstone.report.sections.answer import answer
from touchstone.schema.variables import DEPLOYMENT

STUDY = {
    "study": "tiny", "title": "Small matrix products", "repeats": 2,
    "defaults": {
        "framework": "scipy", "operation_seconds": 0.05, "warmup_seconds": 0.0,
        "warmup_steps": 1, "sampling_interval": 0.05, "wait_policy": "passive",
    },
    "sweeps": [{"network": "sparse_gemm", "dataset": ["64x8x64x90", "128x8x128x90"]}],
}  # fmt: skip


def done(name, *arguments):
    """Call a command that must succeed."""
    ended = call(name, *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_a_tiny_study_from_configuration_to_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the runs' place in their order is kept in `results`
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other studies are not waited for
    monkeypatch.setenv(DEPLOYMENT, "venv")
    monkeypatch.setattr(run, "runner_python", lambda *given: sys.executable)
    results = tmp_path / "results"
    tables, page = results / "tables", results / "report/index.html"
    results.mkdir()

    plan = make_plan(STUDY, ROOT)
    files = ["--plan", results / "plan.tsv"]
    resolved = results / "config.resolved.yaml"
    done("plan", "--config", json.dumps(STUDY), *files, "--resolved", resolved)
    assert len(plan.cells) == 2 and len(plan.order) == 4
    for name, repeat in plan.order:
        folder = results / f"runs/{name}/rep{repeat}"
        settings = json.dumps(plan.cells[name].model_dump())
        options = ["--repeat", repeat, "--attempt", 1, "--run", folder]
        folder.mkdir(parents=True)
        done("run", "--cell", settings, *options, "--log", folder / "train.log")
        record = results / f"records/{name}/rep{repeat}.json"
        done("parse", folder, "--output", record)
        found = json.loads(record.read_text())
        require_valid(found)
        assert (found["status"], found["reason"]) == ("ok", None)
        assert found["metrics"]["flop_rate"]["value"] > 0
    files += ["--records", results / "records"]
    findings = results / "findings.json"
    done("gather", *files, "--output", tables, "--findings", findings)
    with open(tables / "measurements.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "flop_rate"]
    assert sorted(row["cell"] for row in rows) == sorted([*plan.cells] * 2)
    assert {row["status"] for row in rows} == {"ok"} and all(float(r["value"]) > 0 for r in rows)
    figures = ["--figures", results / "figures"]
    done("plot", *files, "--tables", tables, "--findings", findings, "--output", figures[1])
    done("report", "--findings", findings, *figures, "--config", resolved, "--output", page)
    text = page.read_text()
    assert "<title>Small matrix products" in text and "sparse_gemm" in text
    said = answer(read_findings(findings))
    assert said and all(paragraph in html.unescape(text) for paragraph in said)
    assert "data:image/svg+xml;base64," in text
    for cell in plan.cells.values():
        assert cell.dataset in text


def test_the_default_study_has_a_plan_of_jobs():
    """A dry run on this checkout, whose results are left alone."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--nolock", "--forceall"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    jobs = dict(line.split()[:2] for line in ended.stdout.splitlines() if len(line.split()) == 2)
    assert jobs["train"] == jobs["parse_run"] and jobs["report"] == jobs["gather"] == "1"
