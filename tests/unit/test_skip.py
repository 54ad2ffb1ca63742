"""Outcomes that are known without a runner, and the files that they leave."""

import json
import sys
import tempfile

import pytest

from fixtures.commands import call
from fixtures.nvml import TRACE, ReplayedNvml
from fixtures.records import require_valid
from touchstone.measure import skip
from touchstone.measure.supervisor import close_without_running
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.plan.study import make_plan
from touchstone.results.record import build_record
from touchstone.schema.spec import spec_to_json

LOG = "results/logs/slurm/rule_train/cell_2"
# As Slurm 22.05 (Debian 12) and 24.11 write them.
TIME = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-21T12:00:00 DUE TO TIME LIMIT ***"
NAMED = TIME.replace("slurmstepd", "slurmstepd-n1").replace("JOB 12", "STEP 12.0")
MEMORY = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0. Some of your processes may"
    " have been killed by the cgroup out-of-memory handler."
)
NEWER = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks ..."
)


def log(folder, job, text):
    path = folder / LOG / f"{job}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "14")
    return tmp_path


@pytest.mark.parametrize(
    "line, status", [(TIME, "timeout"), (NAMED, "timeout"), (MEMORY, "oom"), (NEWER, "oom")]
)
def test_slurms_word_on_the_last_attempt_is_the_outcome(here, line, status):
    log(here, 12, f"Building DAG of jobs...\n{line}\nsrun: error: n1: task 0: Killed\n")
    log(here, 14, "Building DAG of jobs...\n")
    assert skip.outcome_without_running("cpu", "cell", 2, 2) == (
        status,
        f"Slurm ended job 12: {line}",
    )
    assert (
        skip.outcome_without_running("cpu", "cell", 2, 1) is None
    )  # the first try of an execution
    assert skip.outcome_without_running("cpu", "cell", 1, 2) is None  # another run


def test_more_gpus_than_a_run_may_see_are_unsupported(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", ReplayedNvml(TRACE["samples"]))
    assert skip.no_device("gpu", 1) is None
    why = "2 GPUs are asked for, the run may see 1"
    assert skip.outcome_without_running("gpu", "cell", 1, 1, 2) == ("unsupported", why)
    assert skip.outcome_without_running("cpu", "cell", 1, 1, 2) is None


def test_other_ends_are_tried_again(here, monkeypatch):
    assert skip.outcome_without_running("cpu", "cell", 2, 2) is None
    log(here, 9, TIME)
    log(here, 12, f"the runner printed: {TIME} and Out Of Memory, oom_kill\n".replace("slurm", ""))
    log(here, 11, TIME)
    log(here, 13, TIME.replace(" DUE TO TIME LIMIT", "") + "\n" + TIME.replace("TIME", "NODE"))
    log(here, 15, TIME)  # a later job's
    assert skip.outcome_without_running("cpu", "cell", 2, 2) is None
    monkeypatch.delenv("SLURM_JOB_ID")
    assert skip.outcome_without_running("cpu", "cell", 2, 2) is None


def test_a_gpu_that_is_not_there_is_reported(monkeypatch):
    import pynvml

    assert skip.no_device("cpu") is None

    def fails(error):
        def init():
            raise error()

        monkeypatch.setattr(pynvml, "nvmlInit", init)

    fails(pynvml.NVMLError_LibraryNotFound)
    assert skip.no_device("gpu").startswith("no NVIDIA driver on this machine (NVML: ")
    assert skip.outcome_without_running("gpu", "cell", 1, 1)[0] == "unsupported"
    fails(pynvml.NVMLError_NoPermission)
    assert skip.no_device("gpu") is None
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 0)
    assert skip.no_device("gpu") == "no NVIDIA GPU on this machine"
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: "handle")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert skip.no_device("gpu") is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "no GPU that the run may see" in skip.no_device("gpu")


def test_a_settled_run_has_a_record(here, root):
    settings = {"framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k"}
    (cell,) = make_plan({"study": "x", "title": "x", "sweeps": [settings]}, root).cells.values()
    assert isinstance(cell, Cell)
    spec = make_spec(cell, 2, root)
    folder = here / "results/runs/x/rep2"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
    close_without_running(spec, folder, folder / "train.log", "timeout", TIME)
    record = build_record(folder)
    require_valid(record)
    assert (record["status"], record["reason"]) == ("timeout", TIME)
    assert {metric["value"] for metric in record["metrics"].values()} == {None}
    assert record["provenance"]["unknown"]["start.position"] == "no runner was started"
    assert (folder / "train.log").read_text() == TIME + "\n"


def test_a_cell_whose_optimizer_its_adapter_lacks_is_not_run(here, monkeypatch):
    """No environment is made for it, and no data set is read."""
    monkeypatch.setenv("TMPDIR", str(here))  # so that it waits for no other study's lock
    monkeypatch.setattr(tempfile, "tempdir", None)
    fewer = frameworks.capabilities("mxnet")._replace(optimizers=("sgd", "adam"))
    monkeypatch.setattr(frameworks, "capabilities", lambda name: fewer)
    cell = {
        "framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k", "mode": "static",
        "optimizer": "rmsprop",
    }  # fmt: skip
    ended = call(
        "run", "--cell", json.dumps(cell), "--repeat", 1, "--attempt", 1,
        "--run", "results/runs/x/rep1", "--log", "train.log",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    record = build_record(here / "results/runs/x/rep1")
    reason = "this adapter has no optimizer 'rmsprop'; it has sgd, adam"
    assert (record["status"], record["reason"]) == ("unsupported", reason)
    assert record["provenance"]["unknown"]["start.position"] == "no runner was started"
