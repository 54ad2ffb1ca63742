"""What a runner wrote, read with limits: it may have written anything, and any amount of it."""

from __future__ import annotations

import json
import math
from itertools import count
from pathlib import Path
from typing import NamedTuple, NoReturn

from touchstone.schema import status
from touchstone.schema.events import (
    Chunk,
    Evaluation,
    Event,
    Outcome,
    Phase,
    Result,
    event_from_json,
    event_to_line,
    events_of,
)

MOST_BYTES = 1 << 30
"""Bytes of events, or of its log, for which a run is ended."""
LONGEST_LINE = 4 << 20
"""Bytes of a line of events, at most: a chunk, with a loss for every step."""
LONGEST_EVENT = 64 << 10
"""Bytes of the line of any other event."""
KEPT_BYTES = 1 << 20
"""Bytes of a long log's begin, and of its end, that are kept."""
LOG_TAIL = 20
"""Lines of the log's end that an `error` shows."""
LONGEST_TEXT = 1000
"""Characters of a reason, or of a line of the log's end."""
LARGEST_COUNT = 2**53
"""Steps; larger whole numbers have no exact float."""
RESULTS = (status.OK, status.DIVERGED, status.OOM, status.UNSUPPORTED, status.ERROR)
"""How a runner may say that it ended."""


class Account(NamedTuple):
    """A runner's own account of its run.

    result: how it ended, if it came to say so
    fault: what is wrong with its events
    whole: bytes of its events before that, or before a line that was cut off
    """

    result: Result | None
    fault: str | None
    whole: int


def account_of(events: Path) -> Account:
    """Read the events of a runner that has ended, up to the first line that is none."""
    if not events.exists():
        return Account(None, None, 0)
    whole, last = 0, None
    with open(events, "rb") as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            cut_off = len(line) <= LONGEST_LINE and not line.endswith(b"\n")
            if cut_off and not (line and isinstance(last, Result)):
                break  # the end, or what a killed runner left half-written
            try:
                if isinstance(last, Result):
                    raise ValueError("it follows the result")
                event = _event(line)
            except (ValueError, RecursionError) as error:
                return Account(None, shortened(f"line {number} of its events: {error}"), whole)
            whole, last = whole + len(line), event
    return Account(last if isinstance(last, Result) else None, None, whole)


def close(events: Path, account: Account, outcome: Outcome) -> None:
    """Cut off what is not whole in the events, and add the outcome."""
    with open(events, "ab") as file:
        file.truncate(account.whole)
        file.write(event_to_line(outcome).encode())


def too_much(*files: Path) -> str | None:
    """Why a run is to be ended for what it has written to these files, or None."""
    for path in files:
        if path.exists() and path.stat().st_size > MOST_BYTES:
            return f"it wrote more than {MOST_BYTES >> 20} MiB to {path}"
    return None


def log_tail(log: Path) -> list[str]:
    """The last lines of a log, each shortened."""
    size = log.stat().st_size
    with open(log, "rb") as file:
        file.seek(max(size - KEPT_BYTES, 0))
        text = file.read(KEPT_BYTES).decode(errors="replace")
    return [shortened(line) for line in text.splitlines()[-LOG_TAIL:]]


def shorten_log(log: Path) -> None:
    """Replace the middle of a long log by a line that says how much is missing."""
    size = log.stat().st_size
    if size <= 2 * KEPT_BYTES:
        return
    with open(log, "r+b") as file:
        file.seek(size - KEPT_BYTES)
        end = file.read(KEPT_BYTES)
        file.seek(KEPT_BYTES)
        file.write(b"\n... %d bytes are left out here ...\n" % (size - 2 * KEPT_BYTES))
        file.write(end)
        file.truncate()


def shortened(text: str) -> str:
    """The text, without its end if it is long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


class Follower:
    """Reads the chunks and phases that a runner writes while it runs; all else is passed over."""

    def __init__(self, events: Path) -> None:
        self.events, self.read_to = events, 0

    def new(self) -> list[Chunk | Phase]:
        """Those in the lines since the last call, at most `LONGEST_LINE` bytes of them."""
        if not self.events.exists():
            return []
        with open(self.events, "rb") as file:
            file.seek(self.read_to)
            text = file.read(LONGEST_LINE)
        end = text.rfind(b"\n") + 1
        if not end and len(text) == LONGEST_LINE:
            end = len(text)  # inside a line that is too long
        self.read_to += end
        return [event for line in text[:end].split(b"\n") if (event := _progress(line))]


def _progress(line: bytes) -> Chunk | Phase | None:
    """The chunk or phase in a line, if it is one and its numbers can be reckoned with."""
    try:
        events: list[Chunk | Phase] = events_of(line.decode(), Chunk, Phase)
        for event in events:
            _check_numbers(event)
            return event
    except (ValueError, RecursionError):
        pass  # the end of the run will say so
    return None


def _event(line: bytes) -> Event:
    """The event of a line; raises ValueError or RecursionError if a runner may not write it."""
    if len(line) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE} bytes")
    event = event_from_json(json.loads(line.decode(), parse_constant=_no_number))
    if isinstance(event, Chunk):
        event.phase.encode()  # half of a character is no text
    elif len(line) > LONGEST_EVENT:
        raise ValueError(f"it is longer than {LONGEST_EVENT} bytes")
    else:
        json.dumps(event, ensure_ascii=False, allow_nan=False).encode()
    _check_numbers(event)
    if isinstance(event, Outcome):
        raise ValueError("the outcome is for the supervisor to write")
    if isinstance(event, Result):
        if event.status not in RESULTS:
            raise ValueError(f"its result has the unknown status {event.status!r}")
        if (event.status == status.OK) == bool((event.reason or "").strip()):
            raise ValueError(f"its result is {event.status!r} with the reason {event.reason!r}")
    return event


def _check_numbers(event: Event) -> None:
    """Raise ValueError for numbers that no run has, with which arithmetic may fail."""
    counts: tuple[int, ...] = ()
    if isinstance(event, Chunk):
        counts = (event.first_step, event.steps)
        if math.inf in event.losses or -math.inf in event.losses:
            raise ValueError("a loss is no finite number")
    elif isinstance(event, Phase):
        counts = (event.steps, event.examples)
    elif isinstance(event, Evaluation):
        counts = (event.epoch, event.step, event.correct, event.examples - event.correct)
    if not all(0 <= number < LARGEST_COUNT for number in counts):
        raise ValueError("a count is negative or too large")
    if isinstance(event, Chunk | Phase) and not -math.inf < event.begin <= event.end < math.inf:
        raise ValueError("it ends before it begins, or never")


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
