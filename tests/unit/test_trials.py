"""The trials of the mode `best`: how they are judged."""

from fixtures.runs import make_run
from measure.trials import MEASURED_SECONDS, fastest, outcome_of, trial_of


def test_a_trial_is_the_run_in_another_mode_and_shorter():
    spec = {
        "execution": {"mode": "best", "threads": 2},
        "phases": {"epochs": 9, "evaluate_every": 1, "warmup_steps": 20, "warmup_seconds": 5.0},
    }
    trial = trial_of(spec, "static")
    assert trial["execution"] == {"mode": "static", "threads": 2}
    assert trial["phases"]["epochs"] == 9 and trial["phases"]["evaluate_every"] == 0
    assert trial["phases"]["measured_seconds"] == MEASURED_SECONDS
    assert spec["execution"]["mode"] == "best" and "measured_seconds" not in spec["phases"]


def test_what_a_trial_tells(tmp_path):
    make_run(tmp_path)
    assert outcome_of("static", tmp_path / "events.jsonl") == {
        "mode": "static", "status": "ok", "reason": None, "throughput": 256.0,
        "first_step_time": 1.0,
    }  # fmt: skip


def test_a_trial_that_failed_has_its_reason_and_no_speed(tmp_path):
    make_run(tmp_path / "a", status="unsupported", reason="no compiler")
    make_run(tmp_path / "b", status="oom", reason="no memory left", steps=12)
    told = [outcome_of(name, tmp_path / name / "events.jsonl") for name in "ab"]
    assert [(t["status"], t["reason"], t["throughput"]) for t in told] == [
        ("unsupported", "no compiler", None),
        ("oom", "no memory left", None),
    ]
    assert told[0]["first_step_time"] is None and told[1]["first_step_time"] == 1.0


def test_the_fastest_of_those_that_passed():
    speeds = {"static": 90.0, "hybrid": 100.0, "imperative": None}
    trials = [{"mode": mode, "throughput": speed} for mode, speed in speeds.items()]
    assert fastest(trials) == "hybrid"
    assert fastest(trials[2:]) is None
