"""Work in slices, whenever the conductor of a set asks (measure/interleaving.py).

It reads commands, one a line: the seconds that a slice lasts. For about so long it works in whole
chunks, and waits for the device at both ends. It answers with a line of JSON, an `SliceReport`
(schema/interleaved.py), and waits in read(2) for the next command, without using a core.
"""

import json
import os
import resource
import time
from typing import Any, List, Tuple

from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.work import Work
from touchstone.schema.interleaved import SliceReport


class Slicer:
    """Works for about as long as it is asked, in chunks of about `chunk_seconds`; 0: of one step.

    The first slice begins with the first step, and finds how many steps a chunk has. The others
    may double them.
    """

    def __init__(self, work: Work, chunk_seconds: float, events: Any) -> None:
        self.work, self.size, self.begun = work, ChunkSize(chunk_seconds), False
        self.events = events

    def serve(self, commands: int, answers: int) -> None:
        """Say that the work is built, and do what these two pipes ask for, until their end."""
        os.write(answers, b"{}\n")
        with open(commands, encoding="utf-8") as lines:
            for line in lines:
                answer = self.slice(float(line))
                os.write(answers, (json.dumps(answer._asdict()) + "\n").encode())

    def slice(self, seconds: float) -> SliceReport:
        """Work for at least so long."""
        arrived, before = time.monotonic(), usage()
        if not self.begun:
            self._first_steps()
        size, work = self.size.steps, self.work
        first, begin = work.made, time.monotonic()
        while work.made == first or time.monotonic() - begin < seconds:
            work.begin("slice", size)
            begin += work.pause()  # as if the slice had begun later
        work.finish()
        end, after = time.monotonic(), usage()
        steps, examples = work.made - first, work.examples(first)
        self.size.learn(size, (end - begin) / steps * size)
        return SliceReport(arrived, begin, end, steps, examples, *before, *after)

    def _first_steps(self) -> None:
        """Do the first step, and chunks until one lasts half as long as it should."""
        begin = time.monotonic()
        self.work.begin("slice", 1)
        self.work.finish()
        self.events.phase("first_step", begin, steps=1, examples=self.work.examples(0))
        self.begun = True
        self.work.pause()
        while not self.size.settled:
            begin, size, first = time.monotonic(), self.size.steps, self.work.made
            self.work.begin("slice", size)
            self.work.finish()
            self.size.learn(self.work.made - first, time.monotonic() - begin)
            self.work.pause()


def usage() -> Tuple[float, int]:
    """CPU time of this process and those that it has started, s, and its own major page faults."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time() + ended.ru_utime + ended.ru_stime
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    return own + sum(map(_tree_seconds, _children(os.getpid()))), faults


def _tree_seconds(pid: int) -> float:
    """CPU time of a process and those that it has started, s, exact to ns."""
    total = 0
    try:
        for thread in os.listdir("/proc/{}/task".format(pid)):
            with open("/proc/{}/task/{}/schedstat".format(pid, thread), "rb") as file:
                total += int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0  # it has ended, or the kernel counts nothing
    return total / 1e9 + sum(map(_tree_seconds, _children(pid)))


def _children(pid: int) -> List[int]:
    """The processes that a process has started and that live."""
    children: List[int] = []
    try:
        for thread in os.listdir("/proc/{}/task".format(pid)):
            with open("/proc/{}/task/{}/children".format(pid, thread), "rb") as file:
                children += map(int, file.read().split())
    except (OSError, ValueError):
        pass
    return children
