"""Records as the framework reads them."""

import os
from typing import Any, Iterator, Sequence, Tuple

import numpy as np
from PIL import Image

from touchstone.runner.adapters import base
from touchstone.runner.job import Job
from touchstone.runner.windows import resized
from touchstone.schema.types import Array


def listed_files(shard: str) -> Any:
    """The PNG files of a split and their labels, in stored order.

    Raises ValueError if its map file is damaged.
    """
    path = shard + ".map"
    folder = os.path.dirname(path)
    files = []
    with open(path, encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines):
            name, tab, label = line.rstrip("\n").partition("\t")
            if not (name.startswith(".../") and label.isdigit() and line.endswith("\n")):
                raise ValueError("{}: line {} is damaged".format(path, number + 1))
            files.append((os.path.join(folder, name[4:]), int(label)))
    if not files:
        raise ValueError("{}: it lists no files".format(path))
    return files


def decoded_images(path: str, shape: Any, check: bool = False) -> Any:
    """A PNG file's pixels, uint8 of `shape`; with `check` it is looked through, and None.

    Raises ValueError if it is damaged or has another shape.
    """
    try:
        with Image.open(path) as image:
            sizes = (image.height, image.width, len(image.getbands()))
            if sizes != tuple(shape):
                raise ValueError("its shape is {}, not {}".format(sizes, tuple(shape)))
            if check:
                return image.verify()
            return np.asarray(image).reshape(shape)
    except (OSError, SyntaxError, ValueError) as fault:
        raise ValueError("{}: {}".format(path, fault)) from None


class Inputs(base.TrainingAdapter):
    """How the adapter takes records and examples."""

    dtype: Any
    job: Job

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        files = [file for shard in shards for file in listed_files(shard)]
        images = [decoded_images(path, shape) for path, _ in files]
        return np.stack(images), [label for _, label in files]

    def open_records(self, shards: Sequence[str]) -> int:
        data = self.job.data
        self.files = [file for shard in shards for file in listed_files(shard)]
        for path, label in self.files:
            decoded_images(path, data.shape, check=True)
            if label >= data.classes:
                message = "{}: the label is {}, the spec says {} classes"
                raise ValueError(message.format(path, label, data.classes))
        self.mean, self.std = (
            np.asarray(values, np.float32)[:, None, None] for values in (data.mean, data.std)
        )
        return len(self.files)

    def fetch_records(self, indices: Array) -> Any:
        shape = self.job.data.shape
        files = [self.files[i] for i in indices.ravel().tolist()]
        pixels = np.stack([decoded_images(path, shape) for path, _ in files]).transpose(0, 3, 1, 2)
        pixel_maximum = np.float32(self.job.data.pixel_maximum)
        images = (pixels / pixel_maximum - self.mean) / self.std
        labels = np.array([label for _, label in files])
        return images.reshape(indices.shape + images.shape[1:]), labels.reshape(indices.shape)

    def load_examples(self, images: Array, labels: Array) -> None:
        self.images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), self.dtype)
        self.labels = labels

    def _batches(self, batches: Any) -> Iterator[Any]:
        """Images and labels of every step."""
        if isinstance(batches, np.ndarray):
            for batch in batches:
                if self.job.input == "synthetic":
                    batch = slice(batch[0], batch[-1] + 1)
                yield self.images[batch], self.labels[batch]
            return
        for part in batches:
            for images, labels in zip(*part):
                yield images.astype(self.dtype, copy=False), labels

    def _augmented(self, images: Array, draws: Array) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            images = resized(images.transpose(0, 2, 3, 1), draws)
            return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        height, width, channels = self.job.data.shape
        side = self.job.crop_padding
        images = np.pad(images, ((0, 0), (0, 0), (side, side), (side, side)), "constant")
        top, left, mirrored = draws.T[:, :, None]
        rows = top + np.arange(height)
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        examples = np.arange(len(draws))[:, None, None, None]
        planes = np.arange(channels)[:, None, None]
        return images[examples, planes, rows[:, None, :, None], columns[:, None, None, :]]
