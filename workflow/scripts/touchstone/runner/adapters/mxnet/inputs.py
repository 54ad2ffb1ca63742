"""Records as the framework reads them."""

import os
import struct
import threading
from typing import Any, Sequence, Tuple

import mxnet as mx
import numpy as np
from mxnet import nd

from touchstone.runner.adapters import base
from touchstone.runner.adapters.mxnet.network import structures
from touchstone.runner.job import Job
from touchstone.runner.windows import between
from touchstone.schema.types import Array

COLOUR, GREY = 1 | 128, 0 | 128
"""How OpenCV decodes an image: with three channels or one, not turned by an EXIF tag."""
MAGIC = 0xCED7230A
"""What every record begins with (dmlc-core, include/dmlc/recordio.h)."""
HEAD = np.dtype(
    [
        ("magic", "<u4"), ("length", "<u4"), ("flag", "<u4"), ("label", "<f4"), ("ids", "<u8", 2),
        ("bm", "S2"), ("bytes", "<u4"), ("zero", "<u4"), ("offset", "<u4"), ("header", "<u4"),
        ("width", "<i4"), ("height", "<i4"), ("planes", "<u2"), ("bits", "<u2"),
        ("compression", "<u4"), ("rest", "V20"),
    ]
)  # fmt: skip
"""A record, its image header (python/mxnet/recordio.py), and the head of a BMP file."""
LACKING = {
    "tf32": "TF32 is arithmetic of NVIDIA's GPUs, which no CPU has",
    "fp16-amp": "MXNet has mixed precision in fp16 on GPUs only, for which it has no build here",
}
"""Why MXNet cannot compute in a precision."""


def read_file(shard: str, shape: Any, numbers: Any = None, cut: bool = False) -> Any:
    """Image and label of these records or of all, by MXNet's own reader, by their numbers.

    Raises ValueError if one is damaged or has another shape.
    """
    reader = mx.recordio.MXIndexedRecordIO(shard + ".idx", shard + ".rec", "r")
    records = {}
    for number in reader.keys if numbers is None else numbers:
        try:
            image, label = decoded(reader.read_idx(number), shape, cut)
        except (mx.MXNetError, TypeError, struct.error, ValueError) as fault:
            message = "{}.rec: record {} is damaged: {}"
            raise ValueError(message.format(shard, number, str(fault).splitlines()[-1])) from None
        records[number] = image, label
    reader.close()
    return records


def decoded(record: Any, shape: Any, cut: Any) -> Any:
    """A record's image, uint8 of `shape`, or with `cut` its middle, and its label.

    Raises ValueError if the image has another shape or is smaller.
    """
    header, image = mx.recordio.unpack_img(record, COLOUR if shape[2] == 3 else GREY)
    image = image[:, :, ::-1] if shape[2] == 3 else image[:, :, None]
    top, left = ((have - want) // 2 for have, want in zip(image.shape, shape[:2]))
    if min(top, left) < 0 or (not cut and image.shape != tuple(shape)):
        raise ValueError("its image is {}, not {}".format(image.shape, tuple(shape)))
    return image[top : top + shape[0], left : left + shape[1]], int(header.label)


def mapped_file(path: str, index: Any, size: int) -> Any:
    """The bytes of a record file, and where its records of at least `size` bytes begin."""
    try:
        lines = np.loadtxt(index, np.int64, delimiter="\t", ndmin=2)
        offsets = lines[:, 1]
    except (ValueError, IndexError) as fault:
        raise ValueError("{}: {}".format(index, fault)) from None
    if not np.array_equal(lines[:, 0], np.arange(len(lines))):
        raise ValueError("{}: does not count the records from 0 on".format(index))
    length = os.path.getsize(path)
    require(path, "is cut off", (offsets >= 0) & (offsets + size <= length))
    return np.asarray(np.memmap(path, np.uint8, "r")), offsets


def require(path: str, fault: Any, good: Any, first: int = 0) -> None:
    """Raise ValueError that names the first record, counted from `first`, that is not good."""
    if not good.all():
        raise ValueError("{}: record {} {}".format(path, first + int(np.argmin(good)), fault))


class Inputs(base.TrainingAdapter):
    """How the adapter takes records and examples."""

    array: Any
    contexts: Any
    dtype: Any
    job: Job

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        cut = self.job.data.encoding == "jpeg"
        pairs = [pair for shard in shards for pair in read_file(shard, shape, cut=cut).values()]
        images, labels = zip(*pairs)
        return np.stack(images), labels

    def open_records(self, shards: Sequence[str]) -> int:
        channels, height, width = (self.job.data.shape[i] for i in (2, 0, 1))
        planes = np.ones((channels, height, width), np.float32)
        self.mean, self.std = (
            planes * np.asarray(values, np.float32)[:, None, None]
            for values in (self.job.data.mean, self.job.data.std)
        )
        if self.job.data.encoding == "jpeg":
            self.pixels = self._photos
            return self._open_photos(shards)
        self.pixels = self._images
        return self._open_images(shards)

    def _open_photos(self, shards: Sequence[str]) -> int:
        self.shards = [
            mx.recordio.MXIndexedRecordIO(shard + ".idx", shard + ".rec", "r") for shard in shards
        ]
        self.ends = np.cumsum([len(shard.keys) for shard in self.shards])
        self.reading = threading.Lock()  # a reader has one place in its file
        return int(self.ends[-1])

    def _photos(self, batch: Any) -> Any:
        """Pixels (batch size, height, width, channels), red first, and labels of photos."""
        photos = []
        for number in batch:
            shard = int(np.searchsorted(self.ends, number, "right"))
            first = self.ends[shard - 1] if shard else 0
            with self.reading:
                record = self.shards[shard].read_idx(int(number - first))
            photos.append(decoded(record, self.job.data.shape, cut=True))
        images, labels = zip(*photos)
        if max(labels) >= self.job.data.classes:
            raise ValueError("a photo has the label {}".format(max(labels)))
        return np.stack(images), labels

    def _open_images(self, shards: Sequence[str]) -> int:
        # MXNet's own iterator follows no permutation and miscounts where the batch size does
        # not divide the examples; its indexed reader costs more than twice as much CPU time.
        height, width, channels = self.job.data.shape
        row = width * channels + -(width * channels) % 4
        palette = 1024 if channels == 1 else 0
        fields = [("head", HEAD), ("palette", "V%d" % palette), ("rows", "u1", (height, row))]
        self.record = np.dtype(fields)
        self.shards, self.joined = [], {}
        count = 0
        for shard in shards:
            file, offsets, joined = self._checked(shard)
            self.shards.append((file, offsets))
            self.joined.update({count + number: record for number, record in joined.items()})
            count += len(offsets)
        self.ends = np.cumsum([len(offsets) for _, offsets in self.shards])
        return count

    def _checked(self, shard: str) -> Any:
        """Bytes and places of a file of BMP images, and those that are stored in parts.

        Raises ValueError if a record is not what the spec says.
        """
        data, path = self.job.data, shard + ".rec"
        height, width, channels = data.shape
        file, offsets = mapped_file(path, shard + ".idx", self.record.itemsize)
        heads = structures(file, offsets, HEAD)
        record: Any = self.record.fields
        head: Any = HEAD.fields
        offset = record["rows"][1] - head["bm"][1]
        expected = {
            "magic": MAGIC, "flag": 0, "bm": b"BM", "offset": offset, "width": width,
            "height": height, "bits": 8 * channels, "compression": 0,
        }  # fmt: skip
        usual = np.all([heads[key] == value for key, value in expected.items()], axis=0)
        require(path, "is no uncompressed BMP image of {}".format(data.shape), usual)
        labels = heads["label"]
        valid = (labels >= 0) & (labels < data.classes) & (labels == np.floor(labels))
        require(path, "has a label outside the {} classes".format(data.classes), valid)
        # A record whose image holds the magic number at a multiple of 4 bytes is stored in
        # parts: perhaps one of millions, which MXNet joins here.
        whole = heads["length"] == self.record.itemsize - 8
        joined = heads["length"] >> 29 != 0
        require(path, "has another length than its image", whole | joined)
        parts = read_file(shard, data.shape, np.flatnonzero(joined)) if joined.any() else {}
        return file, offsets, parts

    def _records(self, batch: Any) -> Any:
        """The records of these numbers, as structures."""
        shards = np.searchsorted(self.ends, batch, "right")
        records = np.empty(len(batch), self.record)
        for shard in np.unique(shards):
            file, offsets = self.shards[shard]
            there = shards == shard
            places = offsets[batch[there] - (self.ends[shard] - len(offsets))]
            if there.all():
                return structures(file, places, self.record)
            records[there] = structures(file, places, self.record)
        return records

    def _images(self, batch: Any) -> Any:
        """Pixels (batch size, height, width, channels), red first, and labels of BMP images."""
        height, width, channels = self.job.data.shape
        records = self._records(batch)
        rows = records["rows"][:, ::-1, : width * channels]  # the bottom row is first
        images = rows.reshape(-1, height, width, channels)[..., ::-1]  # blue is first
        for number, (pixels, _) in self.joined.items():
            if (batch == number).any():
                images = np.where((batch == number)[:, None, None, None], pixels, images)
        return images, records["head"]["label"]

    def fetch_records(self, indices: Array) -> Any:
        images = np.empty(indices.shape + self.mean.shape, np.float32)
        labels = np.empty(indices.shape, np.float32)
        for batch, image, label in zip(indices, images, labels):
            pixels, label[:] = self.pixels(batch)
            image[:] = pixels.transpose(0, 3, 1, 2)
            image /= np.float32(self.job.data.pixel_maximum)
            image -= self.mean
            image /= self.std
        return images, labels

    def load_examples(self, images: Array, labels: Array) -> None:
        images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        self.sets = {
            context: [self.array(a, self.dtype, context) for a in (images, labels)]
            for context in self.contexts
        }

    def _examples(self, batches: Any, context: Any, share: Any) -> Any:
        """The images of all steps, one after the other, and labels (steps, batch size), where an
        example has several with an axis for these.

        Of every batch, the `share` of the replica on this context.
        """
        # One operation per chunk: each costs MXNet's engine about 20 us.
        if isinstance(batches, np.ndarray):
            batches = batches[:, share]
            rows = self.array(batches.ravel(), "int32", context)
            images, labels = (nd.take(whole, rows) for whole in self.sets[context])
            return images, labels.reshape(batches.shape + labels.shape[1:])
        images, labels = (np.concatenate(p) if len(p) > 1 else p[0] for p in zip(*batches))
        images, labels = images[:, share], labels[:, share]
        images = images.reshape((-1,) + images.shape[2:])
        return (self.array(a, self.dtype, context) for a in (images, labels))

    def _prepared(self, batches: Any, draws: Array, context: Any, share: Any) -> Any:
        """Images and labels as the steps of the replica on this context take them."""
        if self.job.input == "synthetic" and draws is None:
            spans = [(int(batch[0]), int(batch[-1]) + 1) for batch in batches[:, share]]
            return [[whole[first:end] for first, end in spans] for whole in self.sets[context]]
        images, labels = self._examples(batches, context, share)
        if draws is not None:
            images = self._augmented(images, draws[:, share].reshape(-1, draws.shape[2]), context)
        return images.reshape(labels.shape[:2] + images.shape[1:]), labels

    def _augmented(self, images: Array, draws: Array, context: Any) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            return self._resized(images, draws, context)
        height, width, _ = self.job.data.shape
        sides = (self.job.crop_padding,) * 4
        images = nd.pad(images, mode="constant", pad_width=(0, 0, 0, 0) + sides, constant_value=0)
        top, left, mirrored = draws.T[:, :, None]
        columns = np.arange(width)
        columns = left + np.where(mirrored, width - 1 - columns, columns)
        rows = top + np.arange(height)
        places = np.broadcast_arrays(
            np.arange(len(draws))[:, None, None], rows[:, :, None], columns[:, None, :]
        )
        places = self.array(np.stack(places), "int32", context)
        return nd.gather_nd(images.transpose((0, 2, 3, 1)), places).transpose((0, 3, 1, 2))

    def _resized(self, images: Array, draws: Array, context: Any) -> Any:
        """As `windows.resized` has it."""
        top, left, mirrored, height, width = draws.T
        images = images.transpose((0, 2, 3, 1))
        rows, columns = np.arange(images.shape[1]), np.arange(images.shape[2])
        columns = np.where(mirrored[:, None], len(columns) - 1 - columns, columns)
        examples = np.arange(len(draws))[:, None]
        for first, count, index in ((top, height, rows), (left, width, columns)):
            *bounds, parts = between(np, first, count, index)
            places = (np.stack(np.broadcast_arrays(examples, at)) for at in bounds)
            lower, upper = (
                nd.gather_nd(images, self.array(place, "int32", context)) for place in places
            )
            weight = parts[:, :, None, None] / (2 * index.shape[-1])
            weight = self.array(weight, self.dtype, context)
            images = lower * (1 - weight) + upper * weight
            images = images.transpose((0, 2, 1, 3))
        return images.transpose((0, 3, 1, 2))
