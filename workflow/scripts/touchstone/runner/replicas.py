"""The processes that train one model together, where an adapter's replicas are processes.

The first starts the others on its machine by its own command, with their rank in the environment.
All of them make the same adapter, draw the same order of examples and take their share of every
batch. Only the first reads the clock, evaluates and writes events: it announces through a pipe how
many steps come next. The end of that pipe is the end of training.

On every other node the node's supervisor starts one (`measure/nodes.py`), which starts the others
there; the first announces steps to all of them through a connection, to which it admits only those
that prove that they know the run's secret (`schema/peers.py`).

If one ends too early, the one that started it ends in the same way, at once: it may itself be
waiting in an exchange that will never happen. The supervisors notice it on other nodes, and end
the run.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from typing import Any, Dict, List, Optional, Sequence

from touchstone.schema import peers, status
from touchstone.schema.events import Event, Result, event_to_line
from touchstone.schema.spec import Execution
from touchstone.schema.values import from_json, to_json
from touchstone.schema.variables import (
    INTERFACE,
    LEADER,
    LISTENER,
    RANK,
    RENDEZVOUS,
    REPORT_TO,
    SAMPLE_NOW,
    SECRET,
)

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""
STORE = "store"
"""The file by which the framework's processes find each other."""
LONGEST_ORDER = 32
"""Characters of a number of steps."""


class ReplicaLauncher:
    """A process that starts others on its machine, and ends as they do if they do too early.

    `events` takes the result of one that fails, and is locked for it.
    """

    events: Any

    PATIENCE = 5.0
    """Seconds that the others have to end, or to say why they failed."""
    folder: Any = None
    may_end = False

    def launch(self, ranks: Sequence[int], command: List[str], variables: Dict[str, str]) -> None:
        """Start a process by `command` for each of the ranks."""
        started = [self._start(rank, command, variables) for rank in ranks]
        self.step_announcements = [process.stdin for process, _ in started]
        # After the last process: a fork beside threads may copy a lock that one of them holds.
        self.watchers = [threading.Thread(target=self._watch, args=pair) for pair in started]
        for watcher in self.watchers:
            watcher.daemon = True
            watcher.start()

    def _start(self, rank: int, command: List[str], variables: Dict[str, str]) -> Any:
        """The process with this rank, and the end of the pipe from which its report comes."""
        reports, report_to = os.pipe()
        environment = dict(os.environ, **variables)
        environment.pop(SAMPLE_NOW, None)  # a descriptor that it does not get
        environment.update({RANK: str(rank), REPORT_TO: str(report_to)})
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, pass_fds=[report_to]
        )
        os.close(report_to)
        return process, reports

    def _watch(self, process: Any, reports: int) -> None:
        """Wait for the end of one of the others; end this process too if that came too early."""
        with open(reports) as pipe:
            report = pipe.read()
        code = process.wait()
        if self.may_end and code == 0 and not report:
            return
        if report:
            time.sleep(1.0)  # this process may be about to write what led to it
        self.events.lock.acquire()  # for good: no event follows the result
        if self.folder:
            self.folder.cleanup()
        if report:
            self.events.write_locked(from_json(Result, json.loads(report)))
            os._exit(0)
        if code < 0:
            # The supervisor then sees that the kernel killed a process that lacked memory.
            os.kill(os.getpid(), -code)
        os._exit(code or 1)


class RankZero(ReplicaLauncher):
    """The process with rank 0, which starts those on its node and leads them all.

    Args:
        replicas: how many processes train together on a node, `local_size`.
        nodes: on how many nodes they are.
        command: what starts one of them.
        events: takes the result of one that fails, and is locked for it.
    """

    rank, ready, address = 0, 0.0, ""
    interface: Optional[str] = "lo"

    def __init__(self, replicas: Any, nodes: Any, command: Any, events: Any) -> None:
        self.size, self.local_size = replicas * nodes, replicas
        self.events = events
        self.remote: List[Any] = []
        if nodes > 1:
            self.rendezvous = os.path.join(os.path.dirname(os.environ[SECRET]), STORE)
            self._gather(self.size - replicas)
        else:
            self.folder = tempfile.TemporaryDirectory(prefix="touchstone-replicas-")
            self.rendezvous = os.path.join(self.folder.name, STORE)
        variables = {RENDEZVOUS: self.rendezvous, INTERFACE: self.interface or ""}
        self.launch(range(1, replicas), command, variables)
        self.step_announcements += self.remote

    def _gather(self, count: int) -> None:
        """Wait until the processes of the other nodes, so many, have connected."""
        descriptor, host = os.environ.pop(LISTENER).split()
        self.address = "{}:{}".format(host, peers.free_port(host))
        with socket.socket(fileno=int(descriptor)) as listener:
            door = peers.Door(listener, peers.read_secret(os.environ[SECRET]))
            while len(self.remote) < count:
                connection = door.admit()
                self.interface = peers.interface_of(connection.getsockname()[0])
                stream = connection.makefile("wb")
                connection.close()  # when that file is closed
                peers.send(stream, [self.address, self.rendezvous])
                self.remote.append(stream)
            door.close()
        self.ready = time.monotonic()

    def announce(self, steps: int) -> None:
        """Have the others take so many steps; the caller must take them too."""
        for order in self.step_announcements:
            try:
                order.write(b"%d\n" % steps)
                order.flush()
            except ConnectionError:
                time.sleep(self.PATIENCE)  # its watcher, or the supervisor, ends this process
                raise

    def end(self, patience: Any = None) -> None:
        """End training: wait for the others, no longer than `patience` s if it failed."""
        if patience is None:
            wait_for_sample()
        self.may_end = True
        for order in self.step_announcements:
            try:
                order.close()
            except ConnectionError:
                pass
        for watcher in self.watchers:
            watcher.join(patience)
        if self.remote and patience:
            time.sleep(patience)  # a process of another node may have failed first: see above


class LocalFollower:
    """A process with another rank on the first node; of several nodes each has `replicas`."""

    def __init__(self, replicas: Any, nodes: Any) -> None:
        die_with_parent()
        self.size, self.local_size = replicas * nodes, replicas
        self.rank = int(os.environ[RANK])
        self.rendezvous = os.environ[RENDEZVOUS]
        self.interface = os.environ[INTERFACE] or None
        self.ready, self.address = 0.0, ""

    def follow_steps(self, loop: Any) -> None:
        """Take the steps that the first process announces."""
        for line in iter(sys.stdin.readline, ""):
            loop.begin("", int(line))
        loop.finish()


class RemoteFollower(ReplicaLauncher):
    """A process on another node than the first; the first on its node starts those beside it."""

    may_end = True  # the first process announces the end to each by its own connection

    def __init__(self, replicas: Any, nodes: Any, command: Any, events: Any) -> None:
        die_with_parent()
        self.size, self.local_size = replicas * nodes, replicas
        self.rank, self.events = int(os.environ[RANK]), events
        host, port = peers.host_and_port(os.environ[LEADER])
        connection = peers.connect(host, port, peers.read_secret(os.environ[SECRET]))
        self.interface = peers.interface_of(connection.getsockname()[0])
        self.announced = connection.makefile("rb")
        self.address, self.rendezvous = peers.receive(self.announced)
        self.ready = time.monotonic()
        local = 0 if REPORT_TO in os.environ else replicas
        self.launch(range(self.rank + 1, self.rank + local), command, {})

    def follow_steps(self, loop: Any) -> None:
        """Take the steps that the first process announces."""
        for line in iter(lambda: self.announced.readline(LONGEST_ORDER), b""):
            loop.begin("", int(line))
        loop.finish()
        for watcher in self.watchers:
            watcher.join()
        wait_for_sample()


class FollowerReporter:
    """Takes the events of a follower, of which only the result counts.

    A process that its node's supervisor has started writes it into the file of events; the others
    report to the process that started them, if they have failed.
    """

    def __init__(self, path: str) -> None:
        self.path, self.lock = path, threading.Lock()

    def write(self, event: Event) -> None:
        """Report a result."""
        if not isinstance(event, Result):
            return
        if REPORT_TO not in os.environ:
            with self.lock:
                self.write_locked(event)
        elif event.status != status.OK:
            os.write(int(os.environ[REPORT_TO]), json.dumps(to_json(event)).encode())

    def write_locked(self, event: Event) -> None:
        """Write an event; the caller holds the lock."""
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(event_to_line(event))

    def phase(self, name: str, begin: float, steps: int = 0, examples: int = 0) -> float:
        """The time; the phases of a follower are not written."""
        return time.monotonic()


def wait_for_sample() -> None:
    """Wait until the sensors of this node have looked again.

    A run is seen to the end of its measured phase by the sensors of all nodes if those of the
    first have looked before the others may end, and those of the others after that. They take
    what they are asked out of the pipe before they look, and look before they take any more.
    """
    if SAMPLE_NOW in os.environ:
        pipe = int(os.environ[SAMPLE_NOW])
        for _ in range(2):
            os.write(pipe, b".")
            while any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):
                time.sleep(0.001)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def processes(execution: Execution) -> int:
    """How many processes train together on a node: its replicas may be devices of one."""
    return execution.replicas if execution.replicas_are == "processes" else 1


def join(execution: Execution, events: Any) -> Any:
    """The place of this process among those of a run; the first on a node starts the others."""
    nodes, replicas = execution.nodes, processes(execution)
    command = [sys.executable] + sys.argv
    if LEADER in os.environ:
        return RemoteFollower(replicas, nodes, command, events)
    if RANK in os.environ:
        return LocalFollower(replicas, nodes)
    return RankZero(replicas, nodes, command, events)
