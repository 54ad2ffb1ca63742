"""Records as the framework reads them."""

from typing import Any, Iterator, Sequence

import numpy as np
import torch
from torch import nn

from touchstone.runner.adapters.readers.lmdb_inputs import LmdbInputs
from touchstone.schema.types import Array


class Inputs(LmdbInputs):
    """How the adapter takes records and examples."""

    channels_last: Any
    device: Any
    dtype: Any

    def open_records(self, shards: Sequence[str]) -> int:
        number, data = super().open_records(shards), self.job.data
        size = int(np.prod(data.shape))
        rows = [
            np.tile(np.asarray(values, np.float32), size // len(values))
            for values in (data.mean, data.std)
        ]
        self.mean, self.std = (torch.from_numpy(row).to(self.device) for row in rows)
        self.pixel_maximum = torch.tensor(float(data.pixel_maximum), device=self.device)
        return number

    def fetch_records(self, indices: Array) -> Any:
        tensors = map(torch.from_numpy, super().fetch_records(indices))
        # A copy from other memory to the device makes the host wait.
        return tuple(t.pin_memory() if self.device.type == "cuda" else t for t in tensors)

    def load_examples(self, images: Array, labels: Array) -> None:
        if not self.channels_last:
            images = images.transpose(0, 3, 1, 2)
        # Rows are gathered flat, which copies each example in one piece in either order.
        self.images = torch.from_numpy(images.reshape(len(images), -1)).to(self.device, self.dtype)
        self.labels = torch.from_numpy(labels).to(self.device)

    def _batches(self, batches: Any) -> Iterator[Any]:
        """The images, as rows of pixels, and labels of every step."""
        if self.job.input == "synthetic":
            for batch in batches:
                first, size = int(batch[0]), len(batch)
                yield self.images.narrow(0, first, size), self.labels.narrow(0, first, size)
            return
        if isinstance(batches, np.ndarray):
            for batch in torch.from_numpy(batches).to(self.device, non_blocking=True):
                yield self.images.index_select(0, batch), self.labels.index_select(0, batch)
            return
        for part in batches:
            for pixels, labels in zip(*part, strict=True):
                rows = pixels.to(self.device, non_blocking=True).to(torch.float32)
                rows.div_(self.pixel_maximum).sub_(self.mean).div_(self.std)
                if not self.channels_last:
                    rows = rows.view(len(rows), -1, self.job.data.shape[2])
                    rows = rows.transpose(1, 2).flatten(1)
                yield rows.to(self.dtype), labels.to(self.device, non_blocking=True)

    def _augmented(self, images: Array, draws: Array) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            return self._resized(images, draws)
        height, width, _ = self.job.data.shape
        padded = nn.functional.pad(images, [self.job.crop_padding] * 4)
        top, left, mirrored = draws.unbind(1)
        columns = torch.arange(width, device=self.device)
        columns = torch.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        rows = top[:, None] + torch.arange(height, device=self.device)
        columns = left[:, None] + columns
        examples = torch.arange(len(draws), device=self.device)[:, None, None]
        cut = padded.permute(0, 2, 3, 1)[examples, rows[:, :, None], columns[:, None, :]]
        cut = cut.permute(0, 3, 1, 2)
        return cut if self.channels_last else cut.contiguous()

    def _resized(self, images: Array, draws: Array) -> Any:
        """As `windows.resized` has it."""
        top, left, mirrored, height, width = draws.unbind(1)
        images = images.permute(0, 2, 3, 1)
        rows, columns = (torch.arange(size, device=self.device) for size in images.shape[1:3])
        columns = torch.where(mirrored[:, None] > 0, len(columns) - 1 - columns, columns)
        examples = torch.arange(len(images), device=self.device)[:, None]
        for first, count, index in ((top, height, rows), (left, width, columns)):
            low, high, parts = _between(first, count, index)
            weight = parts.to(images.dtype)[:, :, None, None] / (2 * index.shape[-1])
            images = images[examples, low] * (1 - weight) + images[examples, high] * weight
            images = images.transpose(1, 2)
        images = images.permute(0, 3, 1, 2)
        memory_format = torch.channels_last if self.channels_last else torch.contiguous_format
        return images.contiguous(memory_format=memory_format)

    def _images(self, rows: Any) -> Any:
        """Rows of pixels as a batch (batch, channels, height, width) in the mode's layout."""
        height, width, channels = self.job.data.shape
        if self.channels_last:
            return rows.view(-1, height, width, channels).permute(0, 3, 1, 2)
        return rows.view(-1, channels, height, width)


def _between(first: Array, count: Array, index: Array) -> Any:
    """As `windows.between` has it."""
    size, last = index.shape[-1], (count - 1)[:, None]
    place = ((2 * index + 1) * count[:, None] - size).clamp(min=0).minimum(2 * size * last)
    low = place // (2 * size)
    return first[:, None] + low, first[:, None] + (low + 1).minimum(last), place - 2 * size * low
