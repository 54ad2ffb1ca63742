"""How the adapter takes records and examples."""

from typing import Any, Callable, Sequence, Tuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from touchstone.runner.adapters import base
from touchstone.runner.adapters.readers.jpeg import decoders_of, rows_of
from touchstone.runner.adapters.readers.lmdb import labels_of, opened, sized
from touchstone.runner.job import Job
from touchstone.runner.windows import between
from touchstone.schema.types import Array


class Inputs(base.TrainingAdapter):
    """How the adapter takes records and examples."""

    dtype: Any
    job: Job
    world_size: Any
    _everywhere: Callable[..., Any]

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        parts = []
        for path in [shard + ".lmdb" for shard in shards]:
            with opened(path) as environment, environment.begin(buffers=True) as transaction:
                records = sized(transaction, path, self._size())
                parts.append(self._joined(records))
        pixels, labels = map(np.concatenate, zip(*parts))
        return pixels.reshape(-1, *shape), labels

    def _size(self) -> Any:
        """Bytes of pixels in a record; None where it holds a photo."""
        data = self.job.data
        return int(np.prod(data.shape)) if data.encoding == "raw" else None

    def open_records(self, shards: Sequence[str]) -> int:
        data = self.job.data
        self.records, self.transactions = [], []
        self.decoders = decoders_of(self.job)
        for path in [shard + ".lmdb" for shard in shards]:
            # The records stay views of the file's map as long as this transaction lives.
            self.transactions.append(opened(path).begin(buffers=True))
            records = sized(self.transactions[-1], path, self._size())
            labels = labels_of(records)
            if labels.size and labels.max() >= data.classes:
                message = "{}: record {} has the label {}, the spec says {} classes"
                number = labels.argmax()
                raise ValueError(message.format(path, number, labels[number], data.classes))
            self.records += records
        # Arguments of the step: XLA turns division by a constant into multiplication by its
        # rounded inverse.
        mean, std = (np.asarray(values, np.float32) for values in (data.mean, data.std))
        self.data = self._everywhere([np.float32(data.pixel_maximum), mean, std])
        return len(self.records)

    def close_records(self) -> None:
        # The last references to the environment of LMDB.
        self.records, self.transactions = [], []

    def fetch_records(self, indices: Array) -> Any:
        records = [self.records[i] for i in indices.ravel().tolist()]
        pixels, labels = self._joined(records, self.decoders)
        return pixels.reshape(*indices.shape, -1), labels.reshape(indices.shape)

    def _joined(self, records: Any, decoders: Any = None) -> Any:
        """Records as uint8 rows of pixels, and labels."""
        if self._size() is None:
            shape = self.job.data.shape
            return rows_of(records, shape, decoders), labels_of(records)
        rows = np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)
        labels = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
        return rows[:, 4:], labels.astype(np.int64)

    def load_examples(self, images: Array, labels: Array) -> None:
        arrays = jnp.asarray(images, self.dtype), jnp.asarray(labels, np.int32)
        self.data = arrays if self.world_size == 1 else self._everywhere(arrays)

    def _batch(self, data: Any, batch: Any) -> Any:
        """Images and labels of a step."""
        if self.job.input == "synthetic":
            (rows,) = batch
            return [lax.dynamic_slice_in_dim(whole, rows[0], len(rows)) for whole in data]
        if self.job.input == "memory":
            return [whole.at[batch[0]].get(mode="promise_in_bounds") for whole in data]
        (pixel_maximum, mean, std), (pixels, labels) = data, batch
        images = pixels.reshape(-1, *self.job.data.shape).astype(np.float32)
        return ((images / pixel_maximum - mean) / std).astype(self.dtype), labels

    def _augmented(self, images: Array, draws: Array) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            return self._resized(images, draws)
        height, width, _ = self.job.data.shape
        padding = [self.job.crop_padding] * 2
        images = jnp.pad(images, [(0, 0), padding, padding, (0, 0)])
        top, left, mirrored = draws[:, 0], draws[:, 1], draws[:, 2]
        columns = jnp.arange(width)
        columns = jnp.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        rows = top[:, None] + jnp.arange(height)
        columns = left[:, None] + columns
        examples = jnp.arange(len(draws))[:, None, None]
        cut = images.at[examples, rows[:, :, None], columns[:, None, :]]
        return cut.get(mode="promise_in_bounds")

    def _resized(self, images: Array, draws: Array) -> Any:
        """As `windows.resized` has it."""
        top, left, mirrored, height, width = draws.T
        rows, columns = (jnp.arange(size) for size in images.shape[1:3])
        columns = jnp.where(mirrored[:, None] > 0, len(columns) - 1 - columns, columns)
        examples = jnp.arange(len(images))[:, None]
        for first, count, index in ((top, height, rows), (left, width, columns)):
            low, high, parts = between(jnp, first, count, index)
            weight = parts.astype(images.dtype)[:, :, None, None] / (2 * index.shape[-1])
            lower, upper = (
                images.at[examples, at].get(mode="promise_in_bounds") for at in (low, high)
            )
            images = (lower * (1 - weight) + upper * weight).transpose(0, 2, 1, 3)
        return images
