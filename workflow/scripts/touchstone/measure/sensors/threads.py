"""How many threads of the runner's processes really ran."""

import os
import time

from touchstone.measure.processes import threads
from touchstone.measure.sensors import AMOUNT, Column, Watched

COLUMNS = {"busy_threads": Column("threads", AMOUNT)}
BUSY = 0.05
"""Share of a core that a thread used at least, to count as one that ran."""
LEAST = 0.03
"""Seconds between readings; in less, the kernel's clock of a thread may not have moved."""


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell the CPU time of a thread, or None."""
    pid = os.getpid()
    return None if _seconds(pid, pid) else "no times in /proc/PID/task/TID/schedstat"


class Sensor:
    """Threads that used at least `BUSY` of a core since the reading before, those of all processes.

    A thread that has begun since counts with all its time, one that has ended does not count.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.at = 0.0
        self.before: dict[int, float] | None = None

    def sample(self) -> dict[str, float | None]:
        """None at the first reading, and at one that comes too soon after another."""
        at = time.monotonic()
        if self.before is not None and at - self.at < LEAST:
            return {"busy_threads": None}
        now: dict[int, float] = {}
        for pid in self.watched.processes:
            for thread in threads(pid):
                if (seconds := _seconds(pid, thread)) is not None:
                    now[thread] = seconds
        before, enough = self.before, BUSY * (at - self.at)
        self.at, self.before = at, now
        if before is None or not now:
            return {"busy_threads": None}
        busy = (seconds - before.get(thread, 0.0) >= enough for thread, seconds in now.items())
        return {"busy_threads": sum(busy)}


def _seconds(pid: int, thread: int) -> float | None:
    """CPU time of a thread, s; None if it has gone."""
    try:
        with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[0]) / 1e9
    except OSError:
        return None
