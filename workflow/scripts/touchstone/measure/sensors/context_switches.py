"""Context switches of all threads of the runner's processes."""

import os

from touchstone.measure.processes import fields, threads
from touchstone.measure.sensors import COUNTER, Column, Watched

COLUMNS = {
    "context_switches": Column("1", COUNTER),
    "involuntary_context_switches": Column("1", COUNTER),
}


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell them, or None."""
    status = fields(os.getpid(), "status") or {}
    return None if "voluntary_ctxt_switches" in status else "/proc/PID/status does not tell them"


class Sensor:
    """Cumulative. The kernel counts them per thread, and forgets those of a thread that ends:
    what a thread did after its last sample is lost."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.threads: dict[int, tuple[int, int]] = {}
        self.ended = (0, 0)

    def sample(self) -> dict[str, float | None]:
        """Switches of the living threads, and of those that were living at an earlier sample."""
        now = {}
        for pid in self.watched.processes:
            for thread in threads(pid):
                if counts := fields(pid, f"task/{thread}/status"):
                    involuntary = counts.get("nonvoluntary_ctxt_switches", 0)
                    voluntary = counts.get("voluntary_ctxt_switches", 0)
                    now[thread] = (voluntary + involuntary, involuntary)
        for thread, (every, involuntary) in self.threads.items():
            if thread not in now:
                self.ended = (self.ended[0] + every, self.ended[1] + involuntary)
        self.threads = now
        every, involuntary = map(sum, zip(self.ended, *now.values(), strict=True))
        return {"context_switches": every, "involuntary_context_switches": involuntary}
