"""Bytes over the network interfaces that the runner sees; the kernel counts none per process."""

from pathlib import Path

from touchstone.measure.sensors import COUNTER, Column, Watched

COLUMNS = {"network_received": Column("B", COUNTER), "network_sent": Column("B", COUNTER)}


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell them, or None."""
    return None if Path("/proc/self/net/dev").exists() else "no /proc/PID/net/dev"


class Sensor:
    """Cumulative since boot, all interfaces of the runner's network namespace but loopback."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched

    def sample(self) -> dict[str, float | None]:
        """The sums over the interfaces; None once the runner has gone."""
        try:
            lines = Path(f"/proc/{self.watched.root}/net/dev").read_text().splitlines()[2:]
        except OSError:
            return dict.fromkeys(COLUMNS)
        named = (line.split(":", 1) for line in lines)
        counts = [numbers.split() for name, numbers in named if name.strip() != "lo"]
        # proc(5): eight columns of what was received, then of what was sent, bytes first.
        received, sent = (sum(int(count[i]) for count in counts) for i in (0, 8))
        return {"network_received": received, "network_sent": sent}
