"""CPU time of the runner's processes, and of the whole machine."""

from collections.abc import Collection
from pathlib import Path

import psutil

from touchstone.measure.processes import TICKS
from touchstone.measure.sensors import AMOUNT, COUNTER, Column, Watched

COLUMNS = {
    "cpu_seconds": Column("s", COUNTER),
    "machine_cpu_seconds": Column("s", COUNTER),
    "processes": Column("1", AMOUNT),
}


def unavailable(watched: Watched) -> str | None:
    """Always there."""
    return None


def machine_seconds() -> float:
    """CPU time of the whole machine since its boot, s: what its programs used, and what the
    hypervisor gave to others while a core of this machine had work."""
    times = psutil.cpu_times()
    used: float = times.user + times.nice + times.system + times.irq + times.softirq
    return used + float(times.steal)


def core_seconds(cores: Collection[int]) -> float:
    """The same of some cores, s; the kernel counts in ticks of 10 ms."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _, _, irq, softirq, steal, *_ = map(int, fields)
            total += user + nice + system + irq + softirq + steal
    return total / TICKS


class Sensor:
    """Cumulative CPU seconds; see docs/contracts.md for the columns."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.total = 0.0

    def sample(self) -> dict[str, float | None]:
        """Time of the living and of those that have gone."""
        # A child that has ended but is not yet in its parent's account must not count back.
        self.total = max(self.total, self.watched.cpu_seconds())
        return {
            "cpu_seconds": self.total,
            "machine_cpu_seconds": machine_seconds(),
            "processes": len(self.watched.processes),
        }
