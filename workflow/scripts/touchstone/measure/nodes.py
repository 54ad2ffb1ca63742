"""The nodes of a run that trains on several of them: one supervisor on each, and what they tell.

The supervisor on the first node starts the others by `srun`, inside the run's own Slurm job, and
gives them the spec. Each has its own sensors, limits and runner, which is the first of the node's
replicas. Where one of these ends badly, or its supervisor is not heard of any more, the run ends
as it did; where that of the first node is gone, the others end.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from touchstone.measure.supervisor import Ending, Fault
from touchstone.paths import CLI
from touchstone.schema.spec import RunSpec, spec_from_json, spec_to_json
from touchstone.schema.status import DIVERGED, ERROR, OK
from touchstone.schema.variables import LEADER, LISTENER, RANK, SECRET

FOLDER = "nodes"
"""In the folder of a run: a folder for each other node. Like `trials` no output of the rule."""
KEPT = ("SLURM_JOB_ID", "SLURM_CONF")
"""What `srun` may know of the step in which it is started; the rest would be taken as options."""
PATIENCE = 60.0
"""Seconds that the other nodes have to end, or to be let in."""
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
    found = _ask("scontrol", "show", "hostnames", listed).split()
    own = os.environ.get("SLURMD_NODENAME") or platform.node().partition(".")[0]
    if own not in found or len(found) != count:
        raise Fault(
            f"nodes: {count} are asked for, job {job} has {listed or 'none'}, this is {own}; "
            "leave `nodes` of `train` in the profile to the workflow"
        )
    return [own, *(name for name in found if name != own)]


def _ask(*command: str) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise Fault(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout.strip()


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
        secret = secrets.token_hex(16)
        self.server, self.ranks = (socket.create_server(("", 0)) for _ in range(2))
        self.descriptors = [self.ranks.fileno()]
        self.variables = {LISTENER: f"{self.ranks.fileno()} {hosts[0]} {secret}"}
        self.awaited = {f"{secret} {name}\n": (name, i) for i, name in enumerate(hosts) if i}
        host, port = hosts[0], self.server.getsockname()[1]
        self.srun = subprocess.Popen(
            [
                "srun", "--quiet", f"--nodes={self.count}", f"--ntasks={self.count}",
                "--ntasks-per-node=1", f"--nodelist={','.join(hosts[1:])}", "--cpu-bind=none",
                sys.executable, str(CLI), "run-node", f"--at={host}:{port}",
                f"--run={run}", f"--python={python}",
            ],
            env={
                **{k: v for k, v in os.environ.items() if k in KEPT or k[:6] != "SLURM_"},
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
            if not self.changed.wait_for(lambda: len(self.said) == self.count, PATIENCE):
                late = ", ".join(sorted(name for name, _ in self.awaited.values()))
                why = f"other nodes did not end within {PATIENCE:g} s" + f" ({late})" * bool(late)
                return Ending(ERROR, why, [])
        return self._bad()

    def close(self) -> None:
        """End what still runs on the other nodes, which sees its connection closed, and wait."""
        for each in (self.server, self.ranks, *self.connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for end in (None, self.srun.terminate, self.srun.kill):
            if end:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.srun.wait(PATIENCE / 2)
                break

    def _bad(self) -> Ending | None:
        with self.changed:
            for name, one in self.said.items():
                if one.status not in SEEN_BY_ALL:
                    return one._replace(reason=f"node {name}: {one.reason}")
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
                connection, _ = self.server.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Give the spec to the supervisor of a node, and hear how its runner ended."""
        connection.settimeout(PATIENCE)
        stream = connection.makefile("rw", encoding="utf-8")
        try:
            known = self.awaited.pop(stream.readline(200), None)
        except (OSError, UnicodeDecodeError):
            known = None
        if known is None:
            connection.close()
            return
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(connection)
        name, number = known
        outcome = Ending(ERROR, "its supervisor is gone", [])
        execution = self.spec.execution
        # Replicas may be devices of one process for each node.
        each = execution.replicas if execution.replicas_are == "processes" else 1
        port = self.ranks.getsockname()[1]
        try:
            _say(stream, {"spec": spec_to_json(self.spec), "rank": number * each, "port": port})
            while line := stream.readline():
                if told := json.loads(line):
                    outcome = Ending(**told)
                    break
                _say(stream, time.monotonic())
        except (OSError, ValueError):
            pass
        self._hear(name, outcome)

    def _wait(self) -> None:
        """Have nobody wait for a node that `srun` could not reach."""
        code = self.srun.wait()
        time.sleep(1.0)  # for what is under way
        for name, _ in list(self.awaited.values()):
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
    found = RemoteNodes(spec, python, run, names(count))
    try:
        yield found
    finally:
        found.close()


class Reading(NamedTuple):
    """The clock of the first node, as it was read on another: when (s, of this node's clock),
    what is to be added to this node's, and by how much that may be wrong (s)."""

    at: float
    offset: float
    uncertainty: float


class FirstNode:
    """The supervisor on the first node, as that of another sees it; raises OSError.

    `spec` is that of the run; `variables` and `descriptors` are for the runner.
    """

    leads = False

    def __init__(self, host: str, port: int, secret: str, name: str) -> None:
        self.connection = socket.create_connection((host, port), PATIENCE)
        self.connection.settimeout(None)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.connection.makefile("rw", encoding="utf-8")
        self.stream.write(f"{secret} {name}\n")
        self.stream.flush()
        told = json.loads(self._hear())
        self.spec = cast(RunSpec, spec_from_json(told["spec"]))
        self.variables = {
            RANK: str(told["rank"]),
            LEADER: f"{host} {told['port']} {secret}",
        }
        self.descriptors: list[int] = []

    def clock(self) -> Reading:
        """Read the clock of the first node (Cristian 1989): half of the way there and back is
        taken off, and is what it may be wrong by."""
        readings = []
        for _ in range(CLOCK_READINGS):
            sent = time.monotonic()
            _say(self.stream, None)
            there = float(self._hear())
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
        _say(self.stream, outcome._asdict())

    def _hear(self) -> str:
        line = self.stream.readline()
        if not line:
            raise ConnectionError("the first node has closed the connection")
        return line


def _say(stream: Any, value: Any) -> None:
    stream.write(json.dumps(value) + "\n")
    stream.flush()
