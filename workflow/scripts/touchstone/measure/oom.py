"""Whether the kernel killed a run for want of memory."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

from touchstone.measure.processes import own_group

MACHINE = Path("/proc/vmstat")
"""Counts the kills of the whole machine since its boot."""


class OomKills:
    """The kernel's count of processes that it killed for want of memory, since this was made.

    A control group of the run's own counts its processes only. Where the kernel does not count
    there, the supervisor's group or the machine counts other programs too.

    Args:
        group: the folder of the run's own control group, if it has one.
    """

    def __init__(self, group: Path | None) -> None:
        places = [MACHINE]
        with contextlib.suppress(OSError):
            places.insert(0, own_group() / "memory.events")
        self.own = group is not None and counted(group / "memory.events") is not None
        if group is not None:
            places.insert(0, group / "memory.events")
        self.place = next((place for place in places if counted(place) is not None), None)
        self.before = counted(self.place) if self.place else None

    def ended(self, code: int) -> bool:
        """Whether such a kill ended the run, whose first process ended with this code.

        To be asked while the run's group still exists. A count that other programs share is no
        proof by itself: the run's first process must have been killed, by SIGKILL.
        """
        if self.place is None or counted(self.place) in (None, self.before):
            return False
        return self.own or code == -signal.SIGKILL


def counted(path: Path) -> int | None:
    """How many kills a file of the kernel counts (`oom_kill N`); None if it does not."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    counts = [line.split()[1] for line in lines if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None
