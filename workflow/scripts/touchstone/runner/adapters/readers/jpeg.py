"""Photos as JPEG files, decoded by libjpeg-turbo with its exact transform."""

import concurrent.futures
from typing import Any, Optional

import numpy as np

from touchstone.runner.adapters.readers.photos import middle


def photo(encoded: Any, shape: Any) -> Any:
    """The middle of a JPEG file, uint8 of `shape`; raises ValueError if it is smaller."""
    import simplejpeg  # a run without photos does not need it

    image = simplejpeg.decode_jpeg(encoded, "GRAY" if shape[2] == 1 else "RGB")
    return middle(image, shape)


def rows_of(records: Any, shape: Any, decoders: Any = None) -> Any:
    """The middles of the photos of records as rows of pixels, decoded by the threads of a pool."""

    def row(record: Any) -> Any:
        return photo(record[4:], shape).ravel()

    return np.stack(list((decoders.map if decoders else map)(row, records)))


def decoders_of(job: Any) -> Optional[concurrent.futures.Executor]:
    """As many threads as read records of photos; None where one thread decodes by itself.

    A chunk has few steps where steps are long, and then fewer parts than there are readers.
    """
    threads = job.execution.reader_threads or 1
    several = job.data.encoding == "jpeg" and threads > 1
    return concurrent.futures.ThreadPoolExecutor(threads) if several else None
