"""Records as the framework reads them."""

import io
import os
from typing import Any, Iterator, Sequence, Tuple

import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf.message import DecodeError
from PIL import Image

from touchstone.runner.adapters import base
from touchstone.runner.adapters.readers.lmdb import opened, stored
from touchstone.runner.adapters.readers.photos import middle
from touchstone.runner.job import Job
from touchstone.runner.windows import resized
from touchstone.schema.types import Array


def each_batch(parts: Any) -> Iterator[Any]:
    """The batches, images and labels, of what `fetch` gave."""
    for images, labels in parts:
        yield from zip(images, labels)


def numbered(transaction: Any, shard: str) -> Any:
    """All records in stored order, and for each the words that name it."""
    path = os.path.join(shard, "data.mdb")
    records = stored(transaction, path)
    return records, ["{}: record {}".format(path, i) for i in range(len(records))]


def photo_of(encoded: Any, shape: Any) -> Any:
    """The middle of a JPEG file, uint8 of `shape`, red first; ValueError if it is smaller."""
    photo = Image.open(io.BytesIO(encoded))
    colours = "L" if shape[2] == 1 else "RGB"
    photo.draft(colours, photo.size)  # libjpeg itself gives the brightness of a colour photo
    image = np.asarray(photo.convert(colours)).reshape(photo.size[::-1] + (shape[2],))
    return middle(image, shape)


class Inputs(base.TrainingAdapter):
    """How the adapter takes records and examples."""

    job: Job

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        images, labels = [], []
        for shard in shards:
            environment = opened(shard, folder=True)
            with environment, environment.begin(buffers=True) as transaction:
                for datum in map(self._datum, *numbered(transaction, shard)):
                    images.append(self._planes(datum)[::-1].transpose(1, 2, 0))
                    labels.append(datum.label)
        return np.stack(images), labels

    def open_records(self, shards: Sequence[str]) -> int:
        # Caffe's own data layer reads in stored order only, and so cannot follow the seed's.
        self.records, self.transactions = [], []
        for shard in shards:
            # The records stay views of the file's map as long as this transaction lives.
            self.transactions.append(opened(shard, folder=True).begin(buffers=True))
            records, places = numbered(self.transactions[-1], shard)
            for record, place in zip(records, places):
                label = self._datum(record, place).label
                if not 0 <= label < self.job.data.classes:
                    message = "{} has the label {}, the spec says {} classes"
                    raise ValueError(message.format(place, label, self.job.data.classes))
            self.records += records
        self.mean, self.std = (
            np.asarray(values, np.float32)[:, None, None]
            for values in (self.job.data.mean, self.job.data.std)
        )
        return len(self.records)

    def _datum(self, record: Any, place: Any) -> Any:
        """A record as Caffe's message; raises ValueError if it is not of the spec's shape."""
        data = self.job.data
        height, width, channels = data.shape
        try:
            datum = caffe_pb2.Datum.FromString(bytes(record))
        except DecodeError as fault:
            raise ValueError("{} is damaged: {}".format(place, fault)) from None
        if data.encoding == "jpeg":
            good = datum.encoded
        else:
            sizes = datum.channels, datum.height, datum.width, len(datum.data)
            good = sizes == (channels, height, width, channels * height * width)
        if not good:
            raise ValueError("{} is no Datum of {}".format(place, data.shape))
        return datum

    def _planes(self, datum: Any) -> Any:
        """The pixels of a record, uint8 (channels, height, width), blue first."""
        height, width, channels = self.job.data.shape
        if self.job.data.encoding == "jpeg":
            return photo_of(datum.data, (height, width, channels)).transpose(2, 0, 1)[::-1]
        return np.frombuffer(datum.data, np.uint8).reshape(channels, height, width)

    def close_records(self) -> None:
        # The last references to the environment of LMDB.
        self.records, self.transactions = [], []

    def fetch_records(self, indices: Array) -> Any:
        height, width, channels = self.job.data.shape
        images = np.empty(indices.shape + (channels, height, width), np.float32)
        labels = np.empty(indices.shape, np.float32)
        for batch, image, label in zip(indices, images, labels):
            datums = [caffe_pb2.Datum.FromString(bytes(self.records[i])) for i in batch.tolist()]
            label[:] = [datum.label for datum in datums]
            image[:] = np.stack([self._planes(datum) for datum in datums])[:, ::-1]
            image /= np.float32(self.job.data.pixel_maximum)
            image -= self.mean
            image /= self.std
        return images, labels

    def _augmented(self, images: Array, draws: Array) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            return resized(images.transpose(0, 2, 3, 1), draws).transpose(0, 3, 1, 2)
        height, width, _ = self.job.data.shape
        sides = (self.job.crop_padding,) * 2
        padded = np.pad(images, ((0, 0), (0, 0), sides, sides))
        top, left, mirrored = draws.T[:, :, None]
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        rows = top + np.arange(height)
        examples = np.arange(len(draws))[:, None, None]
        cut = padded[examples, :, rows[:, :, None], columns[:, None, :]]
        return cut.transpose(0, 3, 1, 2)
