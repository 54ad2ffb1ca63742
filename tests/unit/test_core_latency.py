"""The time of a signal between cores."""

import os
import time

import pytest

from touchstone.measure.core_latency import core_latency


@pytest.mark.usefixtures("all_cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_signal_takes_nanoseconds_to_microseconds():
    found = core_latency(sorted(os.sched_getaffinity(0)))
    assert found is None or 10 < found < 100_000  # None where other programs keep a core


def test_one_core_has_no_latency():
    assert core_latency([0]) is None


def test_a_core_that_is_not_there_gives_none_at_once():
    begin = time.monotonic()
    assert core_latency([min(os.sched_getaffinity(0)), 10_000]) is None
    assert time.monotonic() - begin < 5
