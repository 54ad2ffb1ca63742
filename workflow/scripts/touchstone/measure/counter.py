"""A hardware counter that wraps around or starts again."""


class Counter:
    """Sums up the steps of a counter that goes from 0 up to `size` and then from 0 again.

    A counter that falls has wrapped if the step is then at most a quarter of `size`: it is
    read far more often than four times a round. Otherwise it was reset, and what it shows is
    what came since; what it had gained between the last reading and the reset is lost.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.last: int | None = None
        self.total = 0

    def add(self, reading: int) -> int:
        """Take a reading; returns all steps since the first one."""
        step = 0 if self.last is None else reading - self.last
        if step < 0:
            step += self.size
            if step > self.size / 4:
                step = reading
        self.last = reading
        self.total += step
        return self.total
