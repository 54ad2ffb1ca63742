"""The examples, and the batches of them that training takes, in the order of the seed."""

import concurrent.futures
import os
import threading
import zlib
from typing import Any, List

import numpy as np

from touchstone.runner.initial_weights import drawn
from touchstone.schema.types import Array, Spec


class Order:
    """The order of the examples: a fresh seeded permutation for every epoch, or, where they are not
    to be `shuffled`, that of the set.

    The last partial batch of an epoch is dropped. NumPy freezes the stream of RandomState
    (NEP 19), so every NumPy gives the same order. Where the spec augments, every example has
    draws (top, left, mirrored): the corner at which it is cut out of itself with `crop_padding`
    zeros on every side, and 1 if the cut is then mirrored left to right. Of every batch, `share`
    is given.
    """

    def __init__(
        self,
        seed: int,
        examples: Any,
        batch_size: int,
        augmentation: Any = None,
        share: Any = slice(None),
        shuffled: bool = True,
    ) -> None:
        self.seed, self.examples, self.batch_size = seed, examples, batch_size
        self.augmentation, self.share, self.shuffled = augmentation, share, shuffled
        self.steps = examples // batch_size
        self.epoch = 0
        self.left = self._rows(np.empty(0, np.int64))
        self.left_draws = self._rows(np.empty((0, 3), np.int32))

    def _rows(self, examples: Any) -> Any:
        """One row per step of what there is one of per example; a partial batch is dropped."""
        steps = len(examples) // self.batch_size
        kept = examples[: steps * self.batch_size]
        return kept.reshape((steps, self.batch_size) + examples.shape[1:])

    def _draws(self) -> Any:
        random = np.random.RandomState([self.seed, self.epoch, 1])
        corner = random.randint(0, 2 * self.augmentation["crop_padding"] + 1, (self.examples, 2))
        mirrored = random.randint(0, 1 + self.augmentation["flip"], (self.examples, 1))
        return np.concatenate([corner, mirrored], axis=1).astype(np.int32)

    def peek(self, steps: int) -> Any:
        """The indices that the next `steps` batches will have."""
        while len(self.left) < steps:
            order = np.arange(self.examples)
            if self.shuffled:
                order = np.random.RandomState([self.seed, self.epoch]).permutation(order)
            self.left = np.concatenate([self.left, self._rows(order)])
            if self.augmentation:
                rows = self._rows(self._draws())
                self.left_draws = np.concatenate([self.left_draws, rows])
            self.epoch += 1
        return self.left[:steps, self.share]

    def take(self, steps: int) -> Any:
        """The next `steps` batches: indices, int64 (steps, batch size), and draws or None."""
        taken = self.peek(steps)
        draws = self.left_draws[:steps, self.share] if self.augmentation else None
        self.left, self.left_draws = self.left[steps:], self.left_draws[steps:]
        return taken, draws


def order_of(spec: Spec, share: Any = slice(None)) -> Any:
    """The Order of a spec's training set: noise is not shuffled, which would only cost time."""
    return Order(
        spec["seed"], spec["data"]["train_examples"], spec["factors"]["batch_size"],
        spec["augmentation"], share, spec["factors"]["input"] != "synthetic",
    )  # fmt: skip


class Reader:
    """Reads records in threads of its own, one chunk of steps before it is taken.

    With no threads, a chunk is read when it is taken.
    """

    def __init__(self, fetch: Any, threads: int) -> None:
        self.fetch, self.threads = fetch, []
        self.ahead = np.empty((0, 0), np.int64)
        self.parts: List[Any] = []
        self.pool = concurrent.futures.ThreadPoolExecutor(threads) if threads else None
        if self.pool:
            # All of them are there before the first step, none comes up while measuring.
            started = threading.Barrier(threads)
            ready = [self.pool.submit(self._start, started) for _ in range(threads)]
            self.threads = [each.result() for each in ready]

    def _start(self, started: Any) -> Any:
        started.wait()
        return threading.current_thread()

    def take(self, indices: Array, following: Any) -> Any:
        """What `fetch` gives for these steps, in parts; begins to read the `following` ones."""
        known, parts = np.array_equal(indices, self.ahead), self.parts
        taken = [part.result() for part in parts] if known else [self.fetch(indices)]
        if self.pool and len(following):
            parts = np.array_split(following, min(len(self.threads), len(following)))
            self.ahead, self.parts = following, [self.pool.submit(self.fetch, p) for p in parts]
        return taken

    def live(self) -> Any:
        """The number of its threads that live."""
        return sum(thread.is_alive() for thread in self.threads)


def examples(adapter: Any, spec: Spec, split: Any) -> Any:
    """Images as the network takes them, float32, and labels, int64, of a split.

    Of a text these are its tokens, whole numbers: the bytes, for `white` is 1 and the mean 0.
    Raises ValueError if the records are not what the spec says.
    """
    data = spec["data"]
    count, shape = data[split + "_examples"], tuple(data["shape"])
    if spec["factors"]["input"] == "synthetic":
        random = np.random.RandomState([spec["seed"], zlib.crc32(split.encode())])
        if "vocabulary" in spec["network"]:
            images = random.randint(0, spec["network"]["vocabulary"], (count,) + shape)
            images = images.astype(np.float32)
        else:
            images = drawn(random, (count,) + shape)
        return images, random.randint(0, data["classes"], count)
    stem = os.path.join(data["folder"], split)
    pixels, labels = adapter.read(stems(data, split), shape)
    if pixels.shape != (count,) + shape or pixels.dtype != np.uint8 or len(labels) != count:
        message = "{}: {} records of shape {}, the spec says {} of {}"
        raise ValueError(message.format(stem, len(pixels), pixels.shape[1:], count, shape))
    labels = np.asarray(labels, np.int64)
    wrong = labels[(labels < 0) | (labels >= data["classes"])]
    if len(wrong):
        message = "{}: a record has the label {}, the spec says {} classes"
        raise ValueError(message.format(stem, wrong[0], data["classes"]))
    images = pixels / np.float32(data.get("white", 255))
    images -= np.float32(data["mean"])
    images /= np.float32(data["std"])
    return images, labels


def stems(data: Any, split: Any) -> Any:
    """Where the record files of a split lie, in stored order, without their suffixes."""
    return [os.path.join(data["folder"], name) for name in data["stems"][split]]


def reader_of(adapter: Any, spec: Spec) -> Any:
    """The Reader of the training set, which is opened; None where all of it is loaded.

    Raises ValueError if the records are not what the spec says.
    """
    data = spec["data"]
    if spec["factors"]["input"] != "records":
        return None
    stem = os.path.join(data["folder"], "train")
    count = adapter.open(stems(data, "train"))
    if count != data["train_examples"]:
        message = "{}: {} records, the spec says {}"
        raise ValueError(message.format(stem, count, data["train_examples"]))
    return Reader(adapter.fetch, spec["execution"]["reader_threads"])
