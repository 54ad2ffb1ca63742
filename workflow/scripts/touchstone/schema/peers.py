"""How processes of one run on several nodes know each other: each proves that it has the secret.

The secret is 32 random bytes in a file that only the user may read, in a folder that all nodes of
the run share. It never crosses a network: the side that accepts a connection sends a random
challenge, the other one answers with a challenge of its own and an HMAC (RFC 2104, with SHA-256) of
both, and gets one in return. Then come lines of JSON of a limited length. Nothing is unpickled.
"""

import fcntl
import hashlib
import hmac
import json
import os
import selectors
import socket
import stat
import struct
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple

SIZE = 32
"""Bytes of a secret, of a challenge and of a proof."""
PROOF_SECONDS = 10.0
"""Seconds that a peer has to prove that it knows the secret."""
MOST_STRANGERS = 64
"""Connections that have proved nothing yet; one more ends the oldest."""
LONGEST_LINE = 4 << 20
"""Bytes of a line; the spec of a run is the longest."""
ACCEPTS, CONNECTS = b"accepts", b"connects"
"""The sides of a connection, so that no proof of one passes as one of the other."""
SIOCGIFADDR = 0x8915
"""netdevice(7): the address of a network interface."""


class Stranger(OSError):
    """A peer did not prove that it knows the secret of the run."""


def write_secret(path: str) -> None:
    """Write a random secret into a new file that only this user may read; raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(os.urandom(SIZE))


def read_secret(path: str) -> bytes:
    """The secret in a file; raises OSError if it is no such file, or others may read it."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        info = os.fstat(file.fileno())
        secret = file.read(SIZE + 1) if stat.S_ISREG(info.st_mode) else b""
    if info.st_uid != os.geteuid() or info.st_mode & 0o077 or len(secret) != SIZE:
        raise OSError("{}: no secret of this user that others cannot read".format(path))
    return secret


def proof(secret: bytes, side: bytes, challenges: bytes) -> bytes:
    """What one side of a connection shows: `challenges` are first the accepting side's."""
    return hmac.new(secret, side + challenges, hashlib.sha256).digest()


def connect(host: str, port: int, secret: bytes, patience: Optional[float] = None) -> socket.socket:
    """Connect to a `Door`, and have both sides prove that they know the secret.

    Args:
        patience: seconds for all of this; None: until the other side closes the connection.

    Raises:
        Stranger: the other side does not know the secret.
        OSError: there is no connection, or not in time.
    """
    until = None if patience is None else time.monotonic() + patience
    connection = socket.create_connection((host, port), patience)
    try:
        theirs, own = _exactly(connection, until), os.urandom(SIZE)
        connection.sendall(own + proof(secret, CONNECTS, theirs + own))
        shown = _exactly(connection, until)
        if not hmac.compare_digest(shown, proof(secret, ACCEPTS, theirs + own)):
            raise Stranger("what listens at {}:{} is not of this run".format(host, port))
        prepare(connection)
    except OSError:
        connection.close()
        raise
    return connection


def prepare(connection: socket.socket) -> None:
    """Have a proven connection wait for what comes, and send each line at once."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _exactly(connection: socket.socket, until: Optional[float]) -> bytes:
    """The next `SIZE` bytes; raises OSError."""
    data = b""
    while len(data) < SIZE:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(SIZE - len(data))
        if not part:
            raise ConnectionError("the other side closed the connection")
        data += part
    return data


class _Visitor(NamedTuple):
    """A connection that has proved nothing yet: its challenge and answer, and until when (s)."""

    challenge: bytes
    answer: bytearray
    until: float


class Door:
    """A listening socket, which lets in those that prove that they know the secret.

    It holds up nobody: strangers that are silent, slow, wrong or many are refused while it waits
    for the next peer.
    """

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self.listener, self.secret = listener, secret
        self.visitors: Dict[socket.socket, _Visitor] = {}
        self.selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ)

    def admit(self) -> socket.socket:
        """Wait for the connection of the next peer; raises OSError once the listener is closed."""
        while self.listener.fileno() >= 0:
            now = time.monotonic()
            for late in [s for s, visitor in self.visitors.items() if visitor.until < now]:
                self._refuse(late)
            for key, _ in self.selector.select(1.0):
                connection: Any = key.fileobj
                if connection is self.listener:
                    self._greet()
                elif connection in self.visitors and self._proves(connection):
                    self._forget(connection)
                    prepare(connection)
                    return connection  # type: ignore[no-any-return]
        raise OSError("the listening socket is closed")

    def close(self) -> None:
        """End the connections that have proved nothing."""
        for connection in list(self.visitors):
            self._refuse(connection)
        self.selector.close()

    def _greet(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except (BlockingIOError, ConnectionError):  # it has gone already
            return
        if len(self.visitors) >= MOST_STRANGERS:
            self._refuse(next(iter(self.visitors)))
        connection.setblocking(False)
        challenge = os.urandom(SIZE)
        self.visitors[connection] = _Visitor(
            challenge, bytearray(), time.monotonic() + PROOF_SECONDS
        )
        self.selector.register(connection, selectors.EVENT_READ)
        try:
            connection.sendall(challenge)
        except OSError:
            self._refuse(connection)

    def _proves(self, connection: socket.socket) -> bool:
        """Take what a visitor sent: whether it has proved that it knows the secret."""
        visitor = self.visitors[connection]
        try:
            part = connection.recv(2 * SIZE - len(visitor.answer))
            visitor.answer.extend(part)
            if part and len(visitor.answer) < 2 * SIZE:
                return False
            theirs, shown = bytes(visitor.answer[:SIZE]), bytes(visitor.answer[SIZE:])
            challenges = visitor.challenge + theirs
            if hmac.compare_digest(shown, proof(self.secret, CONNECTS, challenges)):
                connection.sendall(proof(self.secret, ACCEPTS, challenges))
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        self._refuse(connection)
        return False

    def _refuse(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: socket.socket) -> None:
        self.selector.unregister(connection)
        del self.visitors[connection]


def send(stream: Any, value: Any) -> None:
    """Write a value as a line of JSON, at once."""
    stream.write(json.dumps(value).encode() + b"\n")
    stream.flush()


def receive(stream: Any) -> Any:
    """The value in the next line.

    Raises:
        ConnectionError: there is no next line.
        ValueError: it is longer than `LONGEST_LINE`, or no JSON.
    """
    line = stream.readline(LONGEST_LINE + 1)
    if not line:
        raise ConnectionError("the other side closed the connection")
    if len(line) > LONGEST_LINE:
        raise ValueError("a line is longer than {} bytes".format(LONGEST_LINE))
    try:
        return json.loads(line.decode())
    except RecursionError:
        raise ValueError("a line is nested too deeply")


def free_port(host: str) -> int:
    """A port of this address on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def address_of(interface: str) -> Optional[str]:
    """The IPv4 address of a network interface; None where it has none, or is not there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            name = struct.pack("256s", interface.encode()[:15])
            answer = fcntl.ioctl(any_socket, SIOCGIFADDR, name)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def interface_of(address: str) -> Optional[str]:
    """The network interface with this IPv4 address; None where no interface has it."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if address_of(name) == address), None)


def host_and_port(text: str) -> Tuple[str, int]:
    """The parts of `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    return host, int(port)
