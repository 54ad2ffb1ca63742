"""Becomes the Python of the container in which it runs: start_in_container.py START ARGUMENT...

START is a JSON object of `touchstone.containers.replace_process`. Only the standard library of
Python 3.6 is used: any image's Python runs this.
"""

import fcntl
import json
import os
import select
import sys

FIRST = 3
"""The number from which descriptors are passed."""


def restore(descriptors: "list[int]") -> None:
    """Give the descriptors from `FIRST` on the numbers that they had."""
    # From the highest: in ascending order none is lower than the one it has now.
    for place in reversed(range(len(descriptors))):
        now, wanted = FIRST + place, descriptors[place]
        os.set_inheritable(now, True)
        if now != wanted:
            os.dup2(now, wanted)
            os.close(now)


def end_with(lifeline: int) -> None:
    """Have the kernel end this process when the other end of a pipe is closed."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    # SIGIO ends a process that has no handler for it.
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:
        sys.exit("error: what started this run has ended")


def wait_for(process: int) -> int:
    """Wait until that child has ended; others are orphans of the container. Returns its status, of
    a signal as a shell does."""
    while True:
        ended, status = os.wait()
        if ended == process:
            return 128 + (status & 127) if status & 127 else status >> 8


start = json.loads(sys.argv[1])
restore(start["descriptors"])
os.sched_setaffinity(0, start["cores"])
if os.getpid() == 1:
    # The kernel keeps signals from the first process of a container. All others end with it.
    child = os.fork()
    if child:
        for descriptor in start["descriptors"]:
            os.close(descriptor)
        os._exit(wait_for(child))
if start["lifeline"] >= 0:
    end_with(start["lifeline"])
os.environ.update(start["variables"])
os.execv(sys.executable, [sys.executable] + sys.argv[2:])
