"""A training step for the whole batches of an epoch and for the partial one at its end."""

from typing import Any

import numpy as np


class StepOfTwoSizes:
    """A jitted step, compiled for `rest` examples too before its first call.

    Otherwise the first partial batch would be compiled in the measured phase.
    """

    def __init__(self, step: Any, rest: int) -> None:
        self.step, self.rest = step, rest
        self.partial: Any = None
        self.last_size = 0

    def __call__(self, state: Any, data: Any, batch: Any, draws: Any, *others: Any) -> Any:
        """The next state and the loss; all have as many examples as `batch`."""
        self.last_size = len(batch[-1])
        if self.partial is None:
            cut = tuple(np.asarray(part)[: self.rest] for part in batch)
            cut_draws = None if draws is None else draws[: self.rest]
            self.partial = self.step.lower(state, data, cut, cut_draws, *others).compile()
        step = self.partial if self.last_size == self.rest else self.step
        return step(state, data, batch, draws, *others)

    def _cache_size(self) -> int:
        """How often the step was compiled for whole batches."""
        return int(self.step._cache_size())
