"""The nodes of a run that trains on several of them: one supervisor on each, and what they tell.

The supervisor on the first node starts the others by `srun`, inside the run's own Slurm job, and
gives them the spec. Each has its own sensors, limits and runner, which is the first of the node's
replicas. Each proves that it knows the run's secret before anything else crosses the network
(`schema/peers.py`). Where one of these ends badly, or its supervisor is not heard of any more, the
run ends as it did; where that of the first node is gone, the others end.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from touchstone.measure.launch import Fault
from touchstone.measure.supervisor import Ending
from touchstone.paths import CLI
from touchstone.schema import peers
from touchstone.schema.spec import RunSpec, spec_from_json, spec_to_json
from touchstone.schema.status import DIVERGED, ERROR, OK
from touchstone.schema.variables import LEADER, LISTENER, RANK, SECRET

FOLDER = "nodes"
"""In the folder of a run: a folder for each other node. Like `trials` no output of the rule."""
RENDEZVOUS = ".rendezvous"
"""In the folder of a run, while it runs: a folder that only the user may enter, for the secret."""
SRUN_VARIABLES = ("SLURM_JOB_ID", "SLURM_CONF")
"""What `srun` may know of the step in which it is started; the rest would be taken as options."""
ENDING_SECONDS = 60.0
"""Seconds that the other nodes have to end, or to be let in."""
INTERFACE = "GLOO_SOCKET_IFNAME"
"""The variable with which a user names the network interface between the nodes."""
CLOCK_READINGS = 20
"""How often a clock is asked for; the answer that took least counts."""
SEEN_BY_ALL = (OK, DIVERGED)
"""How runners end of which the first one says the same itself: a loss is one of all."""


def names(count: int) -> list[str]:
    """The nodes of this Slurm job, this one first; raises Fault if they are not `count`."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        raise Fault(f"nodes: {count} are asked for outside of a Slurm job; see docs/slurm.md")
    listed = _ask("squeue", "--noheader", f"--jobs={job}", "--format=%N")
    hosts = _ask("scontrol", "show", "hostnames", listed).split()
    own = os.environ.get("SLURMD_NODENAME") or platform.node().partition(".")[0]
    if own not in hosts or len(hosts) != count:
        raise Fault(
            f"nodes: {count} are asked for, job {job} has {listed or 'none'}, this is {own}; "
            "leave `nodes` of `train` in the profile to the workflow"
        )
    return [own, *(name for name in hosts if name != own)]


def _ask(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise Fault(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout.strip()


def own_address(hosts: list[str]) -> str:
    """The IPv4 address at which this node, `hosts[0]`, waits for the others; raises Fault.

    It is that of the interface that `GLOO_SOCKET_IFNAME` names, or that leads to the next node.
    """
    if interface := os.environ.get(INTERFACE):
        if address := peers.address_of(interface):
            return address
        raise Fault(f"{INTERFACE}: no interface {interface} with an IPv4 address; name another one")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
            unsent.connect((hosts[1], 1))  # finds the route, and sends nothing
            return str(unsent.getsockname()[0])
    except OSError:
        try:
            return socket.gethostbyname(hosts[0])
        except OSError as fault:
            raise Fault(
                f"nodes: {hosts[0]} has no address ({fault}); name the network interface between"
                f" the nodes with {INTERFACE}"
            ) from None


class RemoteNodes:
    """The other nodes, as the supervisor on the first one sees them.

    Args:
        spec: of the run.
        python: of the framework's environment.
        run: the run's folder, which all nodes share.
        hosts: the names of the nodes, the first one first.

    `variables` and `descriptors` are for the first runner, to which the others' connect.
    """

    leads = True

    def __init__(self, spec: RunSpec, python: str, run: Path, hosts: list[str]) -> None:
        self.spec, self.count = spec, len(hosts) - 1
        self.said: dict[str, Ending] = {}
        self.changed = threading.Condition()
        self.news_end, self.bell = os.pipe()
        self.connections: list[socket.socket] = []
        address = own_address(hosts)
        self.folder = run.absolute() / RENDEZVOUS
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        secret = str(self.folder / "secret")
        peers.write_secret(secret)
        self.server, self.ranks = (socket.create_server((address, 0)) for _ in range(2))
        self.door = peers.Door(self.server, peers.read_secret(secret))
        self.descriptors = [self.ranks.fileno()]
        self.variables = {LISTENER: f"{self.ranks.fileno()} {address}", SECRET: secret}
        self.awaited = {name: i for i, name in enumerate(hosts) if i}
        port = self.server.getsockname()[1]
        self.srun = subprocess.Popen(
            [
                "srun", "--quiet", f"--nodes={self.count}", f"--ntasks={self.count}",
                "--ntasks-per-node=1", f"--nodelist={','.join(hosts[1:])}", "--cpu-bind=none",
                sys.executable, str(CLI), "run-node", f"--at={address}:{port}",
                f"--run={run}", f"--python={python}",
            ],
            env={
                **{k: v for k, v in os.environ.items() if k in SRUN_VARIABLES or k[:6] != "SLURM_"},
                SECRET: secret,
            },
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        for target in (self._accept, self._wait):
            threading.Thread(target=target, daemon=True).start()

    def fileno(self) -> int:
        """What is readable when there is news."""
        return self.news_end

    def news(self) -> Ending | None:
        """The outcome of the run, if another node has ended it."""
        os.read(self.news_end, 64)
        return self._bad()

    def ended(self) -> Ending | None:
        """Wait until all have ended; the first outcome among theirs that is a bad one."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.said) == self.count, ENDING_SECONDS):
                late = ", ".join(sorted(self.awaited))
                why = f"other nodes did not end within {ENDING_SECONDS:g} s"
                return Ending(ERROR, f"{why} ({late})" if late else why, [])
        return self._bad()

    def close(self) -> None:
        """End what still runs on the other nodes, which sees its connection closed, and wait."""
        for sock in (self.server, self.ranks, *self.connections):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for end in (None, self.srun.terminate, self.srun.kill):
            if end:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.srun.wait(ENDING_SECONDS / 2)
                break
        shutil.rmtree(self.folder, ignore_errors=True)

    def _bad(self) -> Ending | None:
        with self.changed:
            for name, ending in self.said.items():
                if ending.status not in SEEN_BY_ALL:
                    return ending._replace(reason=f"node {name}: {ending.reason}")
        return None

    def _hear(self, name: str, outcome: Ending) -> None:
        with self.changed:
            self.said.setdefault(name, outcome)
            self.changed.notify_all()
        os.write(self.bell, b".")

    def _accept(self) -> None:
        """Let the supervisors of the other nodes in."""
        while True:
            try:
                connection = self.door.admit()
            except OSError:  # the server is closed
                self.door.close()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Give the spec to the supervisor of a node, and hear how its runner ended."""
        connection.settimeout(ENDING_SECONDS)
        stream = connection.makefile("rwb")
        try:
            name = peers.receive(stream)
            number = self.awaited.pop(name)
        except (OSError, ValueError, KeyError, TypeError):
            connection.close()
            return
        connection.settimeout(None)
        self.connections.append(connection)
        outcome = Ending(ERROR, "its supervisor is gone", [])
        execution = self.spec.execution
        # Replicas may be devices of one process for each node.
        per_node = execution.replicas if execution.replicas_are == "processes" else 1
        port = self.ranks.getsockname()[1]
        try:
            start = {"spec": spec_to_json(self.spec), "rank": number * per_node, "port": port}
            peers.send(stream, start)
            while (said := peers.receive(stream)) is None:
                peers.send(stream, time.monotonic())
            outcome = Ending(**said)
        except (OSError, ValueError, TypeError):
            pass
        self._hear(name, outcome)

    def _wait(self) -> None:
        """Have nobody wait for a node that `srun` could not reach."""
        code = self.srun.wait()
        time.sleep(1.0)  # for what is under way
        for name in list(self.awaited):
            why = f"srun ended with exit status {code} before it was heard of"
            self._hear(name, Ending(ERROR, why, []))


@contextlib.contextmanager
def remote_nodes(spec: RunSpec, python: str, run: Path) -> Iterator[RemoteNodes | None]:
    """The other nodes of a run, which are started, and ended for certain; None if it has none.

    Raises Fault where the Slurm job has not the nodes of the spec.
    """
    count = spec.execution.nodes
    if count == 1:
        yield None
        return
    nodes = RemoteNodes(spec, python, run, names(count))
    try:
        yield nodes
    finally:
        nodes.close()


class Reading(NamedTuple):
    """The clock of the first node, as it was read on another: when (s, of this node's clock),
    what is to be added to this node's, and by how much that may be wrong (s)."""

    at: float
    offset: float
    uncertainty: float


class FirstNode:
    """The supervisor on the first node, as that of another sees it; raises OSError.

    Args:
        host, port: where it waits for this one.
        secret: the file with the run's secret.
        name: of this node.

    `spec` is that of the run; `variables` and `descriptors` are for the runner.
    """

    leads = False

    def __init__(self, host: str, port: int, secret: str, name: str) -> None:
        self.connection = peers.connect(host, port, peers.read_secret(secret), ENDING_SECONDS)
        self.stream = self.connection.makefile("rwb")
        peers.send(self.stream, name)
        start = peers.receive(self.stream)
        self.spec = cast(RunSpec, spec_from_json(start["spec"]))
        self.variables = {
            RANK: str(start["rank"]),
            LEADER: f"{host}:{start['port']}",
            SECRET: secret,
        }
        self.descriptors: list[int] = []

    def clock(self) -> Reading:
        """Read the clock of the first node (Cristian 1989): half of the way there and back is
        taken off, and is what it may be wrong by."""
        readings = []
        for _ in range(CLOCK_READINGS):
            sent = time.monotonic()
            peers.send(self.stream, None)
            there = float(peers.receive(self.stream))
            back = time.monotonic()
            at = (sent + back) / 2
            readings.append(Reading(at, there - at, (back - sent) / 2))
        return min(readings, key=lambda reading: reading.uncertainty)

    def fileno(self) -> int:
        """What is readable when the first node has ended the run."""
        return self.connection.fileno()

    def news(self) -> Ending:
        """Why the runner is to end."""
        return Ending(ERROR, "the first node has ended the run", [])

    def ended(self) -> None:
        """Nobody is waited for here."""

    def tell(self, outcome: Ending) -> None:
        """Say how the runner ended."""
        peers.send(self.stream, outcome._asdict())
