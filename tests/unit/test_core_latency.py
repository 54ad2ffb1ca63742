"""The time of a signal between cores."""

import os
import subprocess
import time

import pytest

from touchstone.measure import core_latency as module
from touchstone.measure.core_latency import core_latency, cores_move, reader


@pytest.mark.usefixtures("all_cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_signal_takes_nanoseconds_to_microseconds():
    with reader(sorted(os.sched_getaffinity(0))) as read:
        found = [read() for _ in range(3)] if read else []
    # None where other programs keep a core.
    assert all(one is None or 10 < one < 100_000 for one in found)


@pytest.mark.usefixtures("all_cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_program_that_ended_reads_nothing(monkeypatch):
    started = []
    usual = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **b: started.append(usual(*a, **b)) or started[-1]
    )
    monkeypatch.setattr(module, "cores_move", lambda: True)
    with reader(sorted(os.sched_getaffinity(0))) as read:
        (program,) = started
        program.kill()
        program.wait()
        assert read() is None and read() is None


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
