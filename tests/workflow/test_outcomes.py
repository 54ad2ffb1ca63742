"""Failures are rows, bad input is refused, interruptions lose one run: on real runs."""

import csv
import json
import re
import signal
import time
from pathlib import Path

import pytest

from touchstone import networks
from touchstone.measure.environment import usable_cores
from touchstone.plan.estimate import seconds_of_steps
from touchstone.plan.model import Cell
from workflow.project import ENVIRONMENTS, OPERATION, ROOT, Project

CELL = {"network": "lenet5", "dataset": "mnist-5k", "epochs": 2, "warmup_seconds": 0.0}


@pytest.fixture
def make(tmp_path):
    """A project with one repeat of each of these sweeps."""

    def make_project(*sweeps, repeats=1, **more):
        study = {
            "study": "test", "title": "A test", "repeats": repeats, "defaults": CELL,
            "sweeps": list(sweeps), **more,
        }  # fmt: skip
        return Project(tmp_path / "it's größer", ENVIRONMENTS, study)

    return make_project


def test_a_failure_is_a_row_and_the_others_go_on(make):
    usual = {**CELL, "input": "synthetic"}
    project = make(
        {"framework": "mxnet", "batch_size": 64},
        {"framework": "pytorch", "batch_size": 64, "memory_limit": 150.0},
        {"framework": "mxnet", "batch_size": 128, "learning_rate": 1.0e6},
        {"framework": "pytorch", "batch_size": 128, "time_limit": 1.0},
        parity=False, defaults=usual,
    )  # fmt: skip
    output = project.run()
    expected = {"mxnet 64": "ok", "pytorch 64": "oom", "mxnet 128": "diverged"}
    expected["pytorch 128"] = "timeout"
    found = {}
    for path in project.folder.glob("results/records/*/rep1.json"):
        record = json.loads(path.read_text())
        found[f"{record['factors']['framework']} {record['factors']['batch_size']}"] = record
    assert {name: record["status"] for name, record in found.items()} == expected
    assert "host memory" in found["pytorch 64"]["reason"]
    assert found["mxnet 128"]["reason"].startswith("the loss is ")
    assert found["pytorch 128"]["reason"] == "it ran longer than the limit of 1 s"
    folder = ROOT / "config/datasets"
    for path in project.folder.glob("results/runs/*/rep1/spec.json"):
        spec = json.loads(path.read_text())
        cell = Cell(**usual, framework="pytorch", batch_size=spec["factors"]["batch_size"])
        assert spec["limits"]["factor"] is None
        assert spec["limits"]["estimate"] == seconds_of_steps(cell, folder, usable_cores())

    with open(project.folder / "results/tables/measurements.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "throughput"]
    assert {f"{r['framework']} {r['batch_size']}": r["status"] for r in rows} == expected
    assert [r["value"] != "" for r in rows] == [r["status"] == "ok" for r in rows]
    page = (project.folder / "results/report/test/index.html").read_text()
    for status in expected.values():
        assert status in page
    for number in range(1, 5):
        assert f"run {number} of 4" in output
    assert "images/s" in output
    # A result is a result: nothing of it is tried again.
    assert project.jobs() == {}


@pytest.mark.long
def test_a_checkout_may_be_read_only_and_the_results_elsewhere(make, tmp_path):
    project = make({**OPERATION, "framework": "scipy"}, parity=False, defaults={})
    before = sorted(project.folder.rglob("*"))
    (tmp_path / "elsewhere").mkdir()
    project.run("--directory", str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere/results/report/test/index.html").exists()
    assert [path for path in sorted(project.folder.rglob("*")) if path not in before
            and "__pycache__" not in path.parts] == []  # fmt: skip


@pytest.mark.long
def test_the_largest_batch_is_found_on_request(make):
    project = make(
        {"framework": "pytorch", "batch_size": [64, 128], "memory_limit": 360.0},
        {"framework": "pytorch", "batch_size": 64, "learning_rate": 0.1, "memory_limit": 360.0},
        parity=False, find_max_batch=True,
    )  # fmt: skip
    output = project.run()
    assert "a batch of 64: ok" in output and "run 3 of 3" in output
    (path,) = project.folder.glob("results/max_batch/*.json")  # one search for the three cells
    found = json.loads(path.read_text())
    value = found["max_batch_size"]["value"]
    outcomes = {probe["batch_size"]: probe["status"] for probe in found["probes"]}
    assert 64 < value < 4000 and outcomes[64] == outcomes[value] == "ok"
    assert outcomes[value + 1] == "oom" and set(outcomes.values()) == {"ok", "oom"}
    with open(project.folder / "results/tables/summary.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "max_batch_size"]
    assert [float(row["median"]) for row in rows] == [value] * 3
    page = (project.folder / "results/report/test/index.html").read_text()
    assert "The largest batch that fits" in page and f"<td>{value}</td>" in page
    assert project.jobs() == {}
    project.edit("workflow/scripts/touchstone/plan/bisection.py", "START = 64", "START = 32")
    assert project.jobs() == {"find_max_batch": 1, "gather": 1, "plot": 1, "report": 1}
    project.edit("workflow/scripts/touchstone/plan/bisection.py", "START = 32", "START = 64")
    project.edit("config/config.yaml", "find_max_batch: true", "find_max_batch: false")
    jobs = project.jobs()
    assert not {"train", "find_max_batch"} & set(jobs) and jobs["gather"] == 1


@pytest.mark.long
def test_without_the_interpreter_that_it_needs_a_framework_is_unsupported(make):
    project = make({"framework": "mxnet"}, {"framework": "pytorch"}, parity=False)
    project.edit("envs/mxnet.yaml", "python=3.11", "python=3.99")
    project.run()
    (path,) = project.folder.glob("results/records/mxnet-*/rep1.json")
    record = json.loads(path.read_text())
    assert record["status"] == "unsupported"
    assert (
        "no python3.99 with venv on PATH, and uv could not get one; install it" in record["reason"]
    )
    assert "--use-conda" in record["reason"]
    (other,) = project.folder.glob("results/records/pytorch-*/rep1.json")
    assert json.loads(other.read_text())["status"] == "ok"
    assert "no python3.99" in (project.folder / "results/report/test/index.html").read_text()
    # The next execution tries again, and finds the interpreter that was installed meanwhile.
    assert project.jobs()["train"] == 1
    project.edit("envs/mxnet.yaml", "python=3.99", "python=3.11")
    project.run()
    assert json.loads(path.read_text())["status"] == "ok"
    assert project.jobs() == {}


@pytest.mark.long
def test_a_fault_of_the_code_is_an_outcome_that_is_tried_again(make):
    project = make({"framework": "mxnet"}, {"framework": "pytorch"}, parity=False)
    adapter = "workflow/scripts/touchstone/runner/adapters/mxnet/adapter.py"
    project.edit(adapter, "autograd.backward(step_losses)", "autograd.backwards(step_losses)")
    output = project.run()
    assert "the runner ended with exit status 1 and no result" in output  # the first attempt
    (path,) = project.folder.glob("results/records/mxnet-*/rep1.json")
    record = json.loads(path.read_text())
    assert record["status"] == "error"
    assert record["reason"] == "the runner ended with exit status 1 and no result"
    assert "AttributeError" in record["log_tail"][-1]
    assert {metric["value"] for metric in record["metrics"].values()} == {None}
    # The other cell and the tables went on.
    (other,) = project.folder.glob("results/records/pytorch-*/rep1.json")
    assert json.loads(other.read_text())["status"] == "ok"
    assert record["reason"] in (project.folder / "results/report/test/index.html").read_text()
    positions = (project.folder / "results/.order.jsonl").read_text().splitlines()
    assert len(positions) == 3  # two attempts of one run, one of the other

    # The next execution tries again, and again, until it comes good.
    again = {"train": 1, "parse_run": 1, "gather": 1, "plot": 1, "report": 1}
    assert project.jobs() == again
    project.run()
    assert json.loads(path.read_text())["status"] == "error"
    assert project.jobs() == again
    project.edit(adapter, "autograd.backwards(step_losses)", "autograd.backward(step_losses)")
    project.run()
    assert json.loads(path.read_text())["status"] == "ok"
    assert project.jobs() == {}


@pytest.mark.long
def test_a_driver_that_is_killed_loses_only_the_run_in_progress(make):
    project = make({"framework": "mxnet", "batch_size": [64, 128]}, repeats=2)
    process = project.start()
    events = project.folder / "results/runs"
    while len(list(events.glob("*/rep*/env.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = {
        path: path.stat().st_mtime_ns
        for path in events.glob("*/rep*/events.jsonl")
        if (path.parent / "env.json").exists()
    }
    project.run("--unlock")
    project.run()
    kept = [path for path, when in finished.items() if path.stat().st_mtime_ns == when]
    assert len(kept) >= 2
    assert len(list((project.folder / "results/records").glob("*/*.json"))) == 4
    for path in events.glob("*/rep*/events.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [line["event"] for line in lines].count("start") == 1
        assert lines[-1]["event"] == "outcome" and lines[-1]["status"] == "ok"


@pytest.mark.long
def test_the_driver_sleeps_while_a_run_is_measured(make):
    sweep = {"framework": "mxnet", "batch_size": [64, 128, 256, 512], "threads": 1, "epochs": 15}
    project = make(sweep, parity=False)
    process = project.start()
    status, runs = Path(f"/proc/{process.pid}/status"), project.folder / "results/runs"

    def woken():
        """How often the driver's main thread has waited for something so far."""
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", status.read_text(), re.M)[1])

    while not (ended := list(runs.glob("*/rep1/env.json"))) or len(list(runs.glob("*/*"))) < 3:
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(1.5)  # the records of those that have ended are made meanwhile
    before = woken()
    time.sleep(1.5)
    found, still = woken() - before, list(runs.glob("*/rep1/env.json"))
    process.kill()
    process.communicate()
    assert len(still) == len(ended)  # one run was under way all the time
    assert found == 0


@pytest.mark.parametrize(
    "content, messages",
    [
        (
            b"study: s\ntitle: t\nrepeats: 0\nsweeps: [{framework: torch, network: lenet5}]\n",
            [
                "the configuration has 3 faults", "repeats: input should be greater than 0",
                "sweeps[0].framework: no framework is named 'torch'; did you mean 'pytorch'?",
                "sweeps[0].dataset: missing",
            ],
        ),
        (b"study: \xff\n", ["config/config.yaml: not UTF-8 at byte 7; save it as UTF-8"]),
        (b"study: [\n", ["config/config.yaml: not valid YAML"]),
        (b"", ["config/config.yaml: holds no mapping"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_message_and_writes_nothing(make, content, messages):
    project = make({"framework": "mxnet"})
    (project.folder / "config/config.yaml").write_bytes(content)
    status, output = project.snakemake()
    assert status != 0
    for message in messages:
        assert message in output
    assert "Traceback" not in output
    assert not (project.folder / "results").exists()


def test_a_key_that_is_twice_in_a_file_of_the_command_line_is_refused(make):
    project = make({"framework": "mxnet"})
    (project.folder / "mine.yaml").write_text("repeats: 1\nrepeats: 2\n")
    status, output = project.snakemake("--configfile", "mine.yaml")
    assert (
        status != 0 and "mine.yaml: more than once in one mapping: repeats (lines 1, 2)" in output
    )
    assert not (project.folder / "results").exists()


def test_results_of_another_version_are_left_alone(make):
    project = make({"framework": "mxnet"})
    old = project.folder / "results/config.resolved.yaml"
    old.parent.mkdir()
    old.write_text("results_format: 1\n")
    status, output = project.snakemake()
    assert status != 0 and "results_format is 1, this version writes 3; move" in output
    assert [path.name for path in old.parent.iterdir()] == [old.name]


def test_a_cell_that_nobody_planned_is_no_target(make):
    project = make({"framework": "mxnet"})
    status, output = project.snakemake("results/runs/mxnet-lenet5-x/rep1/events.jsonl", "-n")
    assert (
        status != 0 and "no cell of this study is named mxnet-lenet5-x; results/plan.tsv" in output
    )
    assert "Traceback (most recent" not in output


NETWORK = """
from touchstone.networks.graph import Graph


def build(input_shape, classes):
    graph = Graph("throwaway", input_shape)
    x = graph.conv("conv1", "input", filters=16, kernel=3, stride=2, padding="same")
    x = graph.relu("relu1", graph.batch_norm("bn1", x))
    x = graph.max_pool("pool1", graph.conv("conv2", x, filters=32, kernel=3, padding=1), 2)
    graph.dense("logits", graph.flatten("flatten", graph.relu("relu2", x)), classes)
    return graph
"""


def test_a_check_that_fails_keeps_its_table_and_its_exit_status(make):
    """The published tables contradict themselves; here a framework differs in a network."""
    project = make({"framework": "mxnet"})
    status, output = project.snakemake("check_published")
    assert status != 0 and "contradiction: " in output
    with open(project.folder / "results/studies/findings.csv") as file:
        assert "contradiction" in {row["grade"] for row in csv.DictReader(file)}
    entry = {"equal": False, "deviations": {}, "beyond": ["fp64 update"]}
    folder = project.folder / "results/parity"
    folder.mkdir()
    for name in networks.names():
        certificate = {"network": name, "reference": "pytorch", "frameworks": {"mxnet": entry}}
        certificate |= {"format": 1, "tolerances": {}}
        (folder / f"{name}.json").write_text(json.dumps(certificate))
    status, output = project.snakemake("parity", "--allowed-rules", "parity")
    assert status != 0 and "error: not shown to be equal: " in output
    with open(project.folder / "results/parity.csv") as file:
        assert [row["equal"] for row in csv.DictReader(file)] == ["no: fp64 update"] * len(
            networks.names()
        )


@pytest.mark.long
def test_a_network_is_one_file(make):
    project = make({"framework": ["pytorch", "tensorflow", "mxnet"], "network": "throwaway"})
    (project.folder / "workflow/scripts/touchstone/networks/throwaway.py").write_text(NETWORK)
    project.run("all", "results/parity/throwaway.json")
    records = [
        json.loads(path.read_text()) for path in project.folder.glob("results/records/*/*.json")
    ]
    assert [record["status"] for record in records] == ["ok"] * 3
    assert all(record["metrics"]["test_accuracy"]["value"] > 0.8 for record in records)
    certificate = json.loads((project.folder / "results/parity/throwaway.json").read_text())
    assert certificate["equal"], certificate


def test_a_network_that_does_not_fit_is_refused_when_the_plan_is_made(make):
    project = make({"framework": "mxnet", "network": "alexnet"})
    status, output = project.snakemake()
    assert status != 0 and "Traceback" not in output
    assert "sweeps[0].network: network alexnet on input [28, 28, 1]: layer " in output
    assert not (project.folder / "results").exists()


def test_traces_ask_for_what_their_networks_take(make):
    """Large ones have a machine to themselves, with Slurm as without."""
    project = make({"framework": "mxnet"})

    def asked(network):
        trace = f"results/parity/{network}/cntk.npz"
        status, output = project.snakemake("--dry-run", "--cores", "10000", trace)
        assert status == 0, output
        found = (re.search(rf"{what}[:=] ?(\d+)", output) for what in ("threads", "mem_mb"))
        return [int(number[1]) for number in found]

    (few, little), (many, much) = asked("lenet5"), asked("vo2021-b")
    assert many > 10 * few
    assert little < 3_000 and much > 30_000
