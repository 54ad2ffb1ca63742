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
    (project.folder / "whole.py").write_text("import time\ntime.sleep(1)\n")
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
    assert metrics["program_time"]["value"] >= 1
    assert metrics["host_memory_peak"]["value"] > 1 and metrics["cpu_cores"]["value"] is not None
    assert metrics["first_step_time"]["value"] is None


def test_the_page_vouches_for_nothing_that_nobody_read_back(studied):
    text = html.unescape(re.sub(r"<[^>]*>", " ", studied.page))
    assert "That the programs do the same work is their authors' claim." in " ".join(text.split())
    assert "learning rate" not in text.split("Machine and software")[1].split("Definitions")[0]
    assert {cell.factors["mode"] for cell in studied.findings.cells} == {""}
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


BAD = {
    "hangs": ("import time\ntime.sleep(600)", "timeout", "it ran longer than"),
    "killed": ("import os\nos.kill(os.getpid(), 9)", "error", "SIGKILL"),
    "hungry": ("import time\nkept = bytearray(10 ** 9)\ntime.sleep(600)", "oom", "memory"),
    "loud": ("for _ in range(100_000): print('x' * 10_000)", "error", "without a step"),
    "more": (SCRIPT.replace("FACTOR", "1").replace("examples=4", "examples=64"), "ok", None),
}  # fmt: skip
"""By name a script, its outcome and a part of the reason."""


@pytest.mark.long
def test_bad_scripts_have_an_outcome_and_a_sentence(tmp_path):
    common = {"framework": "scipy", "arguments": ["{batch_size}"]}
    study = {
        **STUDY, "repeats": 1, "interleave": None,
        "programs": {name: {"file": f"{name}.py", **common} for name in BAD},
        "defaults": {
            **STUDY["defaults"], "batch_size": 16, "time_limit": 5.0, "memory_limit": 500.0,
        },
        "sweeps": [{"program": list(BAD)}],
    }  # fmt: skip
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    (project.folder / "beside.py").write_text("PAUSE = 0.002\n")
    for name, (script, _, _) in BAD.items():
        (project.folder / f"{name}.py").write_text(script)
    project.run("--cores", "all")
    assert project.jobs() == {}
    for name, (_, status, reason) in BAD.items():
        record = record_of(SimpleNamespace(project=project), name)
        assert record["status"] == status, (name, record["reason"])
        assert reason is None or reason in record["reason"], (name, record["reason"])
        assert ("more_examples" in record["flags"]) == (name == "more")
    (log,) = project.folder.glob("results/runs/scipy-loud-*/rep1/train.log")
    assert log.stat().st_size < 4 * 2**20


@pytest.mark.long
def test_a_script_and_a_network_are_compared_in_turn(tmp_path):
    """LeNet-5 in plain PyTorch, as a script and through the adapter."""
    script = {
        "file": str(ROOT / "benchmarks/programs/lenet5_torch.py"), "framework": "pytorch",
        "arguments": ["{batch_size}"],
    }  # fmt: skip
    work = {"network": "lenet5", "dataset": "synthetic", "batch_size": 64}
    study = {
        **STUDY, "programs": {"script": script},
        "sweeps": [
            {"program": "script", **work}, {"framework": "pytorch", "style": "plain", **work}
        ],
    }  # fmt: skip
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    project.run("--cores", "all")
    findings = read_findings(project.folder / "results/findings.json")
    (comparison,) = findings.comparisons
    assert comparison.workload == "training" and comparison.in_turn
    assert {cell.equal_computation for cell in comparison.cells} == {"not shown"}
    assert {"program"} <= {*comparison.compared} <= {"program", "style", "mode"}
    page = (project.folder / "results/report/own/index.html").read_text()
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
    assert "The networks ran through this project's adapters" in text


FILLED = """
import sys
from touchstone_steps import steps

for _ in steps(iter(int, 1), examples=int(sys.argv[1])):
    kept = b"x" * int(sys.argv[1]) * 10 ** 6
"""
"""A script that takes a megabyte for each example of a batch."""


@pytest.mark.long
def test_the_largest_batch_of_a_script_is_found_on_request(tmp_path):
    program = {"file": "filled.py", "framework": "scipy", "arguments": ["{batch_size}"]}
    study = {
        **STUDY, "repeats": 1, "interleave": None, "programs": {"filled": program},
        "find_max_batch": True,
        "sweeps": [{"program": "filled", "batch_size": [16, 32], "memory_limit": 400.0}],
    }  # fmt: skip
    project = Project(tmp_path / "project", ENVIRONMENTS, study)
    (project.folder / "filled.py").write_text(FILLED)
    project.run("--cores", "all")
    (found,) = read_findings(project.folder / "results/findings.json").largest_batches
    assert 100 < found.max_batch_size < 400 and found.status == "ok"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "framework", "small"),
    [
        ("gpt_torch", "pytorch", ["--length", "16", "--width", "32", "--layers", "1"]),
        ("cnn_keras", "tensorflow", []),
        ("gpt_jax", "jax", ["--length", "16", "--width", "32", "--layers", "1"]),
    ],
)
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
