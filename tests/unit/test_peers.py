"""Who is let in at the sockets between the nodes of a run: those that prove that they know its
secret, and nobody else."""

import ast
import os
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.specs import training_spec
from touchstone.measure import nodes
from touchstone.measure.launch import Fault
from touchstone.paths import SCRIPTS
from touchstone.schema import peers

SECRET = bytes(range(32))


@pytest.fixture
def door():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = peers.Door(listener, SECRET)
        yield found
        found.close()


def address_of(door):
    return door.listener.getsockname()


def proven(door, strangers=()):
    """The connection of a peer that comes after all `strangers`, as both of its sides have it."""
    with ThreadPoolExecutor() as pool:
        admitted = pool.submit(door.admit)
        for stranger in strangers:
            stranger(*address_of(door))
        own = pool.submit(peers.connect, *address_of(door), SECRET, 30.0).result()
        return admitted.result(timeout=30), own


def test_both_sides_of_a_proven_connection_hear_each_other(door):
    theirs, own = proven(door)
    with theirs, own:
        peers.send(theirs.makefile("wb"), {"steps": [1, 2]})
        assert peers.receive(own.makefile("rb")) == {"steps": [1, 2]}


def wrong_secret(host, port):
    with pytest.raises(OSError):
        peers.connect(host, port, bytes(32), 30.0)


def sends(data):
    def stranger(host, port):
        with socket.create_connection((host, port)) as connection:
            try:
                connection.sendall(data)
                connection.recv(100)
            except ConnectionError:
                pass  # refused while it was sending

    return stranger


def silent(host, port):
    OPEN.append(socket.create_connection((host, port)))


def many(host, port):
    for _ in range(2 * peers.MOST_STRANGERS):
        silent(host, port)


def replayed(host, port):
    """It answers with its own challenge, and the proof that the other side would give."""
    with socket.create_connection((host, port)) as connection:
        challenge = connection.recv(peers.SIZE)
        both = challenge + challenge
        connection.sendall(challenge + peers.proof(SECRET, peers.ACCEPTS, both))
        assert refused(connection)


def refused(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


OPEN: list[socket.socket] = []
PICKLE = b"cos\nsystem\n(S'touch /tmp/touchstone-pwned'\ntR."
STRANGERS = {
    "wrong secret": wrong_secret,
    "garbage": sends(os.urandom(64)),
    "a pickle": sends(PICKLE),
    "a huge length": sends(struct.pack("!Q", 2**63) + os.urandom(2**20)),
    "half a proof": sends(b"x" * 40),
    "nothing": sends(b""),
    "silence": silent,
    "many": many,
    "a reflected proof": replayed,
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_refused_and_the_next_peer_is_let_in(name, door):
    begin = time.monotonic()
    theirs, own = proven(door, [STRANGERS[name]])
    with theirs, own:
        theirs.sendall(b"yes")
        assert own.recv(3) == b"yes"
    assert time.monotonic() - begin < peers.PROOF_SECONDS, "a stranger held it up"
    while OPEN:
        OPEN.pop().close()


def test_a_silent_stranger_is_refused_in_time(door, monkeypatch):
    monkeypatch.setattr(peers, "PROOF_SECONDS", 1.0)

    def waits_until_it_is_refused(host, port):
        with socket.create_connection((host, port), 30) as stranger:
            assert len(stranger.recv(100)) == peers.SIZE
            assert refused(stranger)

    for side in proven(door, [waits_until_it_is_refused]):
        side.close()


@given(answer=st.binary(min_size=64, max_size=64))
@settings(deadline=None, max_examples=30)
def test_no_answer_is_a_proof_by_chance(answer):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        door = peers.Door(listener, SECRET)
        with socket.create_connection(listener.getsockname()) as stranger:
            door._greet()
            (visitor,) = door.visitors
            stranger.sendall(answer)
            while visitor in door.visitors:
                assert not door._proves(visitor)
            assert len(stranger.recv(100)) == peers.SIZE, "only the challenge"
            assert refused(stranger)
        door.close()


def test_what_listens_must_know_the_secret_too(door):
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        asked = pool.submit(peers.connect, *listener.getsockname(), SECRET, 30.0)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes(2 * peers.SIZE))
            with pytest.raises(peers.Stranger, match="is not of this run"):
                asked.result()


@pytest.mark.parametrize(
    "line, why",
    [
        (b"x" * (peers.LONGEST_LINE + 2) + b"\n", "longer than"),
        (b"[" * 100_000 + b"\n", "too deeply|Expecting"),
        (b"\xff\xfe\n", "utf-8"),
        (PICKLE, "Expecting|utf-8|Extra"),
    ],
)
def test_what_is_no_line_of_json_is_refused(line, why, tmp_path):
    (tmp_path / "said").write_bytes(line)
    with open(tmp_path / "said", "rb") as stream, pytest.raises(ValueError, match=why):
        peers.receive(stream)


def test_a_secret_is_random_and_only_its_user_can_read_it(tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    peers.write_secret(first)
    peers.write_secret(second)
    assert os.stat(first).st_mode & 0o777 == 0o600
    assert len(peers.read_secret(first)) == 32
    assert peers.read_secret(first) != peers.read_secret(second)
    with pytest.raises(FileExistsError):
        peers.write_secret(first)


@pytest.mark.parametrize("how", ["readable", "short", "long", "a link", "a pipe", "missing"])
def test_a_file_that_is_no_secret_is_refused(how, tmp_path):
    path = tmp_path / "secret"
    peers.write_secret(str(path))
    if how == "readable":
        path.chmod(0o640)
    elif how == "a link":
        path.rename(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    elif how == "missing":
        path.unlink()
    elif how == "a pipe":
        path.unlink()
        os.mkfifo(path, 0o600)
    else:
        path.write_bytes(bytes(31 if how == "short" else 33))
    with pytest.raises(OSError):
        peers.read_secret(str(path))


def test_the_sockets_listen_on_the_given_interface_only(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert nodes.own_address(["no-such-host.invalid", "neither.invalid"]) == "127.0.0.1"
    assert peers.interface_of("127.0.0.1") == "lo"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    with pytest.raises(Fault, match="GLOO_SOCKET_IFNAME: no interface none0"):
        nodes.own_address(["localhost", "localhost"])
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    assert nodes.own_address(["localhost", "127.0.0.1"]) == "127.0.0.1"


@pytest.fixture
def other_nodes(tmp_path, monkeypatch):
    """Starts what the first node knows of one other; a script stands for `srun`."""

    def start(script):
        srun = tmp_path / "srun"
        srun.write_text(f"#!/bin/sh\n{script}\n")
        srun.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        run = tmp_path / "run"
        run.mkdir()
        return nodes.RemoteNodes(training_spec(), "python", run, ["localhost", "127.0.0.1"])

    return start


def test_the_secret_of_a_run_is_gone_after_it_and_on_no_command_line(tmp_path, other_nodes):
    seen = tmp_path / "seen"
    others = other_nodes(f'echo "$@" > {seen}; cat "$TOUCHSTONE_SECRET" > {seen}.secret')
    try:
        assert others.server.getsockname()[0] == others.ranks.getsockname()[0] == "127.0.0.1"
        others.srun.wait()
    finally:
        others.close()
    secret = Path(f"{seen}.secret").read_bytes()
    assert len(secret) == 32
    assert secret.hex() not in seen.read_text() and str(secret) not in str(others.variables)
    assert not (tmp_path / "run" / nodes.RENDEZVOUS).exists()


def test_a_strangers_connection_leaves_the_supervisors_to_each_other(other_nodes):
    """The supervisor of another node is here a call; strangers come before and after it."""
    others = other_nodes("exec sleep 60")
    try:
        host, port = others.server.getsockname()
        for name in ("wrong secret", "garbage", "a pickle", "silence"):
            STRANGERS[name](host, port)
        first = nodes.FirstNode(host, port, others.variables["TOUCHSTONE_SECRET"], "127.0.0.1")
        assert first.spec == training_spec()
        assert abs(first.clock().offset) < 1
        STRANGERS["a huge length"](host, port)
        first.tell(nodes.Ending("oom", "it lacked memory", []))
        assert others.ended() == nodes.Ending("oom", "node 127.0.0.1: it lacked memory", [])
    finally:
        others.srun.kill()
        others.close()
        while OPEN:
            OPEN.pop().close()


def test_nothing_of_ours_unpickles_anything():
    """No module imports pickle, and none of its calls lets a framework unpickle what came in."""
    refused_names = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    calls = {"all_gather_object", "broadcast_object_list", "recv_object_list", "gather_object"}
    for path in (SCRIPTS / "touchstone").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names}
                names |= {(getattr(node, "module", "") or "").split(".")[0]}
                assert not names & refused_names, path
                assert "multiprocessing.connection" not in {a.name for a in node.names}, path
            if isinstance(node, ast.Attribute):
                assert node.attr not in calls, path
