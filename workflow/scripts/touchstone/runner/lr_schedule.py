"""The learning rate of each step."""

import numpy as np

from touchstone.schema.spec import Schedule
from touchstone.schema.types import Array


class LRSchedule:
    """The learning rate of every step.

    During warm-up it grows linearly to the base rate (Goyal et al. 2017, arXiv:1706.02677,
    section 2.2); the cosine falls from there to 0 at the end of training (Loshchilov and Hutter
    2017, arXiv:1608.03983, equation 5, without restarts).
    """

    def __init__(
        self, base: float, schedule: Schedule, steps_per_epoch: int, epochs: float
    ) -> None:
        self.base, self.schedule, self.epochs = base, schedule, epochs
        self.steps_per_epoch = steps_per_epoch

    def take(self, first: int, steps: int) -> Array:
        """The rates of `steps` steps from number `first` on, float64 (steps,)."""
        step = np.arange(first, first + steps)
        epoch = step / float(self.steps_per_epoch)
        warmup, rates = self.schedule.lr_warmup_epochs, np.full(steps, self.base)
        if self.schedule.name == "step":
            passed = (epoch[:, None] >= np.array(self.schedule.milestones)).sum(axis=1)
            rates *= self.schedule.lr_gamma**passed
        elif self.schedule.name == "cosine":
            rates *= (1 + np.cos(np.pi * (epoch - warmup) / (self.epochs - warmup))) / 2
        rising = (step + 1) / (max(warmup, 1e-9) * self.steps_per_epoch)
        return np.where(epoch < warmup, self.base * rising, rates)
