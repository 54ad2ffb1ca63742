"""The time of a signal between cores."""

import os
import time

import pytest

from touchstone.measure import core_latency as module
from touchstone.measure.core_latency import core_latency, cores_move


@pytest.mark.usefixtures("all_cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_signal_takes_nanoseconds_to_microseconds():
    found = core_latency(sorted(os.sched_getaffinity(0)))
    # None where other programs keep a core, or none can move.
    assert found is None or 10 < found < 100_000


@pytest.mark.parametrize(
    "cpuinfo, moves",
    [
        ("processor : 0\nflags : fpu hypervisor avx\n", True),
        ("processor : 0\nflags : fpu avx\n", False),
        ("processor : 0\nFeatures : fp asimd\n", True),  # no x86 CPU
    ],
)
def test_cores_move_unless_the_cpu_names_no_hypervisor(cpuinfo, moves, tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    path.write_text(cpuinfo)
    monkeypatch.setattr(module, "CPUINFO", path)
    cores_move.cache_clear()
    assert cores_move() == moves
    assert moves or core_latency(sorted(os.sched_getaffinity(0))) is None
    cores_move.cache_clear()


def test_one_core_has_no_latency():
    assert core_latency([0]) is None


def test_a_core_that_is_not_there_gives_none_at_once():
    begin = time.monotonic()
    assert core_latency([min(os.sched_getaffinity(0)), 10_000]) is None
    assert time.monotonic() - begin < 5
