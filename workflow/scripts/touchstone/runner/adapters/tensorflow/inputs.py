"""Records as the framework reads them."""

from typing import Any, Callable, Sequence, Tuple

import numpy as np
import tensorflow as tf

from touchstone.runner.adapters import base
from touchstone.runner.adapters.readers.jpeg import decoders_of
from touchstone.runner.adapters.tensorflow.network import neighbours
from touchstone.runner.job import Job
from touchstone.schema.types import Array


def records_of(path: str) -> Any:
    """The records of a file, serialised, as a tensor; raises ValueError if it is damaged."""
    try:
        parts = list(tf.data.TFRecordDataset(path).batch(1024))
    except (tf.errors.DataLossError, tf.errors.NotFoundError) as fault:
        raise ValueError("{}: {}".format(path, fault.message)) from None
    return tf.concat(parts, 0) if parts else tf.constant([], tf.string)


class Inputs(base.TrainingAdapter):
    """How the adapter takes records and examples."""

    dtype: Any
    places: Any
    replicas: Any
    job: Job
    strategy: Any
    _replica: Callable[..., Any]

    def read_records(self, shards: Sequence[str], shape: Tuple[int, ...]) -> Tuple[Array, Array]:
        parts = []
        for path in [shard + ".tfrecord" for shard in shards]:
            images, labels = self._parsed(records_of(path), path)
            parts.append((images.numpy().reshape(-1, *shape), labels.numpy()))
        images, labels = map(np.concatenate, zip(*parts))
        return images, labels

    def open_records(self, shards: Sequence[str]) -> int:
        # TensorFlow cannot read a TFRecord out of turn, so the records wait in memory as they
        # are in the file, as those of `tf.data.Dataset.cache()` do.
        data, parts = self.job.data, []
        size = int(np.prod(data.shape))
        for path in [shard + ".tfrecord" for shard in shards]:
            records = records_of(path)
            parts.append(records)
            for start in range(0, len(records), 1024):
                labels = self._parsed(records[start : start + 1024], path)[1].numpy()
                wrong = labels[(labels < 0) | (labels >= data.classes)]
                if len(wrong):
                    message = "{}: a record has the label {}, the spec says {} classes"
                    raise ValueError(message.format(path, wrong[0], data.classes))
        self.records = tf.concat(parts, 0)
        # As large as a batch: TensorFlow's kernels are slow where they must broadcast. Division
        # by a constant would become multiplication by its rounded inverse.
        batch_size = self.job.batch_size
        tiles = batch_size // self.replicas, size // len(data.mean)
        self.scales = []
        for place in self.places:
            with tf.device(place):
                pixel_maximum = tf.Variable(float(data.pixel_maximum), trainable=False)
                mean, std = (
                    tf.constant(np.tile(np.asarray(values, np.float32), tiles))
                    for values in (data.mean, data.std)
                )
            self.scales.append((pixel_maximum, mean, std))
        self.decoders = decoders_of(self.job)
        size_of_batch = None if self.job.rest or self.decoders else batch_size
        signature = [tf.TensorSpec([None, size_of_batch], tf.int64)]
        self.parse = tf.function(self._parse, input_signature=signature)
        return len(self.records)

    def _parse(self, indices: Array) -> Any:
        pixels, labels = self._examples(tf.gather(self.records, tf.reshape(indices, [-1])))
        size = int(np.prod(self.job.data.shape))
        rows = tf.reshape(pixels, [-1, indices.shape[1] or tf.shape(indices)[1], size])
        return rows, tf.reshape(labels, tf.shape(indices))

    def fetch_records(self, indices: Array) -> Any:
        if not self.decoders:
            return self.parse(tf.constant(indices))
        # One call decodes one photo after the other.
        parts = np.array_split(indices, self.job.execution.reader_threads or 1, 1)
        calls = [tf.constant(part) for part in parts if part.size]
        rows, labels = zip(*self.decoders.map(self.parse, calls))
        return tf.concat(rows, 1), tf.concat(labels, 1)

    def _examples(self, records: Any) -> Any:
        """Pixels, uint8 (records, pixels of an image), and labels of serialised records."""
        features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        parsed = tf.io.parse_example(records, features)
        if self.job.data.encoding == "raw":
            return tf.io.decode_raw(parsed["image"], tf.uint8), parsed["label"]
        pixels = tf.map_fn(self._photo, parsed["image"], fn_output_signature=tf.uint8)
        return pixels, parsed["label"]

    def _photo(self, encoded: Any) -> Any:
        """The middle of a JPEG file as a row of pixels; TensorFlow refuses a smaller one."""
        height, width, channels = self.job.data.shape
        image = tf.io.decode_jpeg(encoded, channels, dct_method="INTEGER_ACCURATE")
        top, left = (tf.shape(image)[0] - height) // 2, (tf.shape(image)[1] - width) // 2
        image = tf.image.crop_to_bounding_box(image, top, left, height, width)
        return tf.reshape(image, [height * width * channels])

    def _parsed(self, records: Any, path: str) -> Any:
        """See `_examples`; raises ValueError if an image has another size than the spec says."""
        try:
            pixels, labels = self._examples(records)
        except (tf.errors.InvalidArgumentError, ValueError) as fault:
            raise ValueError("{}: {}".format(path, fault)) from None
        size = int(np.prod(self.job.data.shape))
        if pixels.shape[1] != size:
            message = "{}: a record has {} bytes of pixels, not {}"
            raise ValueError(message.format(path, pixels.shape[1], size))
        return pixels, labels

    def load_examples(self, images: Array, labels: Array) -> None:
        self.sets = []
        for place in self.places:
            with tf.device(place):
                self.sets.append((tf.constant(images, self.dtype), tf.constant(labels)))

    def _gathered(self, batches: Any) -> Any:
        """For each replica, the images and labels of a whole chunk (docs/measured.md)."""
        parts = []
        for i, place in enumerate(self.places):
            rows = batches[:, self._part(i, batches[0])]
            with tf.device(place):
                parts.append([tf.gather(array, rows) for array in self.sets[i]])
        return parts

    def _batch(self, batches: Any, i: Any) -> Any:
        """Images and labels of step `i` of a chunk, of a replica its share."""
        kind, replica = self.job.input, self._replica()
        if kind == "memory":
            images, labels = batches[replica]
            return images[i], labels[i]
        if kind == "synthetic":
            rows = self._share(batches[i])
            return [neighbours(whole, rows) for whole in self.sets[replica]]
        pixels, labels = (self._share(part[i]) for part in batches)
        pixel_maximum, mean, std = self.scales[replica]
        if self.job.rest:
            mean, std = (whole[: tf.shape(pixels)[0]] for whole in (mean, std))
        rows = (tf.cast(pixels, tf.float32) / pixel_maximum - mean) / std
        images = tf.reshape(rows, [-1, *self.job.data.shape])
        return tf.cast(images, self.dtype), labels

    def _share(self, batch: Any) -> Any:
        """What of a batch is that of the replica that is being traced."""
        return batch[self._part(self._replica(), batch)] if self.strategy else batch

    def _size(self, batch: Any) -> Any:
        """The number of examples in a batch: a constant where all batches have one size."""
        return tf.shape(batch)[0] if self.job.rest else self.job.batch_size

    def _part(self, replica: Any, batch: Any) -> Any:
        """Which examples of a batch are a replica's."""
        size = self._size(batch) // self.replicas
        return slice(replica * size, (replica + 1) * size)

    def _augmented(self, images: Array, draws: Array) -> Any:
        """Images, shifted on zeros or resized from windows, and mirrored, as their draws say."""
        if self.job.crop_area:
            return self._resized(images, draws)
        height, width, _ = self.job.data.shape
        padding = [self.job.crop_padding] * 2
        images = tf.pad(images, [[0, 0], padding, padding, [0, 0]])
        top, left, mirrored = tf.unstack(draws, axis=1)
        columns = tf.range(width)
        columns = tf.where(mirrored[:, None] > 0, width - 1 - columns, columns)
        images = tf.gather(images, top[:, None] + tf.range(height), axis=1, batch_dims=1)
        return tf.gather(images, left[:, None] + columns, axis=2, batch_dims=1)

    def _resized(self, images: Array, draws: Array) -> Any:
        """As `windows.resized` has it."""
        top, left, mirrored, height, width = tf.unstack(draws, axis=1)
        rows, columns = (tf.range(size) for size in self.job.data.shape[:2])
        columns = tf.where(mirrored[:, None] > 0, images.shape[2] - 1 - columns, columns)
        for axis, first, count, index in ((1, top, height, rows), (2, left, width, columns)):
            low, high, parts = _between(first, count, index)
            weight = tf.cast(parts, images.dtype) / (2 * index.shape[-1])
            weight = tf.expand_dims(tf.expand_dims(weight, 3 - axis), 3)
            lower, upper = (tf.gather(images, at, axis=axis, batch_dims=1) for at in (low, high))
            images = lower * (1 - weight) + upper * weight
        return images


def _between(first: Array, count: Array, index: Array) -> Any:
    """As `windows.between` has it."""
    size, last = index.shape[-1], (count - 1)[:, None]
    place = tf.minimum(tf.maximum((2 * index + 1) * count[:, None] - size, 0), 2 * size * last)
    low, high = place // (2 * size), tf.minimum(place // (2 * size) + 1, last)
    return first[:, None] + low, first[:, None] + high, place - 2 * size * low
