"""The processes that train one model together, where an adapter's replicas are processes.

The first starts the others on its machine by its own command, with their rank in the environment.
All of them make the same adapter, draw the same order of examples and take their share of every
batch. Only the first looks at the clock, evaluates and writes events: it tells the others through
a pipe how many steps come next. The end of that pipe is the end of training.

On every other node the node's supervisor starts one (`measure/nodes.py`), which starts those
beside it; all of them are told through a connection to the first instead.

Where one ends before it was told to, the one that started it ends as that one did, at once: it
may itself be waiting in an exchange that will never come about. Of another node the supervisors
know, and end the run.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from typing import Any, List, Sequence

RANK, RENDEZVOUS, INTERFACE, WORD = (
    "TOUCHSTONE_REPLICA", "TOUCHSTONE_RENDEZVOUS", "TOUCHSTONE_INTERFACE",
    "TOUCHSTONE_REPLICA_WORD",
)  # fmt: skip
"""Environment variables of the others: their rank, the address at which the framework's processes
find each other, the network interface that leads to the other nodes, and the file descriptor that
takes their last word."""
RANKS, FIRST = "TOUCHSTONE_RANKS", "TOUCHSTONE_FIRST"
"""Set by the supervisors where there are several nodes. Of the first process: the descriptor of a
listening socket, its host's name and a secret; of those on other nodes: host, port, secret."""
SAMPLE_NOW = "TOUCHSTONE_SAMPLE_NOW"
"""A pipe's file descriptor: a byte asks the sensors of this node for a sample."""
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""
SIOCGIFADDR = 0x8915
"""netdevice(7): the address of a network interface."""
GREETING = 10.0
"""Seconds that whoever connects has to say who it is."""


class Leader:
    """A process that starts others on its machine, and ends as they do if they do too early.

    `events` takes the last word of one that fails, and is locked for it.
    """

    events: Any

    PATIENCE = 5.0
    """Seconds that the others have to end, or to say why they failed."""
    folder: Any = None
    told_to_end = False

    def lead(self, ranks: Sequence[int], command: Any, variables: Any) -> None:
        """Start a process by `command` for each of the ranks."""
        started = [self._start(rank, command, variables) for rank in ranks]
        self.orders = [process.stdin for process, _ in started]
        # After the last process: a fork beside threads may copy a lock that one of them holds.
        self.watchers = [threading.Thread(target=self._watch, args=one) for one in started]
        for watcher in self.watchers:
            watcher.daemon = True
            watcher.start()

    def _start(self, rank: int, command: Any, variables: Any) -> Any:
        """The process with this rank, and the end of the pipe from which its last word comes."""
        heard, word = os.pipe()
        told = dict(os.environ, **variables)
        told.pop(SAMPLE_NOW, None)  # a descriptor that it does not get
        told.update({RANK: str(rank), WORD: str(word)})
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=told, pass_fds=[word])
        os.close(word)
        return process, heard

    def _watch(self, process: Any, heard: Any) -> None:
        """Wait for the end of one of the others; end this process too if it was not to end yet."""
        with open(heard) as pipe:
            said = pipe.read()
        code = process.wait()
        if self.told_to_end and code == 0 and not said:
            return
        if said:
            time.sleep(1.0)  # this process may be about to write what led there
        self.events.lock.acquire()  # for good: nothing is to follow its word
        if self.folder:
            self.folder.cleanup()
        if said:
            self.events.put("result", **json.loads(said))
            os._exit(0)
        if code < 0:
            # So the supervisor learns of a process that the kernel killed for want of memory.
            os.kill(os.getpid(), -code)
        os._exit(code or 1)


class First(Leader):
    """The process with rank 0, which starts those on its node and leads them all.

    Args:
        replicas: how many processes train together on a node, `local_size`.
        nodes: on how many nodes they are.
        command: what starts one of them.
        events: takes the last word of one that fails, and is locked for it.
    """

    rank, interface, ready = 0, "lo", 0.0

    def __init__(self, replicas: Any, nodes: Any, command: Any, events: Any) -> None:
        self.size, self.local_size = replicas * nodes, replicas
        self.events = events
        self.far: List[Any] = []
        if nodes > 1:
            self._gather(self.size - replicas)
        else:
            self.folder = tempfile.TemporaryDirectory(prefix="touchstone-replicas-")
            self.rendezvous = "file://" + os.path.join(self.folder.name, "store")
        told = {RENDEZVOUS: self.rendezvous, INTERFACE: self.interface or ""}
        self.lead(range(1, replicas), command, told)
        self.orders += self.far

    def _gather(self, count: int) -> None:
        """Wait until the processes of the other nodes, so many, have connected."""
        descriptor, host, secret = os.environ.pop(RANKS).split()
        port = free_port()
        self.rendezvous = "tcp://{}:{}".format(host, port)
        with socket.socket(fileno=int(descriptor)) as listener:
            while len(self.far) < count:
                connection, _ = listener.accept()
                connection.settimeout(GREETING)
                try:
                    said = connection.makefile("r").readline(len(secret) + 1)
                except OSError:
                    said = ""
                if said.strip() != secret:
                    connection.close()
                    continue
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(b"%d\n" % port)
                self.interface = interface_of(connection.getsockname()[0])
                self.far.append(connection.makefile("wb"))
                connection.close()  # when that file is closed
        self.ready = time.monotonic()

    def tell(self, steps: int) -> None:
        """Have the others take so many steps; the caller must take them too."""
        for order in self.orders:
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
        self.told_to_end = True
        for order in self.orders:
            try:
                order.close()
            except ConnectionError:
                pass
        for watcher in self.watchers:
            watcher.join(patience)
        if self.far and patience:
            time.sleep(patience)  # one of another node may have failed first: see above


class Other:
    """A process with another rank on the first node; of several nodes each has `replicas`."""

    def __init__(self, replicas: Any, nodes: Any) -> None:
        die_with_parent()
        self.size, self.local_size = replicas * nodes, replicas
        self.rank = int(os.environ[RANK])
        self.rendezvous = os.environ[RENDEZVOUS]
        self.interface = os.environ[INTERFACE] or None
        self.ready = 0.0

    def follow(self, loop: Any) -> None:
        """Take the steps that the first process tells of."""
        for line in iter(sys.stdin.readline, ""):
            loop.begin("", int(line))
        loop.finish()


class Far(Leader):
    """A process on another node than the first; the first on its node starts those beside it."""

    told_to_end = True  # the first process tells them all, each by its own connection

    def __init__(self, replicas: Any, nodes: Any, command: Any, events: Any) -> None:
        die_with_parent()
        self.size, self.local_size = replicas * nodes, replicas
        self.rank, self.events = int(os.environ[RANK]), events
        host, port, secret = os.environ[FIRST].split()
        connection = socket.create_connection((host, int(port)))
        connection.sendall(secret.encode() + b"\n")
        self.interface = interface_of(connection.getsockname()[0])
        self.told = connection.makefile("r")
        self.rendezvous = "tcp://{}:{}".format(host, int(self.told.readline()))
        self.ready = time.monotonic()
        beside = 0 if WORD in os.environ else replicas
        self.lead(range(self.rank + 1, self.rank + beside), command, {})

    def follow(self, loop: Any) -> None:
        """Take the steps that the first process tells of."""
        for line in iter(self.told.readline, ""):
            loop.begin("", int(line))
        loop.finish()
        for watcher in self.watchers:
            watcher.join()
        wait_for_sample()


class Word:
    """Stands for the events of such a process: only its last word is heard.

    The one that its node's supervisor has started writes it into the file of events; the others'
    goes to the one that started them, if they have failed.
    """

    def __init__(self, path: str) -> None:
        self.path, self.lock = path, threading.Lock()

    def write(self, event: Any, **fields: Any) -> None:
        if event != "result":
            return
        if WORD not in os.environ:
            with self.lock:
                self.put(event, **fields)
        elif fields["status"] != "ok":
            os.write(int(os.environ[WORD]), json.dumps(fields).encode())

    def put(self, event: Any, **fields: Any) -> None:
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(json.dumps(dict(event=event, **fields)) + "\n")

    def phase(self, name: str, begin: float, **fields: Any) -> Any:
        return time.monotonic()


def wait_for_sample() -> None:
    """Wait until the sensors of this node have looked once more.

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


def free_port() -> Any:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def interface_of(address: Any) -> Any:
    """The network interface with this IPv4 address; None where no interface has it."""
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            try:
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:  # it has none
                continue
        if socket.inet_ntoa(answer[20:24]) == address:
            return name
    return None


def processes(execution: Any) -> Any:
    """How many processes train together on a node: its replicas may be devices of one."""
    return execution["replicas"] if execution["replicas_are"] == "processes" else 1


def join(execution: Any, events: Any) -> Any:
    """The place of this process among those of a run; the first on a node starts the others."""
    nodes, replicas = execution.get("nodes", 1), processes(execution)
    command = [sys.executable] + sys.argv
    if FIRST in os.environ:
        return Far(replicas, nodes, command, events)
    if RANK in os.environ:
        return Other(replicas, nodes)
    return First(replicas, nodes, command, events)
