"""Tests that measure are tried again where other programs used the machine meanwhile, or its cores
moved (docs/measuring.md)."""

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from touchstone.measure.core_latency import core_latency
from touchstone.measure.sensors.cpu import machine_seconds
from touchstone.schema.interleaved import cores_apart
from touchstone.schema.limits import NOISE_LIMIT

TRIES = 5
FAILURES = 2
"""Tries without a known disturbance that fail before the test does: cores can move and come back
within a try."""
PATIENCE = 60.0
"""Seconds to wait before each try for the other programs to rest."""


class Others:
    """The share of the machine's CPU time that is not used by this process and its children."""

    def __init__(self) -> None:
        self.begin, self.used = time.monotonic(), self._seconds()

    @staticmethod
    def _seconds() -> float:
        own = os.times()
        return machine_seconds() - sum(own[:4])  # ours, and of children that have ended

    def share(self) -> float:
        passed = time.monotonic() - self.begin
        return (self._seconds() - self.used) / passed / (os.cpu_count() or 1)


def repeated(test: Callable[..., None]) -> Callable[..., None]:
    """Try a test that failed again: once, and more often while the machine is disturbed; skip it
    if the machine nearly always was."""

    @functools.wraps(test)
    def tried(*arguments: Any, **fixtures: Any) -> None:
        shares, failures = [], 0
        for _ in range(TRIES):
            others, before = Others(), _latency()
            try:
                return test(*arguments, **fixtures)
            except Exception:
                shares.append(others.share())
                failures += shares[-1] <= NOISE_LIMIT and not _moved(before, _latency())
                if failures == FAILURES:
                    raise
            _wait()
        used = ", ".join(f"{share:.0%}" for share in shares)
        pytest.skip(
            f"in {TRIES - failures} of {TRIES} tries other programs used the machine ({used}), or"
            " its cores moved"
        )

    return tried


def _latency() -> float | None:
    return core_latency(sorted(os.sched_getaffinity(0)))


def _moved(before: float | None, after: float | None) -> bool:
    """Whether the cores were near at one of two readings, ns, and apart at the other."""
    if before is None or after is None:
        return False
    return cores_apart(max(before, after), min(before, after))


def _wait() -> None:
    """Until other programs rest for a second, or `PATIENCE` has passed."""
    begin = time.monotonic()
    while time.monotonic() < begin + PATIENCE:
        others = Others()
        time.sleep(1)
        if others.share() <= NOISE_LIMIT:
            return
