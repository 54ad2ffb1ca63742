"""Host memory of the runner's processes, shared pages divided among those who share them."""

import time
from pathlib import Path

from measure.processes import fields
from measure.sensors import Watched

COLUMNS = {"host_memory": "MiB", "host_memory_high_water": "MiB"}
SHARE = 0.01
"""Of one core, at most, for PSS: the kernel walks through all pages for it, 24 ms a GiB on a
2-core AMD EPYC VM (2026-11-21), so that large processes are looked at less often."""


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell PSS, or None."""
    if not Path("/proc/self/smaps_rollup").exists():
        return "no /proc/PID/smaps_rollup (Linux before 4.14, or no Linux)"
    return None


class Sensor:
    """PSS (proportional set size) summed over the tree, and the kernel's own high-water marks.

    A mark (VmHWM) is the largest resident size that a process ever had, so that no peak
    between two samples is missed; but it counts shared pages in every process.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.rests_until = 0.0

    def sample(self) -> dict[str, float | None]:
        """The sums over the living in MiB; None once every process has gone, and for PSS while
        its last reading has been too dear for another one."""
        pss = None
        if (begin := time.monotonic()) >= self.rests_until:
            used = time.thread_time()
            pss = self._sum("smaps_rollup", "Pss")
            self.rests_until = begin + (time.thread_time() - used) / SHARE
        return {"host_memory": pss, "host_memory_high_water": self._sum("status", "VmHWM")}

    def used(self, limit: float) -> float:
        """Memory now, MiB: PSS, or, where it does not exceed `limit`, the resident size, which
        is never less and costs nothing."""
        resident = self._sum("status", "VmRSS") or 0.0
        return resident if resident <= limit else self._sum("smaps_rollup", "Pss") or 0.0

    def _sum(self, file: str, key: str) -> float | None:
        found = [(fields(pid, file) or {}).get(key) for pid in self.watched.processes]
        living = [kib for kib in found if kib is not None]
        return sum(living) / 1024 if living else None
