"""When a run that other programs slow down is ended, so that it does not hold up a study.

Frameworks whose idle threads spin, as they do by themselves, may be slowed down many times by one
program that takes a core. A run that is slow on a machine of its own is never ended here.
"""

import os
import time

from touchstone.measure.sensors import Watched
from touchstone.measure.sensors.cpu import machine_seconds
from touchstone.schema.limits import NOISE_LIMIT
from touchstone.schema.spec import Limits

START = 300.0
"""Seconds that a run has for its first step, besides those of all steps: it may compile."""
LEAST_SECONDS = 30.0
"""Seconds that the steps of a run have, however few they are."""


class Disturbance:
    """The patience with one run, whose spec has the `limits`.

    It ends where the steps have taken `factor` times as long as estimated and other programs have
    used more than `NOISE_LIMIT` of the machine since the run began. Without an estimate, as on a
    GPU, or a factor it has no end.
    """

    def __init__(self, limits: Limits, watched: Watched) -> None:
        self.watched = watched
        self.factor, self.estimate = limits.factor, limits.estimate
        self.begin, self.used = time.monotonic(), self._others()

    def reason(self, first_step: float | None) -> str | None:
        """Why the run is to be ended now, or None.

        `first_step` is when its first step had ended, on the monotonic clock; None before that.
        """
        if self.factor is None or self.estimate is None:
            return None
        now = time.monotonic()
        allowed = max(self.factor * self.estimate, LEAST_SECONDS)
        if first_step is None:
            ran, allowed, since = now - self.begin, allowed + START, "without ending a step"
        else:
            ran, since = now - first_step, "after its first step"
        if ran < allowed:
            return None
        share = (self._others() - self.used) / (now - self.begin) / (os.cpu_count() or 1)
        if share <= NOISE_LIMIT:
            return None
        return (
            f"it ran {ran:,.0f} s {since}, more than {self.factor:g} times the "
            f"{self.estimate:,.2f} s estimated for its steps; other programs used "
            f"{share * 100:.0f} % of the machine's CPU time meanwhile: end them and run again, "
            "which repeats this run, or raise `time_limit_factor`"
        )

    def _others(self) -> float:
        """CPU time of all but the run, s: that of the machine since its boot, less the run's."""
        return machine_seconds() - self.watched.cpu_seconds()
