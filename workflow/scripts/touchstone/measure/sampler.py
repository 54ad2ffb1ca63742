"""Reads the sensors at every tick, and writes telemetry.csv.

Every sensor has a thread of its own, so that one that is slow or hangs delays no other. A
tick asks every sensor that is not still at its last reading, waits for the answers, at most
`GRACE`, and writes them in one row; a later answer gets a row of its own when it is there.
"""

from __future__ import annotations

import csv
import threading
import time
from typing import Any, TextIO

from touchstone.measure import sensors

GRACE = 0.2
"""Seconds that a tick waits for answers; NVML's PCIe counters take 0.04 s."""


class _Reader(threading.Thread):
    """Reads one sensor whenever it is asked."""

    def __init__(self, sensor: sensors.Reading) -> None:
        # A daemon: a sensor that hangs must not keep the process from ending.
        super().__init__(daemon=True)
        self.sensor = sensor
        self.wanted, self.idle = threading.Event(), threading.Event()
        self.idle.set()
        self.answer: tuple[float, dict[str, float | None]] | None = None
        self.failure: str | None = None
        self.missed, self.longest, self.stopped = 0, 0.0, False

    def ask(self) -> bool:
        """Begin a reading; False if the last one is still going on, or nobody took its answer."""
        if not self.idle.is_set() or self.answer is not None:
            self.missed += 1
            return False
        self.idle.clear()
        self.wanted.set()
        return True

    def take(self) -> tuple[float, dict[str, float | None]] | None:
        """The last reading and when it ended, once; None if there is none yet."""
        if not self.idle.is_set():
            return None
        answer, self.answer = self.answer, None
        return answer

    def stop(self) -> None:
        """Let the thread end, once a reading that is going on has ended."""
        self.stopped = True
        self.wanted.set()

    def run(self) -> None:
        while self.wanted.wait() and not self.stopped:
            self.wanted.clear()
            begin = time.monotonic()
            values: dict[str, float | None] = {}
            try:
                values = self.sensor.sample()
                self.failure = None
            except Exception as error:
                # No fault of a sensor may end the run that it watches.
                self.failure = f"{type(error).__name__}: {error}"
            end = time.monotonic()
            self.longest = max(self.longest, end - begin)
            self.answer = (end, values)
            self.idle.set()


class Sampler:
    """The sensors of a run and its telemetry.csv, the open `file`."""

    def __init__(self, watched: sensors.Watched, file: TextIO) -> None:
        self.watched = watched
        self.facts: dict[str, dict[str, Any]] = {}
        self.readers: dict[str, _Reader] = {}
        for name, module in sensors.modules().items():
            reason = module.unavailable(watched)
            self.facts[name] = {
                "available": reason is None, "reason": reason,
                "columns": {name: column.unit for name, column in module.COLUMNS.items()},
            }  # fmt: skip
            if reason is None:
                self.readers[name] = _Reader(module.Sensor(watched))
        self.file, self.latest = file, 0.0
        columns = [column for name in self.readers for column in self.facts[name]["columns"]]
        self.table = csv.DictWriter(self.file, ["t", *columns], lineterminator="\n")
        self.table.writeheader()
        for reader in self.readers.values():
            reader.start()

    def sample(self) -> None:
        """Take one sample of every sensor that is ready for it."""
        self._write_late()
        self.watched.refresh()
        t = time.monotonic()
        readers = [reader for reader in self.readers.values() if reader.ask()]
        for reader in readers:
            reader.idle.wait(max(t + GRACE - time.monotonic(), 0))
        row: dict[str, float | None] = {}
        for reader in readers:
            if answer := reader.take():
                row.update(answer[1])
        self._write(t, row)
        self.file.flush()

    def finish(self) -> dict[str, Any]:
        """Write what came late, and tell what is known of every sensor (see env.json)."""
        self._write_late()
        for name, reader in self.readers.items():
            reader.stop()
            missing = dict(getattr(reader.sensor, "missing", {}))
            if reader.failure:
                missing = dict.fromkeys(self.facts[name]["columns"], reader.failure)
            self.facts[name].update(
                missing=missing, missed=reader.missed, longest_seconds=round(reader.longest, 4)
            )
        return self.facts

    def _write_late(self) -> None:
        """One row for each answer that came after its tick, at the time when it came."""
        late = [answer for reader in self.readers.values() if (answer := reader.take())]
        for t, values in sorted(late, key=lambda answer: answer[0]):
            self._write(t, values)

    def _write(self, t: float, values: dict[str, float | None]) -> None:
        """Write a row, at the time of the last one if a reading ended before that and was known
        only after it."""
        self.latest = max(t, self.latest)
        row = {name: "" if value is None else value for name, value in values.items()}
        self.table.writerow({"t": self.latest, **row})
