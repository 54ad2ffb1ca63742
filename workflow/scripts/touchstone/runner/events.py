"""The file of events that a run writes."""

import math
import os
import threading
import time
from typing import Optional

from touchstone.schema.events import Chunk, Event, Phase, event_to_line
from touchstone.schema.variables import SAMPLE_NOW

SENSORS = os.environ.get(SAMPLE_NOW)
"""The pipe to the sensors, where there are any."""


class EventWriter:
    """The file of events: one JSON object a line, written out at least twice a second."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "w", encoding="utf-8")
        self.flushed = 0.0
        self.lock = threading.Lock()

    def write(self, event: Event) -> None:
        """Write an event."""
        with self.lock:
            self.write_locked(event)

    def write_locked(self, event: Event) -> None:
        """Write an event; the caller holds the lock."""
        self.file.write(event_to_line(event))
        now = time.monotonic()
        if not isinstance(event, Chunk) or now - self.flushed > 0.5:
            self.file.flush()
            self.flushed = now

    def phase(self, name: str, begin: float, steps: int = 0, examples: int = 0) -> float:
        """Write that the phase `name` began at `begin` and ends now; returns now."""
        end = time.monotonic()
        if name in ("warmup", "measured"):
            sample_now()
        self.write(Phase(name, begin, end, steps, examples))
        return end


def sample_now() -> None:
    """Have the sensors take a sample at an edge of the measured phase."""
    if SENSORS:
        os.write(int(SENSORS), b".")


def json_number(number: float) -> Optional[float]:
    """A loss for JSON: 7 significant digits; None where it is not a finite number."""
    return float("%.7g" % number) if math.isfinite(number) else None
