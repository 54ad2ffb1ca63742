"""How the adapter takes records and examples."""

from typing import Any, Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from touchstone.runner.adapters.readers.lmdb_inputs import LmdbInputs
from touchstone.runner.windows import between
from touchstone.schema.types import Array


class Inputs(LmdbInputs):
    """How the adapter takes records and examples."""

    dtype: Any
    world_size: Any
    _everywhere: Callable[..., Any]

    def open_records(self, shards: Sequence[str]) -> int:
        number = super().open_records(shards)
        # Arguments of the step: XLA turns division by a constant into multiplication by its
        # rounded inverse.
        data = self.job.data
        mean, std = (np.asarray(values, np.float32) for values in (data.mean, data.std))
        self.data = self._everywhere([np.float32(data.pixel_maximum), mean, std])
        return number

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
