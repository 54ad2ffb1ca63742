"""Host memory of the runner's processes, shared pages divided among those who share them."""

import time
from pathlib import Path

from touchstone.measure.processes import fields, share_address_space
from touchstone.measure.sensors import AMOUNT, Column, Watched

COLUMNS = {"host_memory": Column("MiB", AMOUNT), "host_memory_high_water": Column("MiB", AMOUNT)}
SHARE = 0.002
"""Of one core, at most, for PSS: the kernel walks through all pages for it, 24 ms a GiB on a
2-core AMD EPYC VM (2026-11-21), so that large processes are looked at less often."""


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell PSS, or None."""
    if not Path("/proc/self/smaps_rollup").exists():
        return "no /proc/PID/smaps_rollup (Linux before 4.14, or no Linux)"
    return None


class Sensor:
    """PSS (proportional set size) summed over the tree, and the kernel's own high-water marks.

    Between two readings, PSS moves as the resident anonymous memory does, which costs nothing
    to read. A mark (VmHWM) is the largest resident size that a process ever had, so that no
    peak between two samples is missed; but it counts shared pages in every process.

    A process that begins another one by vfork, as `subprocess` does, lends it its memory until that
    executes a program. The kernel counts that memory in both, so the other one is left out.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.rests_until = 0.0
        self.read_of: list[int] = []
        self.beside = 0.0

    def sample(self) -> dict[str, float | None]:
        """The sums over the living in MiB; None once every process has gone."""
        owners = self._owners()
        anonymous, mark = _sums(owners, "status", "RssAnon", "VmHWM")
        pss = None if anonymous is None else anonymous + self.beside
        if (begin := time.monotonic()) >= self.rests_until or owners != self.read_of:
            used = time.thread_time()
            (pss,) = _sums(owners, "smaps_rollup", "Pss")
            self.rests_until = begin + (time.thread_time() - used) / SHARE
            self.read_of = owners
            if pss is not None and anonymous is not None:
                self.beside = pss - anonymous
        return {"host_memory": pss, "host_memory_high_water": mark}

    def used(self, limit: float) -> float:
        """Memory now, MiB: PSS, or, where it does not exceed `limit`, the resident size, which
        is never less and costs nothing."""
        owners = self._owners()
        (resident,) = _sums(owners, "status", "VmRSS")
        if (resident or 0.0) <= limit:
            return resident or 0.0
        return _sums(owners, "smaps_rollup", "Pss")[0] or 0.0

    def _owners(self) -> list[int]:
        """The processes but those that still use the memory of the one that began them."""
        return [pid for pid in self.watched.processes if not self._borrows(pid)]

    def _borrows(self, pid: int) -> bool:
        parent = (fields(pid, "status") or {}).get("PPid")
        return parent in self.watched.processes and share_address_space(pid, parent)


def _sums(pids: list[int], file: str, *keys: str) -> list[float | None]:
    """Of every key the sum over the processes, MiB; None where none of them tells it."""
    read = [fields(pid, file) or {} for pid in pids]
    columns = [[entry[key] for entry in read if key in entry] for key in keys]
    return [sum(kib) / 1024 if kib else None for kib in columns]
