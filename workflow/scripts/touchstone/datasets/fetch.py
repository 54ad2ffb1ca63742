"""Download one file: resumed, from mirrors in order, and checked before it gets its name.

The bytes go to `<name>.part`, beside which `<name>.part.origin` keeps the address and its
validator (ETag or Last-Modified): a later attempt, in this process or after a kill, continues
where they stopped if the mirror still has the same file (Range with If-Range, RFC 9110).
"""

from __future__ import annotations

import email.utils
import http.client
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from touchstone import packages
from touchstone.datasets import verify
from touchstone.datasets.catalogue import Source, is_url
from touchstone.datasets.errors import DatasetError
from touchstone.safe_text import one_line
from touchstone.schema.variables import MIRROR

_CHUNK = 1 << 20
SLOWEST = 1000
"""Bytes/s; a mirror that sends fewer is given up."""
REPACKED = 2
"""How many times its size a file may have where only its unpacked content is known."""
# Statuses that may pass; any other one is the mirror's last word.
_PASSING = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True)
class Patience:
    """How long to wait and how often to try; all times in seconds."""

    tries: int = 5
    """Failures in a row, without a new byte, after which a mirror is given up."""
    wait: float = 1.0
    """Before the second try; doubled before each further one."""
    longest_wait: float = 60.0
    """Bound on any wait, also on what Retry-After asks for."""
    timeout: float = 60.0
    """Silence after which a connection is cut."""
    slow: float = 60.0
    """Time over which a mirror must send `SLOWEST` bytes/s, or it is given up."""
    report_every: float = 5.0
    """Between two progress lines."""


class _Refused(Exception):
    """The mirror will not serve the file, however often it is asked."""


class _Interrupted(Exception):
    """Worth another try, `retry_after` seconds later if the mirror has said so."""

    def __init__(self, cause: str, retry_after: float = 0.0) -> None:
        super().__init__(cause)
        self.retry_after = retry_after


@dataclass
class _Mirror:
    """One address and how it has behaved so far."""

    url: str
    failures: int = 0
    ready: float = 0.0  # monotonic time of the next try


class _Pace:
    """Watches that a mirror sends at least `SLOWEST` bytes/s over windows of so many seconds."""

    def __init__(self, window: float) -> None:
        self.window, self.begin, self.got = window, time.monotonic(), 0

    def add(self, count: int) -> None:
        """Count bytes that have arrived; raises _Refused at the end of a window with too few."""
        self.got += count
        now = time.monotonic()
        if now - self.begin < self.window:
            return
        if self.got < SLOWEST * (now - self.begin):
            raise _Refused(f"fewer than {SLOWEST:,} bytes/s over {self.window:g} s")
        self.begin, self.got = now, 0


class _Progress:
    """Lines on stderr that tell how far a download is."""

    def __init__(self, name: str, begin: int, total: int, interval: float) -> None:
        """`begin`, `total`: bytes already there and bytes of the whole file."""
        self._name, self._begin, self._total, self._interval = name, begin, total, interval
        self._done = begin
        self._start = self._reported = time.monotonic()

    def add(self, count: int) -> None:
        """Count new bytes; print a line if the last one is old enough."""
        self._done += count
        now = time.monotonic()
        if now - self._reported < self._interval:
            return
        self._reported = now
        rate = (self._done - self._begin) / (now - self._start)
        left = max(self._total - self._done, 0) / rate
        _say(
            f"{self._name}: {self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB "
            f"({self._done / self._total:.0%}), {rate / 1e6:.2f} MB/s, {left:.0f} s left"
        )


def mirror_urls(mirror: str, dataset: str, name: str) -> list[str]:
    """Addresses of a file below a lab's own base URL; none if `mirror` is empty."""
    base = mirror.rstrip("/")
    return [f"{base}/{dataset}/{name}", f"{base}/{name}"] if base else []


def fetch(
    source: Source, folder: Path, first: Sequence[str] = (), patience: Patience = Patience()
) -> Path:
    """Get `source` into `folder`, from the addresses `first`, then its own urls or package.

    A file that is already there and right is kept. Returns its path; raises DatasetError when
    no address gives the right file, OSError where the disk refuses.
    """
    path = folder / source.name
    if path.is_file() and verify.fault(path, source) is None:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    causes = _from_mirrors(source, path, [*first, *source.urls], patience)
    if causes is not None and source.package:
        cause = _from_package(source, path)
        causes = [*causes, f"{source.package}: {cause}"] if cause else None
    if causes is not None:
        raise DatasetError(
            path,
            f"no origin gave the right file ({' | '.join(causes)})",
            f"check the network, set {MIRROR} to the base URL of a copy, "
            "or put the file there by hand",
        )
    return path


def _from_mirrors(
    source: Source, path: Path, urls: list[str], patience: Patience
) -> list[str] | None:
    """Get `path` from one of the addresses; return None, or why each of them failed."""
    part = path.with_name(path.name + ".part")
    mirrors = [_Mirror(url) for url in urls]
    causes = []
    most = 0
    while mirrors:
        mirror = min(mirrors, key=lambda mirror: mirror.ready)
        time.sleep(max(0.0, mirror.ready - time.monotonic()))
        try:
            _download(mirror.url, part, source, patience)
            part.replace(path)
            _discard(part)
            _say(f"{path.name}: {_size(path)} from {mirror.url}")
            return None
        except _Refused as error:
            cause, gives_up = str(error), True
        except _Interrupted as error:
            cause = str(error)
            reached = part.stat().st_size if part.exists() else 0
            if reached > most:
                most, mirror.failures, mirror.ready = reached, 0, 0.0
                time.sleep(patience.wait)
                gives_up = False
            else:
                mirror.failures += 1
                delay = patience.wait * 2 ** (mirror.failures - 1) * random.uniform(0.5, 1.5)
                delay = min(max(delay, error.retry_after), patience.longest_wait)
                mirror.ready = time.monotonic() + delay
                gives_up = mirror.failures >= patience.tries
        _say(f"{path.name}: {mirror.url}: {cause}")
        if gives_up:
            mirrors.remove(mirror)
            causes.append(f"{mirror.url}: {cause}")
    return causes


def _download(url: str, part: Path, source: Source, patience: Patience) -> None:
    """Bring `part` to the whole, right file; raises _Refused, _Interrupted or OSError."""
    have, validator = _resumable(url, part)
    headers = {"User-Agent": "touchstone", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    with _open(urllib.request.Request(url, headers=headers), part, patience.timeout) as response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            have = 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            _discard(part)
            raise _Interrupted("the mirror sent another range than it was asked for")
        total = None if response.length is None else have + response.length
        if total not in (None, source.size) and source.content_sha256 is None:
            raise _Refused(f"{total} bytes, not {source.size}: another file or an error page")
        if not have:
            _discard(part)  # before another origin is written down
            _origin(part).write_text(f"{url}\n{_validator(response)}", encoding="utf-8")
        progress = _Progress(source.name, have, total or source.size, patience.report_every)
        with part.open("r+b" if have else "wb") as file:
            got = file.seek(have)
            most = source.size * (1 if source.content_sha256 is None else REPACKED)
            pace = _Pace(patience.slow)
            while chunk := _read(response):
                if got + len(chunk) > most:
                    _discard(part)
                    raise _Refused(f"more than {most:,} bytes: another file")
                got += file.write(chunk)
                progress.add(len(chunk))
                pace.add(len(chunk))
    if total is not None and got < total:
        raise _Interrupted(f"the connection ended after {got} of {total} bytes")
    cause = verify.fault(part, source)
    if cause:
        _discard(part)
        raise _Interrupted(f"{cause}, after a resume") if have else _Refused(cause)


def _resumable(url: str, part: Path) -> tuple[int, str]:
    """How many bytes of `part` to keep and their validator; 0 if they are not from `url`.

    The last byte is fetched again, so that the range is not empty if all bytes are there.
    """
    if not part.is_file() or not _origin(part).is_file():
        return 0, ""
    origin, _, validator = _origin(part).read_text("utf-8", errors="replace").partition("\n")
    if origin != url or not validator:
        return 0, ""
    return max(0, part.stat().st_size - 1), validator


def _origin(part: Path) -> Path:
    """The file that says where `part` comes from: the address, then its validator."""
    return part.with_name(part.name + ".origin")


def _discard(part: Path) -> None:
    """Remove the part and what is known of its origin."""
    part.unlink(missing_ok=True)
    _origin(part).unlink(missing_ok=True)


def _validator(response: http.client.HTTPResponse) -> str:
    """What If-Range takes: a strong ETag or the date of the last change; else empty."""
    tag: str = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a mirror to other addresses of http and https."""

    def redirect_request(self, *parts: Any) -> urllib.request.Request | None:
        """The request for the last of the parts, an address. Raises _Refused."""
        if not is_url(parts[-1]):
            raise _Refused(f"it leads to {parts[-1]}, which is no http or https address")
        return super().redirect_request(*parts)


def _open(request: urllib.request.Request, part: Path, timeout: float) -> http.client.HTTPResponse:
    """Send the request; raises _Refused or _Interrupted."""
    if not is_url(request.full_url):
        raise _Refused("no http or https address")
    try:
        opener = urllib.request.build_opener(_Redirects)
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout)
        return response
    except urllib.error.HTTPError as error:
        cause = f"HTTP {error.code} {error.reason}"
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _discard(part)
            raise _Interrupted(cause) from error
        if error.code in _PASSING:
            raise _Interrupted(cause, _seconds(error.headers.get("Retry-After", ""))) from error
        raise _Refused(cause) from error
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(str(getattr(error, "reason", error))) from error
    except ValueError as error:
        raise _Refused(f"not an address ({error})") from error


def _read(response: http.client.HTTPResponse) -> bytes:
    """The bytes that have arrived; raises _Interrupted, so that OSError is left to the disk."""
    try:
        return response.read1(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(f"the connection broke ({error})") from error


def _seconds(retry_after: str) -> float:
    """Seconds that a Retry-After header (a number or an HTTP date) asks for; 0 if unreadable."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except ValueError:
        return 0.0


def _from_package(source: Source, path: Path) -> str | None:
    """Get the file of `source.package` by pip, from wherever pip is set up to look.

    Returns None, or why it failed.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text(f"{source.package} --hash=sha256:{source.sha256}\n")
        pip = [*packages.pip_of(sys.executable), "download", "--quiet"]
        options = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        result = subprocess.run(
            [*pip, *options, "--requirement", str(requirements), "--dest", folder],
            env=packages.surroundings(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "ERROR" in line]
            return " ".join(lines or result.stderr.split())
        wheel = Path(folder, source.name)
        if not wheel.is_file():
            return f"pip did not bring {source.name}"
        cause = verify.fault(wheel, source)
        if cause is None:
            wheel.replace(path)
            _say(f"{path.name}: {_size(path)} by pip from {source.package}")
        return cause


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _say(line: str) -> None:
    """Print a line, which may quote what a mirror said."""
    print(one_line(line), file=sys.stderr, flush=True)
