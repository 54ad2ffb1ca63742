"""RAPL, read from a folder like the kernel's."""

import pytest

from touchstone.measure.counter import Counter
from touchstone.measure.sensors import Watched, rapl

RANGE = 262_143_328_850  # µJ, what many Intel packages have
WATCHED = Watched(1, "cpu")


@pytest.fixture
def powercap(tmp_path, monkeypatch):
    """Two packages, one with a core and a dram domain; `set` moves a counter."""
    monkeypatch.setattr(rapl, "POWERCAP", tmp_path)
    names = {
        "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram",
        "intel-rapl:1": "package-1", "intel-rapl-mmio:0": "package-0", "intel-rapl:2": "psys",
    }  # fmt: skip
    for folder, name in names.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "name").write_text(name + "\n")
        (tmp_path / folder / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (tmp_path / folder / "energy_uj").write_text("1000\n")
    return lambda folder, energy: (tmp_path / folder / "energy_uj").write_text(f"{energy}\n")


def test_packages_and_memory_are_summed_and_wrap(powercap):
    powercap("intel-rapl:0", RANGE - 30_000_000)
    powercap("intel-rapl:1", 5_000_000)
    assert rapl.unavailable(WATCHED) is None
    sensor = rapl.Sensor(WATCHED)
    assert sensor.sample() == {"cpu_energy": 0.0, "dram_energy": 0.0}
    powercap("intel-rapl:0", RANGE - 10_000_000)  # 20 J
    powercap("intel-rapl:1", 12_000_000)  # 7 J
    powercap("intel-rapl:0:1", 2_501_000)  # 2.5 J
    assert sensor.sample() == {"cpu_energy": 27.0, "dram_energy": 2.5}
    powercap("intel-rapl:0", 40_000_000)  # wrapped: 10 J and 40 J more
    assert sensor.sample() == {"cpu_energy": 77.0, "dram_energy": 2.5}


def test_without_a_dram_domain(powercap, tmp_path):
    (tmp_path / "intel-rapl:0:1/name").write_text("uncore\n")
    sensor = rapl.Sensor(WATCHED)
    assert sensor.sample() == {"cpu_energy": 0.0, "dram_energy": None}
    assert sensor.missing == {"dram_energy": "RAPL has no dram domain here"}


def test_the_reason_where_there_is_none(powercap, tmp_path, monkeypatch):
    for folder in ("intel-rapl:0", "intel-rapl:1"):
        (tmp_path / folder / "energy_uj").unlink()
    assert "energy_uj: No such file" in rapl.unavailable(WATCHED)
    monkeypatch.setattr(rapl, "POWERCAP", tmp_path / "nowhere")
    assert rapl.unavailable(WATCHED).startswith("no RAPL package in")


@pytest.mark.parametrize(
    "readings, totals",
    [
        ([5, 5, 9], [0, 0, 4]),
        ([90, 98, 3, 10], [0, 8, 13, 20]),  # wrapped at 100
        ([40, 50, 7, 9], [0, 10, 17, 19]),  # reset: 57 in one step is no wrap
        ([95, 0], [0, 5]),
    ],
)
def test_a_counter_wraps_or_is_reset(readings, totals):
    counter = Counter(100)
    assert [counter.add(reading) for reading in readings] == totals
