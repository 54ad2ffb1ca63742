"""Records of LMDB files: four bytes of label, then pixels or a photo.

LMDB is imported where a file is read: a run on synthetic input does not need it.
"""

import os
from typing import Any

import numpy as np


def opened(path: str, folder: bool = False) -> Any:
    """The LMDB environment of a file, or of a `folder` with the file `data.mdb`.

    Raises ValueError if it is damaged.
    """
    import lmdb

    file = os.path.join(path, "data.mdb") if folder else path
    try:
        environment = lmdb.open(path, subdir=folder, readonly=True, lock=False)
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(file, fault)) from None
    size = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if os.path.getsize(file) < size:  # a look beyond its end would kill the process
        raise ValueError("{}: shorter than its {} bytes".format(file, size))
    return environment


def stored(transaction: Any, path: str) -> Any:
    """All records in stored order, views of the file's map while the transaction lives.

    Raises ValueError if the file is damaged.
    """
    import lmdb

    try:
        return [record for _, record in transaction.cursor()]
    except lmdb.Error as fault:
        raise ValueError("{}: {}".format(path, fault)) from None


def sized(transaction: Any, path: str, size: int) -> Any:
    """All records in stored order; raises ValueError if one has not `size` bytes of pixels.

    A `size` of None is that of photos, which are as long as they are.
    """
    records = stored(transaction, path)
    for number, record in enumerate(records):
        if size is not None and len(record) != 4 + size:
            message = "{}: record {} has {} bytes, not {}"
            raise ValueError(message.format(path, number, len(record), 4 + size))
    return records


def labels_of(records: Any) -> Any:
    """The labels of records, int64 (records,)."""
    return np.frombuffer(b"".join([record[:4] for record in records]), "<u4").astype(np.int64)
