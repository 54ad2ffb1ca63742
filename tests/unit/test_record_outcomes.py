"""Records of failed runs, refusals of damaged runs, and the command `parse`."""

import json
import math
import subprocess
import sys

import pytest

from fixtures.records import event_of, judged, reason, require_valid, value
from fixtures.runs import (
    LOG_TAIL,
    edit_json,
    make_run,
    read_events,
    write_events,
)
from touchstone.paths import CLI, SCRIPTS
from touchstone.results.files import InputError
from touchstone.results.metrics import METRICS
from touchstone.results.record import build_record
from touchstone.schema.status import STATUSES


def parse(folder, output):
    command = [sys.executable, CLI, "parse", folder, "--output", output]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("status", [s for s in STATUSES if s != "ok"])
def test_what_a_failed_run_did_not_reach_carries_its_status(tmp_path, status):
    record = judged(tmp_path, status=status, reason="because", steps=8)
    reached = set() if status in ("unsupported", "error") else {"first_step_time"}
    reached |= set() if status == "error" else {"other_cpu_utilization"}
    assert {name for name in METRICS if value(record, name) is not None} == reached
    for name in METRICS.keys() - reached:
        assert reason(record, name) == f"{status}: because"
    assert (record["status"], record["reason"]) == (status, "because")
    assert record["flags"] == [] and record["losses"] == []
    assert record.get("log_tail") == (LOG_TAIL if status == "error" else None)


def test_a_fault_after_training_leaves_no_number(tmp_path):
    record = judged(tmp_path, status="error", reason="the runner ended with exit status 1")
    assert not [name for name in METRICS if value(record, name) is not None]


def test_a_timeout_after_training_keeps_the_training_metrics(tmp_path):
    record = judged(tmp_path, status="timeout", reason="600 s")
    assert value(record, "throughput") == 256.0 and value(record, "final_loss") is not None
    for name in ("test_accuracy", "host_memory_peak"):
        assert reason(record, name) == "timeout: 600 s"


def test_a_diverged_run_has_no_speed_even_when_it_did_all_steps(tmp_path):
    record = judged(
        tmp_path, status="diverged", reason="nan", loss=lambda s: 1.0 if s < 10 else math.nan
    )
    assert value(record, "throughput") is None
    assert record["losses"] == [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": None}]


def edit_events(change):
    def edit(folder):
        events = read_events(folder)
        change(events)
        write_events(folder, events)

    return edit


DAMAGE = {
    "spec missing": (lambda f: (f / "spec.json").unlink(), "spec.json", "missing"),
    "env missing": (lambda f: (f / "env.json").unlink(), "env.json", "missing"),
    "telemetry missing": (lambda f: (f / "telemetry.csv").unlink(), "telemetry.csv", "missing"),
    "events missing": (lambda f: (f / "events.jsonl").unlink(), "events.jsonl", "missing"),
    "spec not JSON": (lambda f: (f / "spec.json").write_text("{"), "spec.json", "valid JSON"),
    "spec a list": (lambda f: (f / "spec.json").write_text("[]"), "spec.json", "object"),
    "foreign spec": (lambda f: edit_json(f / "spec.json", format=2), "spec.json", "format 2"),
    "foreign env": (lambda f: edit_json(f / "env.json", format=0), "env.json", "format 0"),
    "spec field": (
        lambda f: edit_json(f / "spec.json", phases__epochs="2"),
        "spec.json",
        "'phases.epochs'",
    ),
    "no cores": (
        lambda f: edit_json(f / "env.json", machine__logical_cores=0),
        "env.json",
        "machine.logical_cores",
    ),
    "broken line": (
        lambda f: (f / "events.jsonl").write_text(
            (f / "events.jsonl").read_text().replace('{"event": "phase"', '{"event": ', 1)
        ),
        "events.jsonl",
        "line 2 is not valid JSON",
    ),
    "NaN literal": (
        lambda f: (f / "events.jsonl").write_text(
            (f / "events.jsonl").read_text().replace('"losses": [1.0]', '"losses": [NaN]', 1)
        ),
        "events.jsonl",
        "NaN is not JSON",
    ),
    "no outcome": (edit_events(lambda e: e.pop()), "events.jsonl", "did not finish"),
    "empty events": (edit_events(lambda e: e.clear()), "events.jsonl", "did not finish"),
    "unknown outcome": (
        edit_events(lambda e: e[-1].update(status="fine")),
        "events.jsonl",
        "unknown outcome 'fine'",
    ),
    "core latency no list": (
        lambda f: edit_json(f / "env.json", run__core_latency=1),
        "env.json",
        "run.core_latency",
    ),
    "core latency below zero": (
        lambda f: edit_json(f / "env.json", run__core_latency=[150.0, -1.0]),
        "env.json",
        "run.core_latency",
    ),
    "phase without end": (
        edit_events(lambda e: event_of(e, "phase").pop("end")),
        "events.jsonl",
        "'end' is missing",
    ),
    "early stop called ok": (
        edit_events(lambda e: e.remove([x for x in e if x["event"] == "chunk"][-1])),
        "events.jsonl",
        "19 of 20 planned steps",
    ),
    "chunk lost": (
        edit_events(lambda e: e.remove([x for x in e if x["event"] == "chunk"][7])),
        "events.jsonl",
        "begins at step 8, not 7",
    ),
    "runner disagrees": (
        edit_events(lambda e: event_of(e, "result").update(status="oom")),
        "events.jsonl",
        "['oom']",
    ),
    "examples inflated": (
        edit_events(lambda e: [x.update(examples=9600) for x in e if x.get("name") == "measured"]),
        "events.jsonl",
        "steps x batch size are 960",
    ),
    "part of the test set": (
        edit_events(lambda e: event_of(e, "evaluation").update(examples=96)),
        "events.jsonl",
        "the test set has 100",
    ),
    "telemetry text": (
        lambda f: (f / "telemetry.csv").write_text("t,cpu_seconds\n1,two\n"),
        "telemetry.csv",
        "line 2",
    ),
    "telemetry backwards": (
        lambda f: (f / "telemetry.csv").write_text("t,cpu_seconds\n2,1\n1,1\n"),
        "telemetry.csv",
        "backwards",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_input_is_refused_with_file_cause_and_remedy(tmp_path, name):
    damage, file, cause = DAMAGE[name]
    folder = make_run(tmp_path)
    damage(folder)
    with pytest.raises(InputError) as refusal:
        build_record(folder)
    text = str(refusal.value)
    assert file in text and cause in text and text.endswith("run the workflow again.")
    assert "\n" not in text


def test_script_writes_a_valid_record(tmp_path):
    output = tmp_path / "records" / "cell" / "rep1.json"
    done = parse(make_run(tmp_path / "run"), output)
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(output.read_text())
    require_valid(record)
    assert record == json.loads(json.dumps(build_record(tmp_path / "run")))
    assert [p.name for p in output.parent.iterdir()] == ["rep1.json"]


def test_script_refuses_with_one_line_and_writes_nothing(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "env.json").unlink()
    done = parse(folder, tmp_path / "out" / "rep1.json")
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1


def test_script_refuses_a_record_that_breaks_the_schema(tmp_path):
    folder = make_run(tmp_path / "run")
    edit_json(folder / "env.json", run__started="yesterday")
    done = parse(folder, tmp_path / "rep1.json")
    assert done.returncode == 1 and "started" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "rep1.json").exists()


def test_script_starts_without_pandas_and_matplotlib():
    code = "import sys, touchstone.commands.parse\nprint({'pandas', 'matplotlib'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=SCRIPTS, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
