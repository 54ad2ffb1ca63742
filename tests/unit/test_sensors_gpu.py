"""The GPU's sensor on a recorded trace of NVML's readings."""

import sys
from types import SimpleNamespace

import pytest

from fixtures.nvml import PID, TRACE, ReplayedNvml
from fixtures.runs import edit_json, make_run, write_telemetry
from touchstone.measure.sensors import Watched, gpu
from touchstone.results.record import build_record


def value(record, name):
    return record["metrics"][name]["value"]


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Read a trace with the sensor, and judge a run of which it is the telemetry."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def run(samples=TRACE["samples"], **properties):
        nvml = ReplayedNvml(samples)
        for name, setting in properties.items():
            setattr(nvml, name, setting)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        watched = Watched(PID, "gpu", processes=[PID])
        assert gpu.unavailable(watched) is None
        sensor = gpu.Sensor(watched)
        rows = []
        for nvml.at, sample in enumerate(samples):
            read = sensor.sample()
            assert list(read) == list(gpu.COLUMNS)
            rows.append({"t": sample["t"], **{k: v for k, v in read.items() if v is not None}})
        folder = make_run(tmp_path, device="gpu", gpu=True)
        write_telemetry(folder, rows)
        edit_json(folder / "env.json", sensors__gpu__missing=sensor.missing)
        return SimpleNamespace(record=build_record(folder), rows=rows, sensor=sensor)

    return run


def changed(**changes):
    """The trace's samples, each field changed by a function of its value."""
    return [{**s, **{k: f(s[k]) for k, f in changes.items()}} for s in TRACE["samples"]]


def test_energy_by_counter_and_by_integration(replay):
    run = replay()
    assert value(run.record, "gpu_energy") == pytest.approx(TRACE["joules"], rel=1e-3)
    assert value(run.record, "gpu_energy_integrated") == pytest.approx(TRACE["joules"], rel=5e-3)
    per_image = TRACE["joules"] / 960
    assert value(run.record, "gpu_energy_per_image") == pytest.approx(per_image, rel=1e-3)
    assert "energy_disagrees" not in run.record["flags"]
    assert run.sensor.missing == {}


def test_every_reading_is_in_its_unit(replay):
    run = replay()
    now = next(row for row in run.rows if row["t"] == 107.29)
    energy = TRACE["samples"][8]["energy_mj"] - TRACE["samples"][0]["energy_mj"]
    assert now == {
        "t": 107.29, "gpu_energy": energy / 1000, "gpu_power": 656.625,
        "gpu_power_instant": 672.5, "gpu_utilization": 97, "gpu_memory": 5120.0,
        "gpu_process_memory": 4608.0, "gpu_temperature": 39, "gpu_sm_clock": 1980,
        "gpu_memory_clock": 3201, "gpu_throttle_reasons": 4, "gpu_pcie_tx": 120.0,
        "gpu_pcie_rx": 2400.0,
    }  # fmt: skip
    assert "power_capped" in run.record["flags"] and "throttled" not in run.record["flags"]


@pytest.mark.parametrize(
    "factor, flagged", [(1.04, False), (1.06, True), (0.96, False), (0.94, True)]
)
def test_counter_and_integral_that_differ_by_5_percent(replay, factor, flagged):
    samples = changed(power_average_mw=lambda power: round(power * factor))
    assert ("energy_disagrees" in replay(samples).record["flags"]) is flagged


def test_a_counter_that_wraps(replay):
    size = gpu.ENERGY_SIZE
    middle = TRACE["samples"][7]["energy_mj"]
    run = replay(changed(energy_mj=lambda energy: (energy - middle) % size))
    assert value(run.record, "gpu_energy") == pytest.approx(TRACE["joules"], rel=1e-3)
    assert "energy_disagrees" not in run.record["flags"]


def test_a_counter_that_is_reset_shows_in_the_integral(replay):
    middle = TRACE["samples"][7]["energy_mj"]
    samples = changed(energy_mj=lambda energy: energy - (middle if energy >= middle else 0))
    run = replay(samples)
    # What came between the last reading and the reset is lost, here 1 of 3.75 s, and flagged.
    assert 0.6 < value(run.record, "gpu_energy") / TRACE["joules"] < 0.8
    assert "energy_disagrees" in run.record["flags"]


def test_a_device_that_vanishes(replay):
    run = replay(lost_at=7)
    assert [len(row) for row in run.rows] == [13] * 7 + [1] * 6  # only the time
    assert run.sensor.missing == dict.fromkeys(gpu.COLUMNS, "NVML: GPU is lost")
    lost = run.record["metrics"]["gpu_energy"]
    assert lost["value"] is None and lost["reason"].endswith("(NVML: GPU is lost)")
    assert "sampling_gaps" in run.record["flags"]
    assert value(run.record, "throughput") == 256.0


def test_a_driver_that_does_not_know_the_fields_of_power(replay):
    run = replay(unsupported={gpu_field("INSTANT"), gpu_field("AVERAGE")})
    assert run.rows[8]["gpu_power"] == 656.625  # what nvmlDeviceGetPowerUsage says
    assert run.sensor.missing == {"gpu_power_instant": "NVML: Not Supported"}


def gpu_field(name):
    import pynvml

    number: int = getattr(pynvml, f"NVML_FI_DEV_POWER_{name}")
    return number


def test_processes_that_the_driver_numbers_otherwise(replay, monkeypatch):
    monkeypatch.setattr("fixtures.nvml.PID", 1)
    run = replay()
    assert "names none of the run's processes" in run.sensor.missing["gpu_process_memory"]
    assert value(run.record, "gpu_process_memory_peak") is None


@pytest.mark.parametrize(
    "visible, index", [(None, 0), ("0", 0), ("0,1", 0), ("1", None), ("", None), ("-1", None)]
)
def test_the_first_visible_device(monkeypatch, visible, index):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = gpu.device(ReplayedNvml(TRACE["samples"]))
    assert found == (None if index is None else f"device {index}")


def test_two_devices_are_one_row(monkeypatch):
    """Energy, power and memory are added, shares and clocks averaged, the hottest counts."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = ReplayedNvml(TRACE["samples"])
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 3, raising=False)
    monkeypatch.setattr(
        nvml,
        "nvmlDeviceGetTemperature",
        lambda one, _: nvml.now and 40 + int(one[-1]),
        raising=False,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    one, two = (gpu.Sensor(Watched(PID, "gpu", processes=[PID], devices=count)) for count in (1, 2))
    for nvml.at in (0, 8):
        single, double = one.sample(), two.sample()
    for column in ("gpu_energy", "gpu_power", "gpu_memory", "gpu_process_memory", "gpu_pcie_rx"):
        assert double[column] == 2 * single[column] > 0
    for column in ("gpu_utilization", "gpu_sm_clock", "gpu_throttle_reasons"):
        assert double[column] == single[column] > 0
    assert (single["gpu_temperature"], double["gpu_temperature"]) == (40, 41)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,-1,0")
    assert gpu.devices(nvml, 3) == ["device 1"]
    nvml.at = nvml.lost_at = 9
    assert set(two.sample().values()) == {None}
    assert two.missing == dict.fromkeys(gpu.COLUMNS, "NVML: GPU is lost")
