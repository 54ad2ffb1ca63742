"""Energy of the CPU packages and their memory, by RAPL (running average power limit)."""

from pathlib import Path
from typing import NamedTuple

from touchstone.measure.counter import Counter
from touchstone.measure.sensors import COUNTER, Column, Watched

COLUMNS = {"cpu_energy": Column("J", COUNTER), "dram_energy": Column("J", COUNTER)}

POWERCAP = Path("/sys/class/powercap")
"""Where Linux shows RAPL, on AMD too (Documentation/power/powercap/powercap.rst)."""


class Domain(NamedTuple):
    """An energy counter in µJ, which wraps around."""

    file: Path
    counter: Counter

    def joules(self) -> float:
        """Energy since the first reading, J; raises OSError."""
        return self.counter.add(int(self.file.read_text())) / 1e6


def domains(name: str) -> list[Domain]:
    """The domains whose name begins with `name`: `package` or `dram`."""
    zones = []
    for folder in sorted(POWERCAP.glob("intel-rapl:*")):
        if (folder / "name").read_text().startswith(name):
            size = int((folder / "max_energy_range_uj").read_text())
            zones.append(Domain(folder / "energy_uj", Counter(size)))
    return zones


def unavailable(watched: Watched) -> str | None:
    """The reason why there is no RAPL to read, or None."""
    packages = domains("package")
    if not packages:
        return f"no RAPL package in {POWERCAP} (a virtual machine, or a CPU without it)"
    try:
        packages[0].joules()
    except OSError as fault:
        return f"{packages[0].file}: {fault.strerror}; most kernels let root alone read it"
    return None


class Sensor:
    """Cumulative since the first sample, summed over the packages: of the whole machine."""

    def __init__(self, watched: Watched) -> None:
        self.domains = {"cpu_energy": domains("package"), "dram_energy": domains("dram")}
        self.missing = {}
        if not self.domains["dram_energy"]:
            self.missing["dram_energy"] = "RAPL has no dram domain here"

    def sample(self) -> dict[str, float | None]:
        """One reading of each kind; None for a kind that this CPU does not tell."""
        return {
            column: sum(domain.joules() for domain in zones) if zones else None
            for column, zones in self.domains.items()
        }
