"""How an adapter whose framework has no record format of its own reads LMDB files."""

from typing import Any, Sequence, Tuple

import numpy as np

from touchstone.runner.adapters import base
from touchstone.runner.adapters.readers.jpeg import decoders_of, rows_of
from touchstone.runner.adapters.readers.lmdb import labels_of, opened, sized
from touchstone.runner.job import Job
from touchstone.schema.types import Array


class LmdbInputs(base.TrainingAdapter):
    """Reads records as NumPy arrays: uint8 rows of pixels, and labels, int64."""

    job: Job

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        parts = []
        for path in [shard + ".lmdb" for shard in shards]:
            with opened(path) as environment, environment.begin(buffers=True) as transaction:
                parts.append(self._joined(sized(transaction, path, self._size())))
        pixels, labels = map(np.concatenate, zip(*parts))
        return pixels.reshape(-1, *shape), labels

    def open_records(self, shards: Sequence[str]) -> int:
        classes = self.job.data.classes
        self.records, self.transactions = [], []
        self.decoders = decoders_of(self.job)
        for path in [shard + ".lmdb" for shard in shards]:
            # The records stay views of the file's map as long as this transaction lives.
            self.transactions.append(opened(path).begin(buffers=True))
            records = sized(self.transactions[-1], path, self._size())
            labels = labels_of(records)
            if labels.size and labels.max() >= classes:
                message = "{}: record {} has the label {}, the spec says {} classes"
                number = labels.argmax()
                raise ValueError(message.format(path, number, labels[number], classes))
            self.records += records
        return len(self.records)

    def fetch_records(self, indices: Array) -> Any:
        records = [self.records[i] for i in indices.ravel().tolist()]
        pixels, labels = self._joined(records, self.decoders)
        return pixels.reshape(*indices.shape, -1), labels.reshape(indices.shape)

    def close_records(self) -> None:
        # The last references to the environment of LMDB.
        self.records, self.transactions = [], []

    def _size(self) -> Any:
        """Bytes of pixels in a record; None where it holds a photo."""
        data = self.job.data
        return int(np.prod(data.shape)) if data.encoding == "raw" else None

    def _joined(self, records: Any, decoders: Any = None) -> Tuple[Array, Array]:
        """Records as rows of pixels, and labels; of a photo, its cut."""
        if self._size() is None:
            return rows_of(records, self.job.data.shape, decoders), labels_of(records)
        rows = np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)
        labels = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
        return rows[:, 4:], labels.astype(np.int64)
