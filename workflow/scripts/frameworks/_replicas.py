"""The processes that train one model together, where an adapter's replicas are processes.

The first starts the others by its own command, with their rank in the environment. All of them
make the same adapter, draw the same order of examples and take their share of every batch. Only
the first looks at the clock, evaluates and writes events: it tells the others through a pipe how
many steps come next. The end of that pipe is the end of training.

Where one of the others ends before it was told to, the first ends as that one did, at once: it
may itself be waiting in an exchange that will never come about.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

RANK, RENDEZVOUS, WORD = (
    "TOUCHSTONE_REPLICA", "TOUCHSTONE_RENDEZVOUS", "TOUCHSTONE_REPLICA_WORD",
)  # fmt: skip
"""Environment variables of the others: their rank, the file at which the framework's processes
find each other, and the file descriptor that takes their last word."""
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""


class First:
    """The process with rank 0, which starts and leads the others.

    Args:
        size: how many processes train together.
        command: what starts one of them.
        events: takes the last word of one that fails, and is locked for it.
    """

    PATIENCE = 5.0
    """Seconds that the others have to end, or to say why they failed."""
    rank = 0

    def __init__(self, size, command, events):
        self.size, self.events, self.told_to_end = size, events, False
        self.folder = tempfile.TemporaryDirectory(prefix="touchstone-replicas-")
        self.rendezvous = os.path.join(self.folder.name, "store")
        started = [self._start(rank, command) for rank in range(1, size)]
        self.orders = [process.stdin for process, _ in started]
        # After the last process: a fork beside threads may copy a lock that one of them holds.
        self.watchers = [threading.Thread(target=self._watch, args=one) for one in started]
        for watcher in self.watchers:
            watcher.daemon = True
            watcher.start()

    def _start(self, rank, command):
        """The process with this rank, and the end of the pipe from which its last word comes."""
        heard, word = os.pipe()
        told = {RANK: str(rank), RENDEZVOUS: self.rendezvous, WORD: str(word)}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=dict(os.environ, **told), pass_fds=[word]
        )
        os.close(word)
        return process, heard

    def _watch(self, process, heard):
        """Wait for the end of one of the others; end this process too if it was not to end yet."""
        with open(heard) as pipe:
            said = pipe.read()
        code = process.wait()
        if self.told_to_end and code == 0 and not said:
            return
        if said:
            time.sleep(1.0)  # this process may be about to write what led there
        self.events.lock.acquire()  # for good: nothing is to follow its word
        self.folder.cleanup()
        if said:
            self.events.put("result", **json.loads(said))
            os._exit(0)
        if code < 0:
            # So the supervisor learns of a process that the kernel killed for want of memory.
            os.kill(os.getpid(), -code)
        os._exit(code or 1)

    def tell(self, steps):
        """Have the others take so many steps; the caller must take them too."""
        for order in self.orders:
            try:
                order.write(b"%d\n" % steps)
                order.flush()
            except BrokenPipeError:
                time.sleep(self.PATIENCE)  # its watcher ends this process
                raise

    def end(self, patience=None):
        """End training: wait for the others, no longer than `patience` s if that is given."""
        self.told_to_end = True
        for order in self.orders:
            try:
                order.close()
            except BrokenPipeError:
                pass
        for watcher in self.watchers:
            watcher.join(patience)


class Other:
    """A process with another rank; `size` is how many train together."""

    def __init__(self, size):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        self.size, self.rank = size, int(os.environ[RANK])
        self.rendezvous = os.environ[RENDEZVOUS]

    def follow(self, loop):
        """Take the steps that the first process tells of."""
        for line in iter(sys.stdin.readline, ""):
            loop.begin("", int(line))
        loop.finish()


class Word:
    """Stands for the events of such a process: only its last word is heard, if it has failed."""

    def write(self, event, **fields):
        if event == "result" and fields["status"] != "ok":
            os.write(int(os.environ[WORD]), json.dumps(fields).encode())

    def phase(self, name, begin, **fields):
        return time.monotonic()


def join(size, events):
    """The place of this process among `size`; the first starts the others."""
    if RANK in os.environ:
        return Other(size)
    return First(size, [sys.executable] + sys.argv, events)
