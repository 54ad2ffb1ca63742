"""The largest batch size that fits, by doubling and then bisection."""

from collections.abc import Callable
from typing import NamedTuple

from touchstone.schema.status import FIT_IN_MEMORY

START = 64
"""The batch size that is tried first."""


class Largest(NamedTuple):
    """What a search found: the largest batch size that fits, None where that is not known.

    `status` is `ok`, or the outcome that ended the search. `reason` says why there is no
    number, or why the number is only a bound.
    """

    value: int | None
    status: str
    reason: str | None


def largest(
    probe: Callable[[int], tuple[str, str | None]],
    bound: int,
    what: str = "the number of training examples",
) -> Largest:
    """The largest batch size that fits, which is at most `bound`.

    Args:
        probe: tries a batch size, and returns the outcome and its reason. `ok` and `diverged`
            fit, `oom` does not; any other outcome tells nothing of memory and ends the search.
        what: the bound in words.

    If a size fits, all smaller ones are taken to fit: a search never goes back. What it returns
    has fitted itself, and the next larger size has not.
    """
    fits, fails = 0, bound + 1
    while fails - fits > 1:
        doubling = fails > bound
        size = min(2 * fits or START, bound) if doubling else (fits + fails) // 2
        status, reason = probe(size)
        if status in FIT_IN_MEMORY:
            fits = size
        elif status == "oom":
            fails = size
        else:
            note = f"the largest that fitted before was {fits}" if fits else "none fitted before"
            return Largest(None, status, f"batch size {size}: {reason or status}; {note}")
    if fits == bound:
        return Largest(bound, "ok", f"not limited below {bound}, {what}")
    if not fits:
        return Largest(None, "oom", "not even a batch of one example fits")
    return Largest(fits, "ok", None)
