"""What a record makes of the samples of sensors."""

import pytest

from fixtures.records import TIMING, judged, reason, require_valid, value
from fixtures.runs import (
    GPU_REASON,
    default_telemetry,
    edit_json,
    make_run,
    write_telemetry,
)
from touchstone.results.record import build_record
from touchstone.results.run_files import resample


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
    require_valid(record)


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
    require_valid(record)


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


def test_a_sensor_that_falls_silent_is_a_gap_with_its_reason(tmp_path):
    folder = make_run(
        tmp_path,
        gpu=True,
        telemetry=lambda end: [
            {**row, **({"gpu_energy": 10.0 * i, "gpu_power": 10.0} if i < 6 else {})}
            for i, row in enumerate(default_telemetry(end))
        ],
    )
    # Nothing from 105 to 108.75 s, and one sample of the power.
    assert build_record(folder)["flags"] == ["few_samples", "sampling_gaps"]
    edit_json(folder / "env.json", sensors__gpu__missing={"gpu_energy": "NVML: GPU is lost"})
    record = build_record(folder)
    lost = "they do not enclose the measured phase"
    assert reason(record, "gpu_energy") == f"too few samples: {lost} (NVML: GPU is lost)"
    assert reason(record, "gpu_energy_per_image") == reason(record, "gpu_energy")
    assert reason(record, "gpu_energy_integrated") == f"too few samples: {lost}"
    assert value(record, "gpu_power") == 10.0  # at 105 s, the one sample that there was
    require_valid(record)


def test_a_gap_is_more_than_two_intervals(tmp_path):
    def without(*seconds):
        return lambda end: [r for r in default_telemetry(end) if r["t"] - 100 not in seconds]

    assert judged(tmp_path / "a", telemetry=without(6))["flags"] == []
    assert judged(tmp_path / "b", telemetry=without(6, 7))["flags"] == ["sampling_gaps"]
    # Across the phase's edge, too: the samples around it count.
    assert "sampling_gaps" in judged(tmp_path / "c", telemetry=without(4, 5))["flags"]


def test_samples_at_another_interval():
    column = [(10.0 + i, float(i)) for i in range(12) if i not in (5, 6, 7, 8, 9)]
    assert resample(column, 10.0, 22.0, 5.0) == [(10.0, 2.0), (15.0, None)]
    assert resample(column, 20.0, 22.0, 1.0) == [(20.0, 10.0), (21.0, 11.0)]


def test_means_over_the_whole_run_and_per_gpu(tmp_path):
    """Samples of 100, 101, ... s, up to one after the end; memory rises from 512 by 1 a second."""
    folder = make_run(
        tmp_path,
        gpu=True,
        device="gpu",
        telemetry=lambda end: [
            {**row, "gpu_memory": 4000.0 + 100 * i, "gpu_power": 60.0}
            for i, row in enumerate(default_telemetry(end))
        ],
    )
    edit_json(folder / "spec.json", execution__replicas=2)
    times = [row["t"] for row in default_telemetry(109.25)]
    record = build_record(folder)
    last = len(times) - 1
    assert value(record, "host_memory_run") == 512 + last / 2
    assert value(record, "cpu_utilization_run") == 75.0  # 1.5 of 2 cores
    assert value(record, "gpu_memory_run") == 4000 + 100 * last / 2
    assert value(record, "gpu_memory_per_gpu") == (4000 + 100 * last / 2) / 2
    assert value(record, "gpu_power_per_gpu") == 30.0
    require_valid(record)


def test_the_total_training_time_has_the_evaluations_in_it(tmp_path):
    """From 102 to 108.75 s, and 0.5 s of evaluation."""
    record = build_record(make_run(tmp_path))
    assert value(record, "training_time") == 6.75
    assert value(record, "total_training_time") == 7.25
