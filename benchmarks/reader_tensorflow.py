"""Reading TFRecord as TensorFlow's guide advises: cached, shuffled, parsed by the batch."""

import numpy as np
import tensorflow as tf

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def by_hand(stem, shape, mean, std, batch_size):
    """A function that reads one shuffled epoch and returns how many images it gave."""
    size = int(np.prod(shape))
    mean, std = (tf.constant(np.tile(np.float32(each), size // shape[2])) for each in (mean, std))

    def parse(records):
        parsed = tf.io.parse_example(records, FEATURES)
        pixels = tf.cast(tf.io.decode_raw(parsed["image"], tf.uint8), tf.float32)
        return tf.reshape((pixels / 255 - mean) / std, [-1, *shape]), parsed["label"]

    records = tf.data.TFRecordDataset(stem + ".tfrecord").cache().shuffle(10_000)
    batches = records.batch(batch_size, drop_remainder=True).map(parse, 1).prefetch(2)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    batches = batches.with_options(options)
    count = tf.function(
        lambda: batches.reduce(0, lambda total, batch: total + tf.shape(batch[1])[0])
    )
    return lambda: int(count())


def ready(adapter):
    """A function that makes of what our reader gave what a step computes with."""

    @tf.function(reduce_retracing=True)
    def touch(batches):
        total = 0.0
        for i in tf.range(tf.shape(batches[1])[0]):
            images, _ = adapter._batch(batches, i)
            total += images[0, 0, 0, 0]
        return total

    return lambda batches: [touch(part) for part in batches]
