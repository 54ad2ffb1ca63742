"""What is compared: networks, lengths of runs, settings, and the figures of a run."""

from __future__ import annotations

import math
from typing import NamedTuple

LEAST_STEPS = 3
"""Measured steps of a window, however long they take."""
BATCHES = 8
"""Batches of noise that ours and the expert train on."""
EPOCH = 64
"""Batches of an epoch, at most, of the user's program and of ours beside it."""


class Case(NamedTuple):
    """A network with its data set and its batch sizes on a CPU and, where it has another one, on a
    GPU."""

    dataset: str
    batch_size: int
    on_gpu: int | None = None

    def size(self, device: str) -> int:
        """The batch size on a device."""
        return (device == "gpu" and self.on_gpu) or self.batch_size


CASES = {
    "lenet5": Case("mnist-5k", 64),
    "alexnet-cifar": Case("synthetic", 128),
    "resnet20-cifar": Case("synthetic", 128),
    "resnet50-cifar": Case("synthetic", 32, 256),
    "vgg16-cifar": Case("synthetic", 32, 256),
    "resnet50": Case("synthetic-224", 8, 256),
    "lstm-text": Case("synthetic-text", 64),
    "vit-ti-16": Case("synthetic", 64, 256),
    "gpt-10m": Case("source-code", 4, 32),
}


class Length(NamedTuple):
    """Steps of a run behind its first one: warm-up, measured, and between two waits."""

    warmup: int
    measured: int
    group: int
    epochs: int
    batches: int


class Seen(NamedTuple):
    """What one run showed.

    `speed` is in images/s, `efficiency` in images per CPU second, `first_step` in s (None of the
    user's program, which does not look), `memory` (the largest resident size) in MiB; `others` is
    the share of the machine's CPU time that other processes used in the measured window.
    """

    speed: float
    efficiency: float
    first_step: float | None
    memory: float
    others: float


class Setting(NamedTuple):
    """How a side trains: our mode or the expert's candidate, threads, how idle ones wait, and on
    which device in which precision."""

    way: str
    threads: int
    waiting: str = "default"
    device: str = "cpu"
    precision: str = "fp32"

    def __str__(self) -> str:
        if self.device == "gpu":
            return self.way
        waiting = "" if self.waiting == "default" else f", {self.waiting}"
        return f"{self.way}, {self.threads} thread{'s' * (self.threads > 1)}{waiting}"


FIELDS = ("network", "batch_size", "framework", "cores", "pair", "side", "choice", *Seen._fields)
"""Columns of the results file; `choice` is the side's setting. `cores` is their number, or, on a
GPU, `gpu` with the precision."""


def length_of(steps_per_second: float, warmup_seconds: float, seconds: float) -> Length:
    """How long a run is in which a step takes about as long as in the trial.

    Our runs train whole epochs of at most `BATCHES` batches: the steps are rounded up to them.
    """
    warmup = max(1, math.ceil(warmup_seconds * steps_per_second))
    measured = max(LEAST_STEPS, math.ceil(seconds * steps_per_second))
    batches = min(BATCHES, 1 + warmup + measured)
    epochs = math.ceil((1 + warmup + measured) / batches)
    # Some 50 ms of steps, as in our runs: the expert looks at the loss as often as we do.
    group = max(1, min(warmup, round(0.05 * steps_per_second)))
    return Length(warmup, epochs * batches - 1 - warmup, group, epochs, batches)


def length_in_epochs(steps_per_second: float, warmup_seconds: float, seconds: float) -> Length:
    """The same in whole epochs, of at most `EPOCH` batches, of which the user's program knows."""
    measured = max(LEAST_STEPS, math.ceil(seconds * steps_per_second))
    batches = min(EPOCH, measured)
    warmup = max(1, math.ceil(warmup_seconds * steps_per_second / batches))
    epochs = math.ceil(measured / batches)
    return Length(warmup * batches - 1, epochs * batches, 1, warmup + epochs, batches)
