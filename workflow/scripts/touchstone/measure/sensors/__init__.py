"""Sensors: what is read of a run from outside its process, one file each.

A sensor's module has `COLUMNS` (column of telemetry.csv -> `Column`), `unavailable(watched)`,
the reason why it cannot be read here or None, and `Sensor(watched)`, whose `sample()` gives
a value or None for each column. A `Sensor` may have a dict `missing`: column -> why it has
no value at present. A module is found by its file.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from touchstone.measure import processes
from touchstone.measure.processes import Account, ControlGroup

KILL_SECONDS = 5.0
"""Seconds that killed processes have to go; one that the kernel holds longer is left."""
CLEANING = 2.0
"""Seconds that a container's engine has to clean up after it, before it is killed."""


def _bits(values: list[float]) -> float:
    """All bits that are set in any of the values."""
    return float(reduce(or_, map(int, values)))


COUNTER, AMOUNT, GAUGE, PEAK, BITS = "counter", "amount", "gauge", "peak", "bits"
TOGETHER: dict[str, Callable[[list[float]], float]] = {
    COUNTER: sum,
    AMOUNT: sum,
    GAUGE: fmean,
    PEAK: max,
    BITS: _bits,
}
"""How one number is made of those of several devices or nodes, by the kind of a column."""


class Column(NamedTuple):
    """What a column of telemetry.csv holds.

    unit: of its values, `1` for none
    kind: `COUNTER`, which only grows; `AMOUNT`, of which several devices have the sum (memory, W);
        `GAUGE`, of which they have the mean (%, MHz); `PEAK`, of which they have the largest (°C);
        `BITS` of reasons
    """

    unit: str
    kind: str

    def together(self, values: Sequence[float | None]) -> float | None:
        """One number of several devices' or nodes'; None where one of them has none."""
        numbers = [value for value in values if value is not None]
        return float(TOGETHER[self.kind](numbers)) if len(numbers) == len(values) else None


class Reading(Protocol):
    """What a sensor does at every tick."""

    def sample(self) -> dict[str, float | None]: ...


@dataclass
class Watched:
    """What is watched: the runner's processes and the device, or the devices, that it trains on.

    `root` is the runner, a child of this process; `others` are children of this process
    that are none of the run's; `group` is the run's control group if it has one. Where a run is
    `in_container`, which numbers its processes itself, those outside it are the `engine`.
    """

    root: int
    device: str
    group: ControlGroup | None = None
    others: frozenset[int] = frozenset()
    processes: list[int] = field(default_factory=list)
    engine: list[int] = field(default_factory=list)
    in_container: bool = False
    reaped: Account = Account(0.0, 0, 0)
    devices: int = 1

    def refresh(self) -> None:
        """List the processes again, parents before their children; reap orphans that ended."""
        orphans = []
        for child in processes.children(os.getpid()):
            if child != self.root and child not in self.others and not self._reap(child):
                orphans.append(child)
        if self.group:
            pids = self.group.processes()
        else:
            pids = [pid for top in (self.root, *orphans) for pid in processes.tree(top)]
        contained = list(filter(processes.is_contained, pids))
        self.in_container = self.in_container or bool(contained)
        self.processes = contained if self.in_container else pids
        self.engine = [pid for pid in pids if pid not in self.processes]

    def account(self) -> Account:
        """What all processes, the engine's too, have used so far, those that have gone included."""
        # Before the living: an orphan that is reaped in between is missed, not counted twice.
        parts = [self.reaped, *filter(None, map(processes.account, self._all()))]
        return Account.total(parts)

    def cpu_seconds(self) -> float:
        """CPU time of all processes so far, those that have gone included, s."""
        return self.group.cpu_seconds() if self.group else self.account().cpu_seconds

    def end(self) -> None:
        """Kill what the runner, which has ended and was waited for, has left behind."""
        begin = time.monotonic()
        self.refresh()
        while left := [pid for pid in self._all() if pid != self.root]:
            for pid in left:
                if pid in self.engine and time.monotonic() < begin + CLEANING:
                    continue
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > begin + KILL_SECONDS:
                break
            time.sleep(0.01)
            self.refresh()

    def _all(self) -> list[int]:
        return [*self.engine, *self.processes]

    def _reap(self, child: int) -> bool:
        """Take the account of a child that has ended; False if it lives."""
        try:
            pid, _, usage = os.wait4(child, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid:
            used = Account(usage.ru_utime + usage.ru_stime, usage.ru_minflt, usage.ru_majflt)
            self.reaped = Account.total([self.reaped, used])
        return bool(pid)


def modules() -> dict[str, Any]:
    """The sensors by name."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    names = [path.stem for path in files if path.stem != "__init__"]
    return {name: importlib.import_module(f"touchstone.measure.sensors.{name}") for name in names}


@cache
def columns() -> dict[str, Column]:
    """The columns of all sensors, by name."""
    return {
        name: column for module in modules().values() for name, column in module.COLUMNS.items()
    }
