"""LMDB: `{stem}.lmdb`, one plain file without a lock file (open with `subdir=False, lock=False`).

Key: the example's index as 8 ASCII digits. Value: the label as little-endian uint32, then the
uint8 pixels, height x width x channels. Keys are appended in order and committed every 1,000,
which makes the file the same from run to run. The map starts at 64 MiB and doubles when it is
full: the file is as long as its pages, and a reader maps less than twice that (or 64 MiB).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import lmdb
import numpy as np

from datasets.formats import Example

_MAP_SIZE = 64 << 20
_COMMIT = 1000


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.lmdb")
    path.unlink(missing_ok=True)
    records = (
        (b"%08d" % index, struct.pack("<I", label) + pixels.tobytes())
        for index, (label, pixels) in enumerate(examples)
    )
    try:
        # sync=False: one flush at the end; a file that was cut off never gets its final name.
        with lmdb.open(
            str(path), subdir=False, lock=False, map_size=_MAP_SIZE, sync=False
        ) as environment:
            while batch := list(islice(records, _COMMIT)):
                _append(environment, batch)
            environment.sync(True)
    except lmdb.Error as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    return [path]


def read(stem: Path, shape: list[int]) -> Iterator[Example]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.lmdb")
    try:
        with (
            lmdb.open(str(path), subdir=False, lock=False, readonly=True) as environment,
            environment.begin() as transaction,
        ):
            size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            if path.stat().st_size < size:  # a look beyond the end would kill the process
                raise ValueError(f"{path}: shorter than its {size} bytes")
            for _, value in transaction.cursor():
                (label,) = struct.unpack_from("<I", value)
                yield label, np.frombuffer(value, np.uint8, offset=4).reshape(shape)
    except lmdb.Error as error:
        raise ValueError(f"{path}: {error}") from error


def _append(environment: lmdb.Environment, batch: list[tuple[bytes, bytes]]) -> None:
    """Commit the batch, in a larger map if it does not fit."""
    while True:
        try:
            with environment.begin(write=True) as transaction:
                for key, value in batch:
                    transaction.put(key, value, append=True)
            return
        except lmdb.MapFullError:
            environment.set_mapsize(2 * environment.info()["map_size"])
