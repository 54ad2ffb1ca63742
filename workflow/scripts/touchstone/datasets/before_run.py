"""Whether the record files that a run reads are those that the conversion wrote.

The manifest has the SHA-256 of every file. Reading all files takes seconds to minutes, so a
verification is remembered on the machine that made it: as long as no file has another path, size,
inode, time of change or digest, the machine was not started again, and a day has not passed. Only
a full verification finds bytes that flipped on the disk and changed none of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, NonNegativeFloat, ValidationError

from touchstone.datasets.catalogue import Sha256
from touchstone.datasets.errors import DatasetErrors
from touchstone.datasets.manifest_file import NAME, Damage, File, file_damage, read
from touchstone.files import write_atomic

REMEMBERED_SECONDS = 24 * 3600.0
"""Seconds for which a verification is remembered."""
SETTLED = 1.0
"""Seconds since the last change of a file, after which a verification is remembered: a file
system's clock is coarse, so that a later change might not show in the time."""
_WORTH_SAYING = 1e9
"""Bytes from which a verification is announced."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Verified(NamedTuple):
    """What was verified of the record files that a run reads.

    folder: of the record files
    files: how many there are
    bytes: of all of them
    verified: when they were last read and compared with the manifest, UTC, ISO 8601
    remembered: whether that was before this run
    """

    folder: str
    files: int
    bytes: int
    verified: str
    remembered: bool


class _Identity(NamedTuple):
    """A digest over what identifies the files, and when the last of them was changed, s."""

    digest: str
    changed: float


class _Memory(BaseModel, extra="forbid", strict=True, frozen=True):
    """A verification: of which files, see `_identity_of`; in which start of the machine; when, s
    since 1970."""

    identity: Sha256
    boot: str
    at: NonNegativeFloat


def require_records(folder: Path, stems: Iterable[str], always: bool) -> Verified:
    """Verify the record files in `folder`, of which a run reads those named `stems`.

    Unless it is asked for `always`, a verification that this machine remembers is enough.

    Raises:
        DatasetError: the manifest or files are missing, damaged or cannot be read; each is named.
    """
    manifest = read(folder / NAME)
    files = manifest.files
    names = {file.name.partition("/")[0].partition(".")[0] for file in files}
    if unknown := sorted(set(stems) - names):
        raise Damage(folder / NAME, f"it names no file of {', '.join(unknown)}").error
    identity = _identity_of(folder, files)
    at = None if always else _remembered(folder, identity)
    remembered = at is not None
    if at is None:
        at = time.time()
        _verify(folder, files)
        if _identity_of(folder, files) != identity:
            raise Damage(folder, "a file changed while it was verified").error
        if at - identity.changed > SETTLED:
            _remember(folder, _Memory(identity=identity.digest, boot=_boot(), at=at))
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    total = sum(file.bytes for file in files)
    return Verified(folder.as_posix(), len(files), total, date, remembered)


def _verify(folder: Path, files: list[File]) -> None:
    """Read all files, on all cores; raises DatasetErrors with every one that is damaged."""
    total = sum(file.bytes for file in files)
    if total >= _WORTH_SAYING:
        print(f"{folder}: verifying {total / 1e9:.1f} GB", file=sys.stderr, flush=True)
    # hashlib lets other threads run meanwhile.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        damages = pool.map(partial(file_damage, folder), files)
        if faults := [damage.error for damage in damages if damage]:
            raise DatasetErrors(faults)


def _identity_of(folder: Path, files: list[File]) -> _Identity:
    """The digest is over each file's path, digest in the manifest, size, inode and times of change.

    A file that is missing or cannot be read has none of these; its verification says so.
    """
    lines, changed = [], 0.0
    for file in files:
        path = (folder / file.name).resolve()
        numbers: tuple[int, ...] = ()
        with contextlib.suppress(OSError):
            stat = path.stat()
            numbers = (stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
            changed = max(changed, stat.st_mtime, stat.st_ctime)
        lines.append(f"{path} {file.sha256} {numbers}")
    text = "\n".join(lines).encode(errors="surrogateescape")
    return _Identity(hashlib.sha256(text).hexdigest(), changed)


def _remember(folder: Path, memory: _Memory) -> None:
    """Write the memory, unless only others may write to the folder or the disk is full."""
    with contextlib.suppress(OSError):
        write_atomic(_memory_file(folder), memory.model_dump_json() + "\n")


def _remembered(folder: Path, identity: _Identity) -> float | None:
    """When these files were verified on this machine, s since 1970; None if that does not count."""
    try:
        memory = _Memory.model_validate_json(_memory_file(folder).read_bytes())
    except (OSError, ValidationError):
        return None
    same = memory.identity == identity.digest and memory.boot == _boot()
    return memory.at if same and 0 <= time.time() - memory.at < REMEMBERED_SECONDS else None


def _memory_file(folder: Path) -> Path:
    """Where a verification is remembered; several machines may share the folder."""
    return folder / f".verified-{platform.node()}.json"


def _boot() -> str:
    """This start of the machine."""
    return _BOOT.read_text().strip()
