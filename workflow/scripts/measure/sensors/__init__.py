"""Sensors: what is read of a run from outside its process, one file each.

A sensor's module has `COLUMNS` (column of telemetry.csv -> unit), `unavailable(watched)`,
the reason why it cannot be read here or None, and `Sensor(watched)`, whose `sample()` gives
a value or None for each column. It is found by its file.
"""

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil


class Reading(Protocol):
    """What a sensor does at every tick."""

    def sample(self) -> dict[str, float | None]: ...


@dataclass
class Watched:
    """What is watched: the runner's process tree and the device that it trains on."""

    root: psutil.Process
    device: str
    processes: list[psutil.Process] = field(default_factory=list)

    def refresh(self) -> None:
        """List the processes of the tree anew; a process that has gone is no fault."""
        try:
            self.processes = [self.root, *self.root.children(recursive=True)]
        except psutil.NoSuchProcess:
            self.processes = []


def modules() -> dict[str, Any]:
    """The sensors by name."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    names = [path.stem for path in files if path.stem != "__init__"]
    return {name: importlib.import_module(f"measure.sensors.{name}") for name in names}
