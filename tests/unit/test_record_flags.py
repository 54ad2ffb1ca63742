"""The flags of synthetic runs: what makes a number doubtful."""

import random

import pytest
from simulate_drift import NOISES, drifting_share

from fixtures.records import judged, reason, value
from fixtures.runs import (
    default_telemetry,
    edit_json,
    make_run,
    read_events,
    write_events,
)
from touchstone.results.record import build_record
from touchstone.results.steadiness import Chunk, drifts


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


@pytest.mark.parametrize("code", [0, 1, -11])
def test_a_crash_after_the_result_is_a_flag(tmp_path, code):
    folder = make_run(tmp_path)
    events = read_events(folder)
    events[-1]["exit_code"] = code
    write_events(folder, events)
    record = build_record(folder)
    assert (record["status"], record["flags"]) == ("ok", ["crashed_at_exit"] if code else [])


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


@pytest.mark.parametrize("wish", [{"phases__warmup_steps": 5}, {"phases__warmup_seconds": 2.5}])
def test_a_short_warmup_matters_where_the_speed_is_not_shown_to_be_steady(tmp_path, wish):
    speeds = {"steady": lambda step: 0.25, "rising": lambda step: 0.25 + step / 64}
    for name, step_seconds in speeds.items():
        folder = make_run(tmp_path / name, step_seconds=step_seconds)
        edit_json(folder / "spec.json", **wish)
        flags = ["short_warmup", "drifting"] if name == "rising" else []
        assert build_record(folder)["flags"] == flags
    folder = make_run(tmp_path / "untested", epochs=1)
    edit_json(folder / "spec.json", **wish)
    assert build_record(folder)["flags"] == ["short_warmup", "drift_untested"]


@pytest.mark.parametrize(
    ("memory", "flagged"),
    [
        ({105: 500.0}, True),  # nothing to compare it with
        ({105: 500.0, 110: 520.0}, False),
        ({105: 500.0, 110: 600.0}, True),
        ({105: 500.0, 107: 520.0, 110: 900.0}, True),
        ({105: 500.0, 106: 700.0, 107: 900.0}, False),  # three are a mean
        ({104: 100.0, 110: 100.0}, True),  # none in the phase from 105 to 108.75 s
    ],
)
def test_few_samples_matter_where_they_do_not_agree(tmp_path, memory, flagged):
    def telemetry(end):
        return [{**row, "host_memory": memory.get(row["t"], "")} for row in default_telemetry(end)]

    assert ("few_samples" in judged(tmp_path, telemetry=telemetry)["flags"]) == flagged


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


def test_drift_is_found_in_a_smooth_curve_without_noise():
    assert drifts(ends([1 + (i / 400) ** 2 / 5 for i in range(400)]), 50.0)


@pytest.mark.parametrize("noise", NOISES)
def test_few_undisturbed_runs_are_called_drifting(noise):
    """In 300 runs 5 % are exceeded by 3 standard errors at 8.8 %. Where chunks are alike for as
    long as a short run lasts, no test can tell that from a drift."""
    for chunks in (100,) if noise == "AR(1) 0.95" else (20, 100):
        assert drifting_share(noise, chunks, runs=300, seed=1) < 0.088
    assert drifting_share("normal", 100, runs=100, seed=1, change=0.4) > 0.9


def test_drift_rarely_flags_pure_noise():
    rng = random.Random(2)
    flagged = sum(
        drifts(ends([rng.lognormvariate(0, 0.2) for _ in range(40)]), 50.0) for _ in range(300)
    )
    assert flagged <= 9  # 1 % expected; 9 of 300 has a probability below 0.5 %
