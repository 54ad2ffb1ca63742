"""Records as the framework reads them."""

from typing import Any

import numpy as np

from touchstone.runner.adapters.readers.jpeg import photo
from touchstone.runner.adapters.readers.lmdb import labels_of, opened, stored


def read_file(path: str, shape: Any, encoding: Any) -> Any:
    """Images and labels of an LMDB file in stored order; raises ValueError if it is damaged."""
    images = []
    with opened(path) as environment, environment.begin(buffers=True) as transaction:
        records = stored(transaction, path)
        for record in records:
            try:
                images.append(_pixels(record[4:], shape, encoding))
            except ValueError as fault:
                message = "{}: record {}: {}"
                raise ValueError(message.format(path, len(images), fault)) from None
        return np.stack(images), labels_of(records)


def _pixels(record: Any, shape: Any, encoding: Any) -> Any:
    """The image of a record, uint8 of `shape`; of a photo its middle."""
    if encoding == "raw":
        return np.frombuffer(bytes(record), np.uint8).reshape(shape)
    return photo(record, shape)
