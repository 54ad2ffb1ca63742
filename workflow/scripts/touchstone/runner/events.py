"""The file of events that a run writes."""

import json
import math
import os
import threading
import time
from typing import Any

SAMPLE_NOW = os.environ.get("TOUCHSTONE_SAMPLE_NOW")
"""A pipe's file descriptor: a byte asks the sensors for a sample at this very moment."""


class Events:
    """The file of events: one JSON object a line, written out at least twice a second."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "w", encoding="utf-8")
        self.flushed = 0.0
        self.lock = threading.Lock()

    def write(self, event: Any, **fields: Any) -> None:
        with self.lock:
            self.put(event, **fields)

    def put(self, event: Any, **fields: Any) -> None:
        """Write an event; the caller holds the lock."""
        self.file.write(json.dumps(dict(event=event, **fields)) + "\n")
        now = time.monotonic()
        if event != "chunk" or now - self.flushed > 0.5:
            self.file.flush()
            self.flushed = now

    def phase(self, name: str, begin: float, **fields: Any) -> Any:
        """Write that the phase `name` began at `begin` and ends now; returns now."""
        end = time.monotonic()
        if name in ("warmup", "measured"):
            sample_now()
        self.write("phase", name=name, begin=begin, end=end, **fields)
        return end


def sample_now() -> None:
    """Have the sensors look at an edge of the measured phase."""
    if SAMPLE_NOW:
        os.write(int(SAMPLE_NOW), b".")


def spelled(number: float) -> Any:
    """A loss for JSON: 7 significant digits, and a word where it is not finite."""
    return float("%.7g" % number) if math.isfinite(number) else repr(float(number))
