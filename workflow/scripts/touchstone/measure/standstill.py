"""Notices that a run, or the machine, stood still: time in which nothing could work.

A suspended laptop, a virtual machine that its host pauses, or processes that somebody stops
(SIGSTOP) leave a hole in time, which a speed must not be divided by. A thread that wakes up
`BEAT` times a second and does nothing else tells such a hole from a busy machine:

* The kernel's clock of boot time goes on while the machine sleeps, the monotonic clock does not:
  what the first gains on the second is sleep.
* A beat that comes late although the thread did not wait for a core stood still. The kernel counts
  the time that a thread waited for a core (`/proc/PID/task/TID/schedstat`, run delay), and what the
  hypervisor gave to other machines (steal). Other programs make both grow, and a stop neither.
* Where the watched processes worked meanwhile, only this process was stopped, as by Ctrl-Z, and
  no time is missing from their work.
* A watched process that is in the state of stopped processes (`T`), beat after beat, stands still
  although this process does not.

Steps of the wall clock say nothing: a time server makes them too.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import psutil

BEAT = 0.2
"""Seconds between two looks."""
HOLE = 0.5
"""Seconds that may be missing before no number is believed."""
UNCOUNTED = 5.0
"""The same where the kernel does not count how long a thread waits for a core."""
ANSWER_SECONDS = 10.0
"""Seconds that a question waits for the thread, which may have to wait for a core."""
WORKED, IDLE = 0.1, 0.05
"""Cores that the watched processes use, on average over a hole, if they worked in it; on a busy
machine half of what they used shortly before is enough, but for what idle processes use."""
RECENT = 5
"""Beats that are shortly before."""
EVERY = 5
"""Beats between two readings of the machine's CPU time, which takes longest."""


class Lost(NamedTuple):
    """Seconds in which nothing could work: the machine slept, or the processes stood still."""

    slept: float = 0.0
    stood: float = 0.0

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.slept + self.stood

    @property
    def too_long(self) -> bool:
        """Whether no number from then is believed."""
        return self.seconds >= HOLE

    def since(self, before: Lost) -> Lost:
        """Those after some were lost before."""
        return Lost(self.slept - before.slept, self.stood - before.stood)

    def __str__(self) -> str:
        seconds = f"{max(self.seconds, 1):.0f} s"
        if self.slept > self.stood:
            return f"this machine slept for {seconds}"
        return (
            f"all stood still for {seconds}: the processes were stopped, or this machine was paused"
        )


class Standstill:
    """Watches from its entry to its exit whether time passes in which nothing can work.

    Args:
        cpu_seconds: CPU time of the watched processes so far; it may raise OSError.
        stopped: whether they are stopped now.
        cores: how many they may use.
    """

    def __init__(
        self, cpu_seconds: Callable[[], float], stopped: Callable[[], bool], cores: int
    ) -> None:
        self.cpu_seconds, self.stopped, self.cores = cpu_seconds, stopped, cores
        self.all = Lost()
        self.halted = 0.0  # how long they have been in the state of stopped processes
        self.last, self.ended = time.monotonic(), False
        self.beaten = threading.Condition()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Standstill:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.beaten:
            self.ended = True
            self.beaten.notify_all()
        self.thread.join(ANSWER_SECONDS)

    @property
    def lost(self) -> Lost:
        """How long nothing could work so far, a hole that has just ended included."""
        now = time.monotonic()
        with self.beaten:
            self.beaten.wait_for(lambda: self.ended or self.last > now - 2 * BEAT, ANSWER_SECONDS)
            return self.all

    def _watch(self) -> None:
        clocks = _Clocks(self.cpu_seconds)
        recent = deque([BEAT * self.cores], RECENT)  # CPU seconds of the last beats
        while not self.ended:
            with self.beaten:
                self.beaten.wait_for(lambda: self.ended, BEAT)
            slept, late, worked = clocks.passed()
            if late < clocks.hole:
                recent.append(worked)
                late = 0.0
            elif worked >= max(recent) + late * min(WORKED, max(IDLE, fmean(recent) / BEAT / 2)):
                late = 0.0
            self.halted = self.halted + BEAT if self.stopped() else 0.0
            if self.halted > HOLE:
                late += self.halted
                self.halted = 0.0
            with self.beaten:
                self.all = Lost(
                    self.all.slept + (slept if slept > HOLE else 0.0),
                    self.all.stood + late,
                )
                self.last = time.monotonic()
                self.beaten.notify_all()


class _Clocks:
    """What passes from beat to beat of the thread that makes this."""

    def __init__(self, cpu_seconds: Callable[[], float]) -> None:
        self.cpu_seconds = cpu_seconds
        self.schedule = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self.counts = self._waited() is not None
        self.hole = HOLE if self.counts else UNCOUNTED
        self.beats, self.machine = 0, self._machine()
        self.before = self._read()

    def passed(self) -> tuple[float, float, float]:
        """Seconds that the machine slept, that the beat was late for no known cause, and CPU
        seconds that the watched processes used."""
        before, self.before = self.before, self._read()
        now, boot, waited, cpu = (new - old for new, old in zip(self.before, before, strict=True))
        late = now - BEAT - waited
        self.beats += 1
        if late > self.hole or self.beats % EVERY == 0:
            machine, self.machine = self.machine, self._machine()
            late -= self.machine - machine
        return boot - now, late, cpu

    def _read(self) -> tuple[float, float, float, float]:
        boot, now = time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
        return now, boot, self._waited() or 0.0, self._cpu()

    def _waited(self) -> float | None:
        """How long the thread has waited for a core, s; None where the kernel does not tell."""
        try:
            return int(self.schedule.read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return None

    def _machine(self) -> float:
        """How long the hypervisor let a core of this machine wait, s; where the kernel does not
        count how long threads do, also how long all cores were busy."""
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        steal: float = getattr(times, "steal", 0.0)
        return steal if self.counts else steal + busy / (os.cpu_count() or 1)

    def _cpu(self) -> float:
        try:
            return self.cpu_seconds()
        except OSError:
            return 0.0  # the run's control group is gone


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal or a tracer."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text[text.rindex(")") + 2] in "Tt"
