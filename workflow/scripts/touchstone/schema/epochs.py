"""How many steps and examples an epoch has, whose last batch may be a partial one."""

DROP, KEEP = "drop", "keep"
"""What becomes of the examples that are left after the last whole batch of an epoch."""


class Epochs:
    """Epochs of `examples` in batches of `batch_size`, one after the other.

    `rest` is the size of the partial batch at the end of each, and 0 where there is none.
    """

    def __init__(self, examples: int, batch_size: int, last_batch: str = DROP) -> None:
        whole, left = divmod(examples, batch_size)
        self.batch_size = batch_size
        self.rest = left if last_batch == KEEP else 0
        self.steps = whole + bool(self.rest)
        self.examples = whole * batch_size + self.rest

    def size_of(self, step: int) -> int:
        """Examples of a step, counted from 0."""
        return self.rest if self.rest and (step + 1) % self.steps == 0 else self.batch_size

    def alike(self, first: int, steps: int) -> int:
        """How many of these steps, from `first` on, have batches of one size."""
        if not self.rest:
            return steps
        return min(steps, self.steps - 1 - first % self.steps or 1)

    def examples_of(self, first: int, steps: int) -> int:
        """Examples of these steps, from `first` on."""
        if not self.rest:
            return steps * self.batch_size
        partial = (first + steps) // self.steps - first // self.steps
        return steps * self.batch_size - partial * (self.batch_size - self.rest)
