"""A number of a record, or the reason why there is none."""

from typing import NamedTuple

from touchstone.results.run_files import EventsError, Run


class Censored(NamedTuple):
    """A value that is only known to be larger than `at`, and the `reason` why."""

    reason: str
    at: float


MetricValue = float | str
"""A metric's number, or the reason why there is none."""
DIVIDED = ("warmup", "measured", "evaluation")
"""The phases that may have several parts."""


class PhaseSpan(NamedTuple):
    """A stretch of a phase on the monotonic clock (s) with the work done in it."""

    begin: float
    end: float
    steps: int
    examples: int


def events_error(run: Run, cause: str) -> EventsError:
    return EventsError(run.folder / "events.jsonl", cause)
