"""A number of a record, or the reason why there is none."""

from typing import Any, NamedTuple

from touchstone.results.metrics import METRICS
from touchstone.results.run_files import EventsError, Run

Answer = float | str
"""A metric's number, or the reason why there is none."""
DIVIDED = ("warmup", "measured", "evaluation")
"""The phases that may have several parts."""


class Part(NamedTuple):
    """A stretch of a phase on the monotonic clock (s) with the work done in it."""

    begin: float
    end: float
    steps: int
    examples: int


def as_metric(name: str, answer: Answer) -> dict[str, Any]:
    unit = METRICS[name].unit
    if isinstance(answer, str):
        return {"value": None, "unit": unit, "reason": answer}
    return {"value": answer, "unit": unit}


def events_error(run: Run, cause: str) -> EventsError:
    return EventsError(run.folder / "events.jsonl", cause)
