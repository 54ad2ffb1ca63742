"""Reading RecordIO with MXNet's own iterator, which decodes and normalises in C++."""

import mxnet as mx


def by_hand(stem, shape, mean, std, batch_size):
    """A function that reads one shuffled epoch and returns how many images it gave."""
    names = "rgb"[: shape[2]]
    moments = {f"mean_{c}": 255 * value for c, value in zip(names, mean, strict=True)}
    moments.update({f"std_{c}": 255 * value for c, value in zip(names, std, strict=True)})
    records = mx.io.ImageRecordIter(
        path_imgrec=stem + ".rec", path_imgidx=stem + ".idx", batch_size=batch_size, shuffle=True,
        data_shape=(shape[2], *shape[:2]), preprocess_threads=1, verbose=False, **moments,
    )  # fmt: skip

    def epoch():
        records.reset()
        count = 0
        for batch in records:
            batch.data[0].wait_to_read()
            count += batch_size - batch.pad
        return count

    return epoch


def ready(adapter):
    """A function that makes of what our reader gave what a step computes with."""
    (context,) = adapter.contexts

    def take(batches):
        for array in adapter._examples(batches, context, slice(None)):
            array.wait_to_read()

    return take
