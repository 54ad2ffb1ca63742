"""Running variances of batch normalisation, of frameworks that average biased ones."""

from typing import Any


def unbiased(start: Any, now: Any, momentum: float, steps: int, count: int) -> Any:
    """The running variance as the graph defines it: an average of unbiased variances.

    After t steps with momentum m from a start v the framework holds m^t v + s, of which only s is
    to be multiplied by n / (n - 1).

    Args:
        start: the array at which training began; `now` is the present one.
        steps: that were trained.
        count: n, the numbers of each channel in a batch.
    """
    kept = start * momentum**steps
    return kept + (now - kept) * (count / (count - 1.0))
