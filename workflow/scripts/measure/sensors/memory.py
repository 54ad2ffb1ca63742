"""Host memory of the runner's process tree, shared pages divided among those who share them."""

from pathlib import Path

from measure.sensors import Watched

COLUMNS = {"host_memory": "MiB"}


def unavailable(watched: Watched) -> str | None:
    """The reason why the kernel does not tell PSS, or None."""
    if not Path("/proc/self/smaps_rollup").exists():
        return "no /proc/PID/smaps_rollup (Linux before 4.14, or no Linux)"
    return None


class Sensor:
    """PSS (proportional set size) summed over the tree."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched

    def sample(self) -> dict[str, float | None]:
        """The sum in MiB; None once every process has gone."""
        found = [pss_kib(process.pid) for process in self.watched.processes]
        living = [kib for kib in found if kib is not None]
        return {"host_memory": sum(living) / 1024 if living else None}


def pss_kib(pid: int) -> int | None:
    """PSS of one process in KiB, or None if it has gone or ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), None)
