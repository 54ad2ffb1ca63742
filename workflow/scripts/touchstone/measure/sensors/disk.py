"""Bytes that the runner's processes made the disks read and write."""

import os

from touchstone.measure.processes import fields
from touchstone.measure.sensors import COUNTER, Column, Watched

COLUMNS = {"disk_read": Column("B", COUNTER), "disk_written": Column("B", COUNTER)}


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell them, or None."""
    if fields(os.getpid(), "io") is None:
        return "no /proc/PID/io (a kernel without TASK_IO_ACCOUNTING, or it is hidden)"
    return None


class Sensor:
    """Cumulative, children that were waited for included; the page cache costs no reading."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.read, self.written = 0, 0

    def sample(self) -> dict[str, float | None]:
        """The sums over the processes; what is cached or written back later is not there."""
        accounts = [fields(pid, "io") or {} for pid in self.watched.processes]
        self.read = max(self.read, sum(a.get("read_bytes", 0) for a in accounts))
        self.written = max(self.written, sum(a.get("write_bytes", 0) for a in accounts))
        return {"disk_read": self.read, "disk_written": self.written}
