"""Scripts of the user in a study: measured as they are, also in turn, repeated if they change."""

import html
import json
import re
from types import SimpleNamespace

import pytest

from touchstone.analysis.findings_file import read_findings
from workflow.project import ENVIRONMENTS, IN_TURN, ROOT, Project

SCRIPT = """
import time
from beside import PAUSE
from touchstone_steps import report, steps

while True:
    for item in steps(range(20), examples=4):
        time.sleep(PAUSE * FACTOR)
        report(loss=2.0 * FACTOR / (item + 1), accuracy=0.9)
"""
STUDY = {
    "study": "own", "title": "My own code", "repeats": 2, "parity": False,
    "interleave": {**IN_TURN, "max_seconds": 20},
    "programs": {
        "quick": {"file": "quick.py", "framework": "scipy"},
        "slow": {"file": "slow.py", "framework": "scipy"},
        "whole": {"file": "whole.py", "framework": "scipy", "until": "end"},
        "broken": {"file": "broken.py", "framework": "scipy"},
    },
    "defaults": {
        "warmup_steps": 2, "warmup_seconds": 0.0, "program_seconds": 0.3, "threads": 1,
        "sampling_interval": 0.05,
    },
    "sweeps": [
        {"program": ["quick", "slow"], "network": "loop"},
        {"program": ["whole", "broken"], "network": "other"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("programs") / "project", ENVIRONMENTS, STUDY)
    for name, factor in (("quick", 1), ("slow", 4)):
        (project.folder / f"{name}.py").write_text(SCRIPT.replace("FACTOR", str(factor)))
    (project.folder / "beside.py").write_text("PAUSE = 0.002\n")
    (project.folder / "whole.py").write_text("import time\ntime.sleep(0.2)\n")
    (project.folder / "broken.py").write_text("raise ValueError('no data here')\n")
    output = project.run("--cores", "all")
    findings = read_findings(project.folder / "results/findings.json")
    page = (project.folder / "results/report/own/index.html").read_text()
    return SimpleNamespace(project=project, output=output, findings=findings, page=page)


def record_of(studied, program):
    (path,) = studied.project.folder.glob(f"results/records/scipy-{program}-*/rep1.json")
    return json.loads(path.read_text())


def test_two_scripts_are_compared_in_turn(studied):
    (found,) = studied.findings.comparisons
    assert found.in_turn and found.network == "loop" and found.compared == ["program"]
    (pair,) = found.pairs
    assert "-quick-" in pair.faster and pair.ratio.value > 1.2
    assert "quick (SciPy)" in studied.output.replace("\n", " ")
    assert "examples/s" in studied.output and "images/s" not in studied.output


def test_what_the_scripts_report_is_side_by_side(studied):
    reports = record_of(studied, "quick")["reports"]
    assert len(reports) <= 201 and reports[0] == {"step": 0, "loss": 2.0, "accuracy": 0.9}
    text = " ".join(re.sub(r"<[^>]*>", " ", studied.page).split())
    assert "The first losses lie between 2.000 and 8.000, those after" in text
    assert studied.page.count("<polyline") == 2


def test_a_script_that_fails_is_a_result_and_not_tried_again(studied):
    record = record_of(studied, "broken")
    assert (record["status"], record["reason"]) == ("error", "broken.py: ValueError: no data here")
    assert "ValueError: no data here" in record["log_tail"][-1]
    assert "restart job" not in studied.output
    assert studied.project.jobs() == {}


def test_a_script_without_steps_has_its_time_and_what_it_took(studied):
    metrics = record_of(studied, "whole")["metrics"]
    assert metrics["program_time"]["value"] >= 0.2
    assert metrics["host_memory_peak"]["value"] > 1 and metrics["cpu_cores"]["value"] is not None
    assert metrics["first_step_time"]["value"] is None


def test_the_page_vouches_for_nothing_that_nobody_read_back(studied):
    text = html.unescape(re.sub(r"<[^>]*>", " ", studied.page))
    assert "That the programs do the same work is their authors' claim." in " ".join(text.split())
    assert "learning rate" not in text.split("Machine and software")[1].split("Definitions")[0]
    record = record_of(studied, "quick")
    assert record["provenance"]["settings"] == {}
    assert record["metrics"]["flop_rate"]["reason"] == "a program does not tell it"


def test_what_the_scripts_import_repeats_them_and_a_comment_does_not(studied):
    project, beside = studied.project, studied.project.folder / "beside.py"
    (project.folder / "slow.py").write_text(f"# slower\n{SCRIPT.replace('FACTOR', '4')}")
    assert project.jobs() == {}
    beside.write_text("PAUSE = 0.001\n")
    jobs = project.jobs()
    assert (jobs["train"], jobs["interleave"]) == (4, 1)
    beside.write_text("PAUSE = 0.002\n")


@pytest.mark.parametrize(
    ("name", "framework", "small"),
    [
        ("gpt_torch", "pytorch", ["--length", "16", "--width", "32", "--layers", "1"]),
        ("cnn_keras", "tensorflow", []),
        pytest.param(
            "gpt_jax", "jax", ["--length", "16", "--width", "32", "--layers", "1"],
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_an_example_is_measured(tmp_path, name, framework, small):
    program = {
        "file": str(ROOT / f"examples/{name}.py"), "framework": framework,
        "arguments": ["--batch-size", "{batch_size}", *small],
    }  # fmt: skip
    study = {
        **STUDY, "repeats": 1, "programs": {"mine": program}, "interleave": None,
        "sweeps": [{"program": "mine", "batch_size": [4, 8]}],
    }  # fmt: skip
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    project.run("--cores", "all")
    for cell in read_findings(project.folder / "results/findings.json").cells:
        assert cell.outcomes == {"ok": 1} and cell.metrics["throughput"].median > 0
