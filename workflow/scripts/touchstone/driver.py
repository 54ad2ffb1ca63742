"""The execution of Snakemake to which a process belongs: who it is, and to end with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path
from typing import NamedTuple

from touchstone.schema.variables import DRIVER

BOOT = Path("/proc/sys/kernel/random/boot_id")


class Process(NamedTuple):
    """A process of one boot of one machine, as no other one ever is."""

    number: int
    started: str
    """Clock ticks after the boot."""
    world: str
    """The boot, the namespace in which the number counts, and the job of Slurm, which outlives the
    driver that submitted it."""

    @classmethod
    def of(cls, number: int) -> Process:
        """That of a living process here. Raises OSError where there is none."""
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        if fields[0] in "ZX":
            raise ProcessLookupError(number)
        return cls(number, fields[19], _world())

    @classmethod
    def read(cls, text: str) -> Process:
        """What `str` wrote. Raises ValueError."""
        number, started, world = text.split()
        return cls(int(number), started, world)

    def __str__(self) -> str:
        return f"{self.number} {self.started} {self.world}"

    def is_here(self) -> bool:
        """Whether it is, or was, a process that this one could see."""
        return self.world == _world()

    def is_alive(self) -> bool:
        """Whether it is one here, and still runs."""
        try:
            return Process.of(self.number) == self
        except OSError:
            return False


def _world() -> str:
    namespace = os.readlink("/proc/self/ns/pid")
    return f"{BOOT.read_text().strip()}/{namespace}/{os.environ.get('SLURM_JOB_ID', '')}"


def lead() -> None:
    """Make this process the one with which its jobs end."""
    with contextlib.suppress(OSError):  # without /proc nobody knows
        os.environ[DRIVER] = str(Process.of(os.getpid()))


def end_with_it() -> None:
    """Kill this process when the one that leads it has ended.

    Its own processes end with it (prctl PR_SET_PDEATHSIG), those of a container too. Nothing is
    watched where it runs elsewhere, as for a job of a cluster, or where there is none.
    """
    try:
        leader = Process.read(os.environ.get(DRIVER, ""))
        if not leader.is_here():
            return
        handle = os.pidfd_open(leader.number)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    except (OSError, ValueError):
        return
    if not leader.is_alive():
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=_wait, args=(handle,), daemon=True).start()


def _wait(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)
