"""The examples, and the batches of them that training takes, in the order of the seed."""

import concurrent.futures
import os
import threading
import zlib
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from touchstone.runner import windows
from touchstone.runner.initial_weights import normal_numbers
from touchstone.runner.job import Job
from touchstone.runner.tasks import labels_of
from touchstone.schema.epochs import DROP, Epochs
from touchstone.schema.spec import Augmentation, Data
from touchstone.schema.types import Array


class BatchSampler:
    """The batches of every epoch: a new seeded permutation of the examples, or, without `shuffled`,
    the order of the set.

    The last partial batch of an epoch is dropped or kept, as `last_batch` says. NumPy freezes the
    stream of RandomState (NEP 19), so every NumPy gives the same order. With an `augmentation`
    every example has draws (top, left, mirrored): the corner at which it is cut out of itself with
    `crop_padding` zeros on every side, and 1 if the cut is then mirrored left to right. With a
    `crop_area` they are five: the height and width of a window of the `image` follow. Of every
    batch, it gives the `share`.
    """

    def __init__(
        self,
        seed: int,
        examples: int,
        batch_size: int,
        augmentation: Optional[Augmentation] = None,
        share: slice = slice(None),
        shuffled: bool = True,
        last_batch: str = DROP,
        image: Sequence[int] = (),
    ) -> None:
        self.seed, self.examples, self.batch_size = seed, examples, batch_size
        self.augmentation, self.share, self.shuffled = augmentation, share, shuffled
        self.epochs = Epochs(examples, batch_size, last_batch)
        self.steps = self.epochs.steps
        self.step, self.epoch = 0, 0
        self.image = image
        columns = windows.columns(augmentation.crop_area if augmentation else 0.0)
        self.left, self.left_draws = np.empty(0, np.int64), np.empty((0, columns), np.int32)

    def alike(self, steps: int) -> int:
        """How many of the next `steps` batches have one size."""
        return self.epochs.alike(self.step, steps)

    def _rows(self, examples: Any, steps: int) -> Any:
        """One row per step, which are `alike`, of what is left of each example."""
        size = self.epochs.size_of(self.step)
        rows = examples[: steps * size].reshape((steps, size) + examples.shape[1:])
        if self.share == slice(None):
            return rows
        ends = (self.share.start, self.share.stop)
        share = slice(*(end if end is None else end * size // self.batch_size for end in ends))
        return rows[:, share]

    def _draws(self, augmentation: Augmentation) -> Array:
        random = np.random.RandomState([self.seed, self.epoch, 1])
        corner = random.randint(0, 2 * augmentation.crop_padding + 1, (self.examples, 2))
        mirrored = random.randint(0, 1 + augmentation.flip, (self.examples, 1))
        parts = [corner, mirrored]
        if augmentation.crop_area:
            window = windows.draw_window(random, self.examples, self.image, augmentation.crop_area)
            parts = [window[:, :2], mirrored, window[:, 2:]]
        return np.concatenate(parts, axis=1).astype(np.int32)

    def peek(self, steps: int) -> Any:
        """The indices that the next `steps` batches will have; only those of the `alike`."""
        steps, kept = self.alike(steps), self.epochs.examples
        while len(self.left) < self.epochs.examples_of(self.step, steps):
            order = np.arange(self.examples)
            if self.shuffled:
                order = np.random.RandomState([self.seed, self.epoch]).permutation(order)
            self.left = np.concatenate([self.left, order[:kept]])
            if self.augmentation:
                draws = self._draws(self.augmentation)[:kept]
                self.left_draws = np.concatenate([self.left_draws, draws])
            self.epoch += 1
        return self._rows(self.left, steps)

    def take(self, steps: int) -> Any:
        """The next `steps` batches, which must be `alike`: indices, int64 (steps, batch size), and
        draws or None."""
        taken = self.peek(steps)
        draws = self._rows(self.left_draws, steps) if self.augmentation else None
        gone = self.epochs.examples_of(self.step, steps)
        self.left, self.left_draws = self.left[gone:], self.left_draws[gone:]
        self.step += steps
        return taken, draws


def sampler_of(job: Job, share: slice = slice(None)) -> BatchSampler:
    """The sampler of a job's training set. Noise is not shuffled, which would only cost time."""
    return BatchSampler(
        job.seed, job.data.train_examples, job.batch_size, job.augmentation, share,
        job.input != "synthetic", job.last_batch, job.data.shape[:2],
    )  # fmt: skip


class RecordReader:
    """Reads records in threads of its own, one chunk of steps before it is taken.

    With no threads, a chunk is read when it is taken.
    """

    def __init__(self, fetch: Callable[[Array], Any], threads: int) -> None:
        self.fetch, self.threads = fetch, []
        self.ahead = np.empty((0, 0), np.int64)
        self.parts: List[Any] = []
        self.pool = concurrent.futures.ThreadPoolExecutor(threads) if threads else None
        if self.pool:
            # All of them start before the first step, none while measuring.
            started = threading.Barrier(threads)
            ready = [self.pool.submit(self._start, started) for _ in range(threads)]
            self.threads = [future.result() for future in ready]

    def _start(self, started: Any) -> Any:
        started.wait()
        return threading.current_thread()

    def take(self, indices: Array, following: Any) -> Any:
        """What `fetch` gives for these steps, in parts; begins to read the `following` ones."""
        ahead, parts = np.array_equal(indices, self.ahead), self.parts
        taken = [part.result() for part in parts] if ahead else [self.fetch(indices)]
        if self.pool and len(following):
            parts = np.array_split(following, min(len(self.threads), len(following)))
            self.ahead, self.parts = following, [self.pool.submit(self.fetch, p) for p in parts]
        return taken

    def live(self) -> int:
        """The number of its threads that live."""
        return sum(thread.is_alive() for thread in self.threads)


def examples(adapter: Any, job: Job, split: str) -> Tuple[Array, Array]:
    """Images as the network takes them, float32, and labels, int64, of a split: one of each
    example, or those of the network's task.

    Of a text these are its tokens, whole numbers: its bytes, for their maximum is 1, their mean 0.
    Raises ValueError if the records are not what the spec says.
    """
    data, shape = job.data, tuple(job.data.shape)
    count = data.train_examples if split == "train" else data.test_examples
    if job.input == "synthetic":
        random = np.random.RandomState([job.seed, zlib.crc32(split.encode())])
        if job.network.vocabulary:
            images = random.randint(0, job.network.vocabulary, (count,) + shape)
            images = images.astype(np.float32)
        else:
            images = normal_numbers(random, (count,) + shape)
        return images, labels_of(job.network, images, random.randint(0, data.classes, count), data)
    path = os.path.join(data.folder, split)
    pixels, labels = adapter.read_records(shards(data, split), shape)
    if pixels.shape != (count,) + shape or pixels.dtype != np.uint8 or len(labels) != count:
        message = "{}: {} records of shape {}, the spec says {} of {}"
        raise ValueError(message.format(path, len(pixels), pixels.shape[1:], count, shape))
    labels = np.asarray(labels, np.int64)
    wrong = labels[(labels < 0) | (labels >= data.classes)]
    if len(wrong):
        message = "{}: a record has the label {}, the spec says {} classes"
        raise ValueError(message.format(path, wrong[0], data.classes))
    images = pixels / np.float32(data.pixel_maximum)
    images -= np.asarray(data.mean, np.float32)
    images /= np.asarray(data.std, np.float32)
    return images, labels_of(job.network, images, labels, data)


def shards(data: Data, split: str) -> List[str]:
    """The paths of a split's record files, in stored order, without their suffixes."""
    return [os.path.join(data.folder, name) for name in data.shards[split]]


def reader_of(adapter: Any, job: Job) -> Optional[RecordReader]:
    """The reader of the training set, which it opens; None where all of it is loaded.

    Raises ValueError if the records are not what the spec says.
    """
    data = job.data
    if job.input != "records":
        return None
    path = os.path.join(data.folder, "train")
    count = adapter.open_records(shards(data, "train"))
    if count != data.train_examples:
        message = "{}: {} records, the spec says {}"
        raise ValueError(message.format(path, count, data.train_examples))
    return RecordReader(adapter.fetch_records, job.execution.reader_threads or 0)
