"""parse_run: exact metrics of synthetic runs, flags, and refusals."""

import copy
import json
import math
import random
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from fixtures.runs import (
    GPU_REASON,
    LOG_TAIL,
    default_telemetry,
    edit_json,
    make_run,
    read_events,
    write_events,
    write_telemetry,
)
from touchstone.paths import CLI, RECORD_SCHEMA, SCRIPTS
from touchstone.results.files import InputError
from touchstone.results.metrics import FLAGS, METRICS, PHASES, STATUSES
from touchstone.results.record import build_record
from touchstone.results.run_files import resample
from touchstone.results.steadiness import Chunk, drifts

SCHEMA = json.loads(RECORD_SCHEMA.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
TIMING = ("throughput", "step_rate", "first_step_time", "training_time")


def value(record, name):
    return record["metrics"][name]["value"]


def reason(record, name):
    return record["metrics"][name]["reason"]


def judged(folder, **options):
    record = build_record(make_run(folder, **options))
    VALIDATOR.validate(record)
    return record


def parse(folder, output):
    command = [sys.executable, CLI, "parse", folder, "--output", output]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_default_run_has_the_hand_computed_metrics(tmp_path):
    record = judged(tmp_path)
    expected = {
        "throughput": 15 * 64 / 3.75,
        "step_rate": 15 / 3.75,
        "first_step_time": 1.0,
        "training_time": 108.75 - 102.0,
        "test_accuracy": 0.9,
        # steps 10 to 19: 2^-2, 2^-3, then 1, 1/2, 1/4, 1/8 twice
        "final_loss": (0.25 + 0.125 + 2 * 1.875) / 10,
        "cpu_cores": 1.5,
        "cpu_utilization": 75.0,
        "other_cpu_utilization": 6.25,  # 0.125 of 2 cores
        "host_memory": (517 + 518 + 519 + 520) / 4,  # samples at 105, 106, 107 and 108 s
        "host_memory_peak": 522.0,
    }
    assert {name: value(record, name) for name in expected} == expected
    assert record["flags"] == []
    assert record["losses"][0] == {"epoch": 1, "loss": (2 * 1.875 + 1 + 0.5) / 10}
    assert record["phases"]["measured"] == 3.75
    assert {name: m["unit"] for name, m in record["metrics"].items()} == {
        name: m.unit for name, m in METRICS.items()
    }
    for name in ("gpu_utilization", "gpu_memory", "gpu_memory_peak", "gpu_power", "gpu_energy"):
        assert reason(record, name) == GPU_REASON


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
    VALIDATOR.validate(record)
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


def test_throughput_is_total_over_total_not_a_mean_of_rates(tmp_path):
    # 5 steps of 0.25 s, then 10 steps of 1 s: total 960 / 11.25, mean of rates 960 / 15 x 2.1
    record = judged(tmp_path, step_seconds=lambda step: 0.25 if step < 10 else 1.0)
    assert value(record, "throughput") == 960 / 11.25
    mean_of_rates = (5 * 64 / 0.25 + 10 * 64 / 1.0) / 15
    assert mean_of_rates == pytest.approx(128) and value(record, "throughput") < 86


@pytest.mark.parametrize("seed", range(20))
def test_throughput_property(tmp_path, seed):
    rng = random.Random(seed)
    times = [rng.choice([0.125, 0.25, 0.5, 2.0]) for _ in range(15)]
    record = judged(tmp_path, step_seconds=lambda step: times[step - 5])
    assert value(record, "throughput") == 960 / sum(times)
    assert value(record, "step_rate") * 64 == pytest.approx(value(record, "throughput"))


def test_counters_are_interpolated_at_the_edges_of_uneven_samples(tmp_path):
    folder = make_run(tmp_path)  # measured phase 105 to 108.75
    rows = [
        {"t": 100.0, "cpu_seconds": 40.0, "gpu_energy": 7000.0, "host_memory": 1.0},
        {"t": 104.0, "cpu_seconds": 42.0, "gpu_energy": 7400.0, "host_memory": 1.0},
        {"t": 106.0, "cpu_seconds": 45.0, "gpu_energy": 8000.0, "host_memory": 10.0},
        {"t": 108.0, "cpu_seconds": 49.0, "host_memory": 40.0},
        {"t": 110.0, "cpu_seconds": 51.0, "gpu_energy": 9200.0, "host_memory": 900.0},
    ]
    write_telemetry(folder, rows)
    record = build_record(folder)
    # cpu: 43.5 at 105 s, 49.75 at 108.75 s; energy: 7700, 8000 + 1200 x 2.75 / 4 = 8825
    assert value(record, "cpu_cores") == (49.75 - 43.5) / 3.75
    assert value(record, "cpu_utilization") == (49.75 - 43.5) / 3.75 / 2 * 100
    assert value(record, "gpu_energy") == 8825.0 - 7700.0
    assert value(record, "host_memory") == 25.0
    assert value(record, "host_memory_peak") == 900.0
    # The energy counter was silent from 106 to 110 s.
    assert record["flags"] == ["few_samples", "sampling_gaps"]


def test_samples_that_do_not_enclose_the_phase_are_not_extrapolated(tmp_path):
    folder = make_run(tmp_path)
    write_telemetry(folder, default_telemetry(107.0)[:8])  # the last at 107 s, the phase to 108.75
    record = build_record(folder)
    for name in ("cpu_cores", "cpu_utilization"):
        assert value(record, name) is None
        assert reason(record, name) == "too few samples: they do not enclose the measured phase"
    assert value(record, "host_memory") == 518.0
    VALIDATOR.validate(record)


def test_no_sample_in_the_phase_is_null_with_its_reason(tmp_path):
    folder = make_run(tmp_path)
    write_telemetry(folder, [r for r in default_telemetry(112.0) if not 105 <= r["t"] <= 108.75])
    record = build_record(folder)
    assert reason(record, "host_memory") == "too few samples: none in the measured phase"
    assert value(record, "cpu_cores") == 1.5  # the samples around it suffice for a counter
    assert "few_samples" in record["flags"]


def test_a_counter_that_falls_is_no_number(tmp_path):
    folder = make_run(tmp_path)
    rows = default_telemetry(112.0)
    write_telemetry(folder, [{**row, "cpu_seconds": 500.0 - row["t"]} for row in rows])
    assert "fell" in reason(build_record(folder), "cpu_cores")


def test_a_missing_sensor_gives_its_reason_and_an_unnamed_one_says_so(tmp_path):
    folder = make_run(tmp_path)
    write_telemetry(folder, [])
    record = build_record(folder)
    assert reason(record, "gpu_power") == GPU_REASON
    assert reason(record, "host_memory") == "no sensor gave host_memory"
    assert all(value(record, name) is not None for name in TIMING)
    VALIDATOR.validate(record)


def test_gpu_columns(tmp_path):
    gpu = {"gpu_utilization": 80.0, "gpu_memory": 1024.0, "gpu_power": 300.0}
    record = judged(
        tmp_path,
        gpu=True,
        telemetry=lambda end: [
            {**row, **gpu, "gpu_energy": 1e6 + 300.0 * i}
            for i, row in enumerate(default_telemetry(end))
        ],
    )
    for name in ("gpu_utilization", "gpu_memory", "gpu_power"):
        assert value(record, name) == gpu[name]
    assert value(record, "gpu_memory_peak") == 1024.0
    assert value(record, "gpu_energy") == 300.0 * 3.75


def with_gpu(**columns):
    """Telemetry with constant GPU columns, or functions of seconds since the run's begin."""

    def telemetry(end):
        return [
            {**row, **{k: v(row["t"] - 100) if callable(v) else v for k, v in columns.items()}}
            for row in default_telemetry(end)
        ]

    return {"gpu": True, "telemetry": telemetry}


def test_what_more_the_gpu_tells(tmp_path):
    record = judged(
        tmp_path,
        **with_gpu(
            gpu_energy=lambda t: 1000.0 + 250.0 * t,
            gpu_power=lambda t: 50.0 * t,  # at 5 s 250 W, at 8.75 s 437.5 W
            gpu_temperature=lambda t: 40.0 + t,
            gpu_process_memory=lambda t: 100.0 * t,
            gpu_sm_clock=1980.0,
            gpu_throttle_reasons=0,
        ),
    )
    assert value(record, "gpu_energy") == 250.0 * 3.75
    assert value(record, "gpu_energy_per_image") == 250.0 * 3.75 / 960
    assert value(record, "gpu_energy_integrated") == (250 + 437.5) / 2 * 3.75
    assert value(record, "gpu_temperature") == 46.5  # samples at 5, 6, 7 and 8 s
    assert value(record, "gpu_temperature_peak") == 50.0
    assert value(record, "gpu_process_memory_peak") == 1000.0
    assert value(record, "gpu_sm_clock") == 1980.0
    assert reason(record, "gpu_pcie_tx") == "no sensor gave gpu_pcie_tx"
    assert record["flags"] == ["energy_disagrees"]


@pytest.mark.parametrize(
    "bits, flags",
    [
        (0x1, []),  # idle
        (0x4, ["power_capped"]),
        (0x20, ["throttled"]),
        (0x8 | 0x4, ["throttled", "power_capped"]),
    ],
)
def test_throttle_reasons(tmp_path, bits, flags):
    once = with_gpu(gpu_throttle_reasons=lambda t: bits if t == 7 else 0)
    assert judged(tmp_path / "a", **once)["flags"] == flags
    early = with_gpu(gpu_throttle_reasons=lambda t: bits if t == 3 else 0)
    assert judged(tmp_path / "b", **early)["flags"] == []


def test_the_kernels_counters_are_rates_of_the_measured_phase(tmp_path):
    def telemetry(end):
        return [
            {
                **row,
                "context_switches": 100.0 * i, "involuntary_context_switches": 25.0 * i,
                "minor_page_faults": 50.0 * i, "major_page_faults": 4.0 * i,
                "disk_read": 2e6 * i, "disk_written": 1e6 * i,
                "network_received": 3e6 * i, "network_sent": 5e5 * i,
                "cpu_energy": 40.0 * i, "host_memory_high_water": 900.0 - i,
            }
            for i, row in enumerate(default_telemetry(end))
        ]  # fmt: skip

    record = judged(tmp_path, telemetry=telemetry)
    expected = {
        "context_switch_rate": 100.0, "involuntary_context_switch_rate": 25.0,
        "minor_page_fault_rate": 50.0, "major_page_faults": 15.0, "disk_read_rate": 2.0,
        "disk_write_rate": 1.0, "network_receive_rate": 3.0, "network_send_rate": 0.5,
        "cpu_energy": 150.0, "cpu_energy_per_image": 150.0 / 960,
        "cpu_time_per_1000_images": 1.5 * 3.75 / 0.96, "host_memory_high_water": 900.0,
    }  # fmt: skip
    assert {name: value(record, name) for name in expected} == expected


def test_percentiles_of_step_times(tmp_path):
    # 200 measured steps of 64 examples: 100 of 1/8 s, 94 of 1/4, 4 of 1/2, 2 of 1 s, shuffled.
    times = [0.125] * 100 + [0.25] * 94 + [0.5] * 4 + [1.0] * 2
    random.Random(3).shuffle(times)
    options = {"epochs": 205, "train_examples": 64, "step_seconds": lambda step: times[step - 5]}
    record = judged(tmp_path / "a", **options)
    found = [value(record, f"step_time_p{p}") for p in (50, 95, 99)]
    assert found == [125.0, 250.0, 500.0]
    short = judged(tmp_path / "b")  # 15 chunks
    assert value(short, "step_time_p50") == 250.0
    assert reason(short, "step_time_p95") == "too few chunks: 15, and it takes 20"


def test_a_long_chunk_counts_with_all_its_steps(tmp_path):
    folder = make_run(tmp_path)
    events = read_events(folder)
    chunks = [e for e in events if e["event"] == "chunk" and e["phase"] == "measured"]
    merged = {**chunks[0], "steps": 8, "end": chunks[7]["end"], "losses": [0.5] * 8}
    kept = [e for e in events if e not in chunks[1:8]]
    write_events(folder, [merged if e == chunks[0] else e for e in kept])
    assert value(build_record(folder), "step_time_p50") == 250.0
    late = [e for e in kept if e["event"] == "chunk" and e["phase"] == "measured"][1:]
    for chunk in late:  # 8 steps in 2.5 s, 7 in 1.25 s
        chunk["end"] = 107.5 + 1.25 / 7 * (late.index(chunk) + 1)
    slower = {**merged, "end": 107.5}
    write_events(folder, [slower if e == chunks[0] else e for e in kept])
    assert value(build_record(folder), "step_time_p50") == 312.5


def test_the_allocators_peak(tmp_path):
    folder = make_run(tmp_path, device="gpu", gpu=True)
    assert "does not tell" in reason(build_record(folder), "gpu_allocator_peak")
    events = read_events(folder)
    of(events, "memory")["device_peak_mib"] = 812.5
    write_events(folder, events)
    assert value(build_record(folder), "gpu_allocator_peak") == 812.5
    cpu = judged(tmp_path / "cpu")
    assert reason(cpu, "gpu_allocator_peak") == "the cell trains on the CPU"


def test_a_sensor_that_falls_silent_is_a_gap_with_its_reason(tmp_path):
    folder = make_run(
        tmp_path,
        gpu=True,
        telemetry=lambda end: [
            {**row, **({"gpu_energy": 10.0 * i, "gpu_power": 10.0} if i < 6 else {})}
            for i, row in enumerate(default_telemetry(end))
        ],
    )
    assert build_record(folder)["flags"] == ["sampling_gaps"]  # nothing from 105 to 108.75 s
    edit_json(folder / "env.json", sensors__gpu__missing={"gpu_energy": "NVML: GPU is lost"})
    record = build_record(folder)
    lost = "they do not enclose the measured phase"
    assert reason(record, "gpu_energy") == f"too few samples: {lost} (NVML: GPU is lost)"
    assert reason(record, "gpu_energy_per_image") == reason(record, "gpu_energy")
    assert reason(record, "gpu_energy_integrated") == f"too few samples: {lost}"
    assert value(record, "gpu_power") == 10.0  # at 105 s, the one sample that there was
    VALIDATOR.validate(record)


def test_a_gap_is_more_than_two_intervals(tmp_path):
    def without(*seconds):
        return lambda end: [r for r in default_telemetry(end) if r["t"] - 100 not in seconds]

    assert judged(tmp_path / "a", telemetry=without(6))["flags"] == []
    assert judged(tmp_path / "b", telemetry=without(6, 7))["flags"] == [
        "few_samples", "sampling_gaps",
    ]  # fmt: skip
    # Across the phase's edge, too: the samples around it count.
    assert "sampling_gaps" in judged(tmp_path / "c", telemetry=without(4, 5))["flags"]


def test_samples_at_another_interval():
    column = [(10.0 + i, float(i)) for i in range(12) if i not in (5, 6, 7, 8, 9)]
    assert resample(column, 10.0, 22.0, 5.0) == [(10.0, 2.0), (15.0, None)]
    assert resample(column, 20.0, 22.0, 1.0) == [(20.0, 10.0), (21.0, 11.0)]


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


def test_losses_that_are_not_finite_are_null_in_an_ok_run(tmp_path):
    record = judged(tmp_path, loss=lambda step: math.inf if step == 19 else 1.0)
    assert reason(record, "final_loss") == "a loss of the last epoch is not finite"
    assert value(record, "throughput") == 256.0


def test_the_partial_batch_of_an_epoch_is_dropped(tmp_path):
    record = judged(tmp_path, train_examples=700, loss=float)  # 700 // 64 = 10 steps an epoch
    assert record["losses"] == [{"epoch": 1, "loss": 4.5}, {"epoch": 2, "loss": 14.5}]
    assert value(record, "final_loss") == 14.5


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


# Flags


def test_noisy_machine(tmp_path):
    def telemetry(cores):
        return lambda end: [
            {**row, "machine_cpu_seconds": 9.0 + (1.5 + cores) * i}
            for i, row in enumerate(default_telemetry(end))
        ]

    assert judged(tmp_path / "a", telemetry=telemetry(0.1875))["flags"] == []  # 9.4 % of 2
    assert judged(tmp_path / "b", telemetry=telemetry(0.25))["flags"] == ["noisy_machine"]


def test_a_run_that_was_ended_is_judged_by_all_of_its_samples(tmp_path):
    def telemetry(end):
        return [
            {**row, "machine_cpu_seconds": 9.0 + 2.5 * i}
            for i, row in enumerate(default_telemetry(end))
        ]

    for status, flags in (("timeout", ["noisy_machine"]), ("error", [])):
        options = {"status": status, "reason": "slow", "steps": 8, "telemetry": telemetry}
        record = judged(tmp_path / status, **options)
        assert record["flags"] == flags
        assert value(record, "other_cpu_utilization") == (50.0 if flags else None)
    # Without two samples nobody knows.
    options = {"status": "timeout", "reason": "slow", "steps": 8}
    record = judged(tmp_path / "few", telemetry=lambda end: default_telemetry(end)[:1], **options)
    assert reason(record, "other_cpu_utilization") == "timeout: slow" and record["flags"] == []


def test_the_clocks_of_the_machine_and_the_run_may_differ_by_a_tick(tmp_path):
    def telemetry(end):
        return [
            {**row, "machine_cpu_seconds": 9.0 + 1.499 * i}
            for i, row in enumerate(default_telemetry(end))
        ]

    assert value(judged(tmp_path, telemetry=telemetry), "other_cpu_utilization") == 0.0


@pytest.mark.parametrize("threads", [2, 1])
def test_threads_that_sleep_between_operations(tmp_path, threads):
    def flags(name, rate):
        def telemetry(end):
            rows = enumerate(default_telemetry(end))
            return [{**row, "context_switches": rate * i} for i, row in rows]

        folder = make_run(tmp_path / name, telemetry=telemetry)
        edit_json(folder / "env.json", run__threads=threads)
        return build_record(folder)["flags"]

    assert flags("a", 3000.0 * threads) == []
    assert flags("b", 3001.0 * threads) == ["threads_sleep"]


def test_busy_threads_are_the_mean_of_the_samples_in_the_measured_phase(tmp_path):
    def telemetry(end):
        rows = enumerate(default_telemetry(end))
        return [{**row, **({"busy_threads": i} if i > 5 else {})} for i, row in rows]

    # Samples at 105 (which has none), 106, 107 and 108 s.
    assert value(judged(tmp_path, telemetry=telemetry), "busy_threads") == 7.0


@pytest.mark.parametrize("wish", [{"phases__warmup_steps": 5}, {"phases__warmup_seconds": 2.5}])
def test_short_warmup(tmp_path, wish):
    folder = make_run(tmp_path)
    edit_json(folder / "spec.json", **wish)
    assert build_record(folder)["flags"] == ["short_warmup"]


def test_settings_differ_only_beyond_float32(tmp_path):
    folder = make_run(tmp_path)  # its learning rate is off by 1e-9, its threads were left open
    assert build_record(folder)["flags"] == []
    events = read_events(folder)
    settings = next(event for event in events if event["event"] == "settings")
    settings["effective"]["learning_rate"] = 0.0501
    write_events(folder, events)
    assert build_record(folder)["flags"] == ["settings_differ"]


def test_drifting_run(tmp_path):
    record = judged(tmp_path / "a", step_seconds=lambda step: 0.25 + step / 64)
    assert record["flags"] == ["drifting"]
    short = judged(tmp_path / "b", epochs=1)
    assert "drift_untested" in short["flags"]


def ends(times):
    chunks, t = [], 50.0
    for time in times:
        t += time
        chunks.append(Chunk(4, t))
    return chunks


def test_drift_needs_size_and_significance():
    rng = random.Random(1)
    noise = [rng.lognormvariate(0, 0.03) for _ in range(400)]
    trend = [1 + i / 400 for i in range(400)]
    assert drifts(ends(noise), 50.0) is False
    assert drifts(ends([n * (1 + 0.2 * (x - 1)) for n, x in zip(noise, trend, strict=True)]), 50.0)
    assert drifts(ends([n / (1 + 0.2 * (x - 1)) for n, x in zip(noise, trend, strict=True)]), 50.0)
    assert drifts(ends([1 + i / 10000 for i in range(400)]), 50.0) is False  # 4 %, though certain
    wobble = [1 + 0.03 * i / 400 + (0.005 if i // 20 % 2 else -0.005) for i in range(400)]
    assert drifts(ends(wobble), 50.0) is False  # 3 %, though neighbours differ by more
    assert drifts(ends([1.0] * 399 + [500.0]), 50.0) is False  # one outlier is no trend
    assert drifts(ends([1.0] * 9), 50.0) is None


def test_drift_rarely_flags_pure_noise():
    rng = random.Random(2)
    flagged = sum(
        drifts(ends([rng.lognormvariate(0, 0.2) for _ in range(40)]), 50.0) for _ in range(300)
    )
    assert flagged <= 9  # 1 % expected; 9 of 300 has a probability below 0.5 %


# Refusals


def edit_events(change):
    def edit(folder):
        events = read_events(folder)
        change(events)
        write_events(folder, events)

    return edit


def of(events, name):
    return next(event for event in events if event["event"] == name)


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
    "phase without end": (
        edit_events(lambda e: of(e, "phase").pop("end")),
        "events.jsonl",
        "'end' is None",
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
        edit_events(lambda e: of(e, "result").update(status="oom")),
        "events.jsonl",
        "['oom']",
    ),
    "examples inflated": (
        edit_events(lambda e: [x.update(examples=9600) for x in e if x.get("name") == "measured"]),
        "events.jsonl",
        "steps x batch size are 960",
    ),
    "part of the test set": (
        edit_events(lambda e: of(e, "evaluation").update(examples=96)),
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
    VALIDATOR.validate(record)
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


# Schema


def break_at(path, new):
    def change(record):
        part = record
        for key in path[:-1]:
            part = part[key]
        if new is KeyError:
            del part[path[-1]]
        else:
            part[path[-1]] = new

    return change


@pytest.mark.parametrize(
    "change",
    [
        break_at(["format"], 2),
        break_at(["status"], "fine"),
        break_at(["reason"], "an ok run needs none"),
        break_at(["status"], "oom"),  # without a reason
        break_at(["extra"], 1),
        break_at(["repeat"], 0),
        break_at(["flags"], ["fast"]),
        break_at(["metrics", "throughput"], KeyError),
        break_at(["metrics", "speed"], {"value": 1, "unit": "1"}),
        break_at(["metrics", "throughput", "unit"], "images"),
        break_at(["metrics", "step_rate"], {"value": None, "unit": "steps/s", "reason": "lost"}),
        break_at(["metrics", "gpu_power"], {"value": None, "unit": "W"}),
        break_at(["metrics", "cpu_cores", "reason"], "a number has none"),
        break_at(["metrics", "cpu_cores", "value"], "1.5"),
        break_at(["phases", "pause"], 1.0),
        break_at(["phases", "measured"], -1.0),
        break_at(["factors", "framework"], KeyError),
        break_at(["provenance", "seed"], KeyError),
        break_at(["log_tail"], ["an ok run has none"]),
        break_at(["provenance", "start"], KeyError),
        break_at(["losses"], [{"epoch": 0, "loss": 1.0}]),
    ],
)
def test_schema_rejects(tmp_path, change):
    record = judged(tmp_path)
    bad = copy.deepcopy(record)
    change(bad)
    assert VALIDATOR.is_valid(record) and not VALIDATOR.is_valid(bad)


def test_schema_names_what_the_code_names():
    Draft202012Validator.check_schema(SCHEMA)
    properties = SCHEMA["properties"]
    units = {k: v["allOf"][1]["properties"]["unit"]["const"] for k, v in
             properties["metrics"]["properties"].items()}  # fmt: skip
    assert units == {name: metric.unit for name, metric in METRICS.items()}
    assert properties["metrics"]["required"] == list(METRICS)
    assert properties["flags"]["items"]["enum"] == list(FLAGS)
    assert properties["status"]["enum"] == list(STATUSES)
    assert list(properties["phases"]["properties"]) == list(PHASES)
