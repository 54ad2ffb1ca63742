"""Evaluations, losses and the time to an accuracy of synthetic runs."""

import math

import pytest

from fixtures.records import TIMING, judged, reason, require_valid, value
from fixtures.runs import (
    edit_json,
    make_run,
    read_events,
    write_events,
)
from touchstone.results.files import InputError
from touchstone.results.record import build_record

PAUSE = 4.0


def interrupted(folder, target=None, correct=(50, 90), **options):
    """The default run with an evaluation of 4 s after its first epoch, at 106.25 s.

    While it evaluates it uses no CPU time, and has 10,000 MiB more.
    """

    def during(t):
        return 106.25 < t < 106.25 + PAUSE

    def telemetry(end):
        rows = []
        for i in range(int((end + PAUSE - 100) * 4) + 8):
            t = 100 + i / 4
            worked = min(t, 106.25) - 100 + max(t - 106.25 - PAUSE, 0)
            memory = 512.0 + 10_000 * during(t)
            rows.append({"t": t, "cpu_seconds": 1.5 * worked, "host_memory": memory,
                         "machine_cpu_seconds": 1.5 * worked + 2 * PAUSE * during(t)})  # fmt: skip
        return rows

    make_run(folder, telemetry=telemetry, correct=correct[-1], **options)
    events = []
    for event in read_events(folder):
        if event.get("begin", 0) >= 106.25:
            event |= {"begin": event["begin"] + PAUSE, "end": event["end"] + PAUSE}
        if event.get("name") == "measured":
            first = {"begin": 105.0, "end": 106.25, "steps": 5, "examples": 5 * 64}
            last = {"begin": 106.25 + PAUSE, "end": 108.75 + PAUSE}
            events.append({"event": "phase", "name": "measured", **first})
            pause = {"begin": 106.25, "end": 106.25 + PAUSE}
            events.append({"event": "phase", "name": "evaluation", **pause})
            told = {"epoch": 1, "step": 10, "examples": 100, "correct": correct[0], "loss": 0.5}
            events.append({"event": "evaluation", **told})
            event |= {**last, "steps": 10, "examples": 10 * 64}
        events.append(event)
    write_events(folder, events)
    edit_json(folder / "spec.json", phases__evaluate_every=1, phases__target_accuracy=target)
    record = build_record(folder)
    require_valid(record)
    return record


def test_an_evaluation_in_the_measured_phase_changes_no_number(tmp_path):
    plain, record = judged(tmp_path / "plain"), interrupted(tmp_path / "interrupted")
    names = (*TIMING, "step_time_p50", "test_accuracy", "final_loss", "cpu_cores")
    assert {n: value(record, n) for n in names} == {n: value(plain, n) for n in names}
    assert value(record, "host_memory") == 512.0
    assert record["phases"]["measured"] == 3.75 and record["phases"]["evaluation"] == 4.5
    assert record["flags"] == []
    assert record["evaluations"] == [
        {"epoch": 1, "accuracy": 0.5, "loss": 0.5, "seconds": 106.25 - 102.0},
        {"epoch": 2, "accuracy": 0.9, "loss": 0.25, "seconds": 108.75 - 102.0},
    ]
    assert plain["evaluations"] == record["evaluations"][1:]


@pytest.mark.parametrize(
    "target, seconds, epochs", [(0.5, 4.25, 1), (0.51, 6.75, 2), (0.9, 6.75, 2)]
)
def test_time_to_accuracy_leaves_evaluations_out(tmp_path, target, seconds, epochs):
    record = interrupted(tmp_path, target)
    assert value(record, "time_to_accuracy") == seconds
    assert value(record, "epochs_to_accuracy") == epochs


def test_a_target_that_was_not_reached_is_censored(tmp_path):
    record = interrupted(tmp_path, 0.91)
    for name, unit, last in (("time_to_accuracy", "s", 6.75), ("epochs_to_accuracy", "epochs", 2)):
        assert record["metrics"][name] == {
            "value": None, "unit": unit, "reason": "not reached within 2 epochs",
            "censored_at": last,
        }  # fmt: skip


def test_without_a_target_there_is_no_time_to_it(tmp_path):
    metric = judged(tmp_path)["metrics"]["time_to_accuracy"]
    assert metric == {"value": None, "unit": "s", "reason": "the cell has no target accuracy"}


def test_a_run_that_diverged_is_not_censored(tmp_path):
    make_run(tmp_path, status="diverged", steps=15, reason="the loss is nan at step 15")
    edit_json(tmp_path / "spec.json", phases__target_accuracy=0.5)
    metric = build_record(tmp_path)["metrics"]["time_to_accuracy"]
    assert metric == {"value": None, "unit": "s",
                      "reason": "diverged: the loss is nan at step 15"}  # fmt: skip


def test_losses_that_are_not_finite_are_null_in_an_ok_run(tmp_path):
    record = judged(tmp_path, loss=lambda step: math.inf if step == 19 else 1.0)
    assert reason(record, "final_loss") == "a loss of the last epoch is not finite"
    assert value(record, "throughput") == 256.0


def test_the_partial_batch_of_an_epoch_is_dropped(tmp_path):
    record = judged(tmp_path, train_examples=700, loss=float)  # 700 // 64 = 10 steps an epoch
    assert record["losses"] == [{"epoch": 1, "loss": 4.5}, {"epoch": 2, "loss": 14.5}]
    assert value(record, "final_loss") == 14.5


def test_a_partial_batch_that_is_kept_counts_its_own_examples(tmp_path):
    make_run(tmp_path)
    # Ten steps an epoch as before, but the last of them has 24 examples.
    edit_json(tmp_path / "spec.json", data__train_examples=600, phases__last_batch="keep")
    with pytest.raises(InputError, match="its steps x batch size are"):
        build_record(tmp_path)
    events = read_events(tmp_path)
    measured = next(e for e in events if e.get("name") == "measured")
    seconds = measured["end"] - measured["begin"]
    measured["examples"] -= 2 * (64 - 24)
    write_events(tmp_path, events)
    record = build_record(tmp_path)
    assert record["status"] == "ok"
    assert value(record, "throughput") == measured["examples"] / seconds
    assert value(record, "step_rate") == measured["steps"] / seconds


def test_the_training_accuracy_is_that_of_the_whole_training_set(tmp_path):
    record = build_record(make_run(tmp_path))
    why = "the cell does not ask for it (`training_accuracy: true`)"
    assert reason(record, "training_accuracy") == why
    edit_json(tmp_path / "spec.json", phases__training_accuracy=True)
    assert (
        reason(build_record(tmp_path), "training_accuracy") == "the training set was not evaluated"
    )
    events = read_events(tmp_path)
    fit = {"event": "fit", "examples": 640, "correct": 480, "loss": 0.5}
    write_events(tmp_path, [*events[:-1], fit, events[-1]])
    assert value(build_record(tmp_path), "training_accuracy") == 0.75
    write_events(tmp_path, [*events[:-1], {**fit, "examples": 100}, events[-1]])
    with pytest.raises(InputError, match="the training set has 640"):
        build_record(tmp_path)


def limited(folder, steps):
    """The default run, of a cell of 20 epochs that ends after so many measured steps."""
    make_run(folder)
    edit_json(folder / "spec.json", phases__epochs=20, phases__measured_steps=steps)
    events = [e for e in read_events(folder) if "evaluation" not in (e["event"], e.get("name"))]
    write_events(folder, events)
    return folder


def test_a_run_that_ends_after_its_steps_has_no_accuracy_and_the_loss_of_its_last_whole_epoch(
    tmp_path,
):
    record = build_record(limited(tmp_path, 15))
    assert record["status"] == "ok" and value(record, "throughput") == 256.0
    why = "the cell ends after 15 measured steps, without an evaluation"
    assert (value(record, "test_accuracy"), reason(record, "test_accuracy")) == (None, why)
    assert value(record, "final_loss") == (0.25 + 0.125 + 2 * 1.875) / 10
    with pytest.raises(InputError, match="after 20 of 21 planned steps"):
        build_record(limited(tmp_path / "short", 16))
