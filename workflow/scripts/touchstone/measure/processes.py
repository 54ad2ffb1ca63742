"""The processes of a run: who they are, and what the kernel says of each in /proc.

Where this user may make one, the run gets a control group of its own (cgroup v2), which
counts the CPU time of every process that was ever in it. Elsewhere the tree is followed
through /proc: the kernel adds the account of a child to its parent's when the parent waits
for it, and this process makes itself the reaper of those whose parent has gone
(PR_SET_CHILD_SUBREAPER), so that their accounts arrive here. What the tree cannot see is a
child whose parent ignores SIGCHLD.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

PR_SET_CHILD_SUBREAPER = 36
"""prctl(2): orphaned descendants become children of this process."""
KCMP = {"x86_64": 312, "aarch64": 272}
"""The number of the system call kcmp(2), by machine."""
KCMP_VM = 1
"""Asks kcmp(2) whether two processes have one address space."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks per second, the unit of CPU times in /proc/PID/stat."""
NUMBER = re.compile(rb"^(\w+):\s+(\d+)\b", re.MULTILINE)
PREFIX = "touchstone-"
"""Names of our control groups begin with it and the supervisor's process id."""


class Account(NamedTuple):
    """What a process has used, the children that it waited for included.

    CPU time in s; faults are numbers of page faults.
    """

    cpu_seconds: float
    minor_faults: int
    major_faults: int

    @staticmethod
    def total(parts: list[Account]) -> Account:
        """The sum of several accounts."""
        cpu, minor, major = zip(*parts, strict=True)
        return Account(sum(cpu), sum(minor), sum(major))


def account(pid: int) -> Account | None:
    """The account of a process from /proc/PID/stat (proc(5)); None if it has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in brackets may hold spaces; minflt is field 10, the first after it field 3.
    numbers = [int(field) for field in text[text.rindex(")") + 2 :].split()[7:15]]
    minor, minor_children, major, major_children, *times = numbers
    return Account(sum(times) / TICKS, minor + minor_children, major + major_children)


def fields(pid: int, name: str) -> dict[str, int] | None:
    """The lines `key: number` of /proc/PID/`name`; None if it cannot be read."""
    try:
        # Read for every thread at every tick: this is twice as fast as pathlib and split.
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            text = file.read()
    except OSError:
        return None
    return {key.decode(): int(number) for key, number in NUMBER.findall(text)}


def share_address_space(first: int, second: int) -> bool:
    """Whether two processes have one address space; no, where the kernel does not tell."""
    call = KCMP.get(platform.machine())
    return call is not None and not ctypes.CDLL(None).syscall(call, first, second, KCMP_VM, 0, 0)


def threads(pid: int) -> list[int]:
    """The threads of a process; none if it has gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """The children of a process, by the kernel's own lists (CONFIG_PROC_CHILDREN) if it keeps them.

    Listing every process of the machine instead would cost more than all the sensors.
    """
    if not Path("/proc/thread-self/children").exists():
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    pids: list[int] = []
    for thread in threads(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                pids += map(int, file.read().split())
        except OSError:
            continue
    return pids


def tree(pid: int) -> list[int]:
    """A process and its descendants, parents before their children.

    Read in this order, a child that its parent reaps meanwhile is missed until the next
    reading, and never counted twice.
    """
    pids = [pid]
    for process in pids:
        pids += [child for child in children(process) if child not in pids]
    return pids


def is_contained(pid: int) -> bool:
    """Whether a process is in another namespace of process ids than this one, as in a container."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def become_reaper() -> None:
    """Let orphaned descendants of this process become its children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


@dataclass(frozen=True)
class ControlGroup:
    """A cgroup v2 of one run; as long as `lock` is open, no other supervisor removes it."""

    path: Path
    lock: int

    def enter(self) -> None:
        """Move this process, and all that it will start, into the group."""
        (self.path / "cgroup.procs").write_text("0")

    def processes(self) -> list[int]:
        """The living processes in it."""
        return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]

    def cpu_seconds(self) -> float:
        """CPU time of all that were ever in it, s; raises OSError if the kernel does not tell."""
        for line in (self.path / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) / 1e6
        raise OSError("cpu.stat has no usage_usec")

    def remove(self) -> None:
        """Remove it, unless something is left in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()
        os.close(self.lock)


def own_group() -> Path:
    """The folder of the cgroup v2 that this process is in; raises OSError if there is none."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    where = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    inside = [line[3:] for line in lines if line.startswith("0::")]
    if not where or not inside:
        raise OSError("no cgroup v2 is mounted")
    return Path(where[0]) / inside[0].lstrip("/")


def make_group() -> tuple[ControlGroup | None, str | None]:
    """A control group for a run under the one that this process is in, or why there is none."""
    lock = None
    try:
        own = own_group()
        lock = os.open(own, os.O_RDONLY)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # No other supervisor is here: what there is, killed ones left behind.
            for left in own.glob(f"{PREFIX}*"):
                with contextlib.suppress(OSError):
                    left.rmdir()
        fcntl.flock(lock, fcntl.LOCK_SH)
        # Elsewhere in this group, process ids may be other ones (containers).
        path = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=own)
    except OSError as fault:
        if lock is not None:
            os.close(lock)
        return None, f"no control group can be made: {fault.strerror or fault}"
    group = ControlGroup(Path(path), lock)
    try:
        # Only trying tells whether a process may be moved there, and what is counted.
        subprocess.run(["true"], check=True, preexec_fn=group.enter)
        group.cpu_seconds()
    except (OSError, subprocess.SubprocessError) as fault:
        group.remove()
        return None, f"a control group of our own is of no use here: {fault}"
    return group, None
