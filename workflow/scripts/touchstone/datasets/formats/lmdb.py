"""LMDB: `{stem}.lmdb`, one plain file (opened with `subdir=False`).

A key is the number of the example as 8 digits, a value its label as little-endian uint32 and
then the image: uint8 pixels, height x width x channels, or a JPEG file. Written in key order
with `append=True`, 1000 a transaction, and without a lock file, the same examples give the same
bytes on the same version of the library.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import lmdb

from touchstone.datasets.formats import Example, content, restore

SHARDED = True
PHOTOS = True

_MAP_SIZE = 64 << 20
_COMMIT = 1000
_PAGE = 4096
_LARGEST_IN_PAGE = 2020


def write(stem: Path, examples: Iterable[Example]) -> list[Path]:
    """See `datasets.formats.Format`."""
    path = Path(f"{stem}.lmdb")
    path.unlink(missing_ok=True)
    pack = struct.Struct("<I").pack
    write_values(path, (pack(label) + content(image) for label, image in examples), folder=False)
    return [path]


def read(stem: Path, shape: list[int] | None) -> Iterator[Example]:
    """See `datasets.formats.Format`."""
    for value in read_values(Path(f"{stem}.lmdb"), folder=False):
        (label,) = struct.unpack_from("<I", value)
        yield label, restore(value[4:], shape)


def record_size(image: int) -> int:
    """See `datasets.formats.Format`: larger values take whole pages of their own."""
    value = image + 64
    return value if value <= _LARGEST_IN_PAGE else -(-value // _PAGE) * _PAGE + 128


def write_values(path: Path, values: Iterable[bytes], folder: bool) -> None:
    """Write `values` under the keys 00000000, 00000001, ... to a new LMDB file or folder."""
    records = ((b"%08d" % index, value) for index, value in enumerate(values))
    try:
        # sync=False: one flush at the end; a file that was cut off never gets its final name.
        with lmdb.open(
            str(path), subdir=folder, lock=False, map_size=_MAP_SIZE, sync=False
        ) as environment:
            while batch := list(islice(records, _COMMIT)):
                _append(environment, batch)
            environment.sync(True)
    except lmdb.Error as error:
        raise OSError(errno.EIO, str(error), str(path)) from error


def read_values(path: Path, folder: bool) -> Iterator[bytes]:
    """Yield the values of an LMDB file or folder in key order; raises ValueError if damaged."""
    file = path / "data.mdb" if folder else path
    try:
        with (
            lmdb.open(str(path), subdir=folder, lock=False, readonly=True) as environment,
            environment.begin() as transaction,
        ):
            size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            if file.stat().st_size < size:  # a look beyond the end would kill the process
                raise ValueError(f"{file}: shorter than its {size} bytes")
            for _, value in transaction.cursor():
                yield value
    except lmdb.Error as error:
        raise ValueError(f"{path}: {error}") from error


def _append(environment: lmdb.Environment, batch: list[tuple[bytes, bytes]]) -> None:
    """Commit the batch, in a larger map if it does not fit."""
    while True:
        try:
            with environment.begin(write=True) as transaction:
                transaction.cursor().putmulti(batch, append=True)
            return
        except lmdb.MapFullError:
            environment.set_mapsize(2 * environment.info()["map_size"])
