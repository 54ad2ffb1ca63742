"""Metrics of synthetic runs, exactly."""

import random

import pytest

from fixtures.records import event_of, judged, reason, value
from fixtures.runs import (
    GPU_REASON,
    default_telemetry,
    make_run,
    read_events,
    write_events,
)
from touchstone.results.metrics import METRICS
from touchstone.results.record import build_record


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
    assert "does not report" in reason(build_record(folder), "gpu_allocator_peak")
    events = read_events(folder)
    event_of(events, "memory")["device_peak_mib"] = 812.5
    write_events(folder, events)
    assert value(build_record(folder), "gpu_allocator_peak") == 812.5
    cpu = judged(tmp_path / "cpu")
    assert reason(cpu, "gpu_allocator_peak") == "the cell trains on the CPU"


def test_busy_threads_are_the_mean_of_the_samples_in_the_measured_phase(tmp_path):
    def telemetry(end):
        rows = enumerate(default_telemetry(end))
        return [{**row, **({"busy_threads": i} if i > 5 else {})} for i, row in rows]

    # Samples at 105 (which has none), 106, 107 and 108 s.
    assert value(judged(tmp_path, telemetry=telemetry), "busy_threads") == 7.0
