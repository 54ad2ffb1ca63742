"""What the terminal shows while a study runs: the run, its speed, and how long it still takes."""

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from touchstone.measure.runner_output import Follower
from touchstone.reading import parse_json, text_of
from touchstone.schema.events import Chunk, Phase
from touchstone.schema.spec import RunSpec, TrainingSpec, epochs_of, kind_of
from touchstone.schema.values import from_json, to_json
from touchstone.schema.variables import DRIVER

PATH = Path("results/.progress.jsonl")
"""Its first line has the number of runs, and each other line describes a run that has ended."""
MOST_BYTES = 1 << 26
"""Bytes of it that are read."""
MOST_CELLS = 6
"""Cells of which the terminal shows the first speeds together at most."""
UNITS = {"operation": "calls/s", "program": "examples/s"}
"""Of speeds that are not in images/s, by kind of spec."""
CLEARED = "\r\033[K"
"""Puts the cursor of a terminal at the beginning of an empty line."""
PLAIN_INTERVAL = 60.0
"""Seconds between lines of progress where the output is no terminal."""


class Begun(NamedTuple):
    """An execution: how many runs it has, when it began on the monotonic clock and as a date, s,
    and what its cells are called in the terminal."""

    runs: int
    begin: float
    date: float
    names: dict[str, str]


class Ended(NamedTuple):
    """A run that has ended: its cell, its seconds, those of its measured phase, and its speed."""

    cell: str
    seconds: float
    measured: float
    speed: str


class Waited(NamedTuple):
    """Seconds for which a run, or turns, waited for the machine."""

    waited: float


class Account(NamedTuple):
    """An execution, its runs that have ended, in order, and the seconds that it waited for the
    machine."""

    begun: Begun
    ended: list[Ended]
    waited: float = 0.0

    @property
    def first_round(self) -> str:
        """The speeds of the cells where each has run once; empty for one cell, for many, and where
        they are the last of the execution."""
        first = {run.cell: run.speed for run in self.ended}
        is_one_each = len(first) == len(self.ended) == len(self.begun.names) < self.begun.runs
        if not (is_one_each and 1 < len(first) <= MOST_CELLS and all(first.values())):
            return ""
        speeds = [f"{self.begun.names[cell]} {speed}" for cell, speed in first.items()]
        return f"so far, one run each, which is no answer yet: {', '.join(speeds)}"


def start(runs: Sequence[str], cells: Iterable[str] = ()) -> None:
    """Begin the account of an execution; `runs` has the cell of each run, `cells` all of the
    study's, whose names are shortened alike whichever of them run."""
    PATH.parent.mkdir(exist_ok=True)
    short = short_names([*cells, *runs])
    begun = Begun(len(runs), time.monotonic(), time.time(), {cell: short[cell] for cell in runs})
    PATH.write_text(json.dumps(to_json(begun)) + "\n")


def short_names(cells: Iterable[str]) -> dict[str, str]:
    """What the names of cells have not in common, by cell; whole names where that is not enough."""
    parts = {cell: cell.split("-") for cell in cells}
    common = set.intersection(*map(set, parts.values())) if parts else set()
    short = {c: "-".join(p for p in of if p not in common) for c, of in parts.items()}
    return (
        short
        if len(set(short.values())) == len(short) > 1 and all(short.values())
        else {cell: cell for cell in parts}
    )


def execution() -> str | None:
    """When the execution that this run belongs to began, UTC; None where none keeps an account."""
    account = _account()
    date = account and time.gmtime(account.begun.date)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", date) if date else None


def closing() -> str | None:
    """One line: how much of the execution's time was measured. None if nothing was measured."""
    account = _account()
    if account is None or not (measured := sum(run.measured for run in account.ended)):
        return None
    ended = account.ended
    runs = sum(run.seconds for run in ended)
    wall = time.monotonic() - account.begun.begin
    count = f"{len(ended)} run{'s' * (len(ended) != 1)}"
    parts = [f"{duration(runs)} in runs", f"{duration(measured)} measured"]
    parts += [f"{duration(account.waited)} of waiting for the machine"] * (account.waited >= 1)
    return f"{count} in {duration(wall)}: {', '.join(parts)}"


def add_wait(seconds: float) -> None:
    """Add to the account that the machine was waited for, if this process is of an execution."""
    if DRIVER in os.environ and PATH.exists():
        _append(Waited(round(seconds, 1)))


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`: as exact as an estimate deserves."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def columns() -> int:
    """The columns of the terminal that a line can fill without a line break."""
    return max(shutil.get_terminal_size().columns - 1, 1)


def fitted(name: str, rest: str, width: int) -> str:
    """`name` and `rest` in at most `width` columns.

    An ellipsis replaces the middle of the name, since the names of cells differ at both ends. Where
    even ten characters of the name do not fit, the end of the line goes too.
    """
    room = max(width - len(rest), 10)
    if len(name) > room:
        head = room // 2
        name = f"{name[:head]}…{name[len(name) - (room - head - 1) :]}"
    line = name + rest
    return line if len(line) <= width else f"{line[: width - 1]}…"


def say(line: str) -> None:
    """Print a line; on a terminal in place of an unfinished one."""
    begin = CLEARED if sys.stderr.isatty() else ""
    print(f"{begin}{line}", file=sys.stderr, flush=True)


def show(out: TextIO, before: str, name: str, rest: str, end: str) -> None:
    """Print `before`, `name` and `rest`; on a terminal in one line, in place of an unfinished one.

    There a line is finished where `end` is a line break.
    """
    if out.isatty():
        width = max(columns() - len(before), 1)
        text = before + fitted(name, rest, width)
        out.write(f"{CLEARED}{text[: columns()]}{end}")
    else:
        out.write(f"{before}{name}{rest}\n")
    out.flush()


class Progress:
    """Follows one run through its events file."""

    def __init__(self, spec: RunSpec, events: Path, out: TextIO = sys.stderr) -> None:
        self.out = out
        self.begin = time.monotonic()
        self.printed = 0.0
        self.events = events
        self.follower = Follower(events)
        self.phase, self.steps_done = "import", 0
        self.rate = 0.0  # of the last chunks, steps/s
        self.measured, self.examples = 0.0, 0  # seconds of the measured phase, and its examples
        self.last_end = self.begin
        self.first_step: float | None = None  # when it had ended, on the monotonic clock
        self.unit = UNITS.get(kind_of(spec), "images/s")
        self.batch_size = spec.factors.batch_size
        self.steps, self.limit, self.probe = 0, None, False  # of runs that last for a time
        if isinstance(spec, TrainingSpec):
            phases = spec.phases
            self.steps = phases.probe_steps or phases.epochs * epochs_of(spec).steps
            self.limit, self.probe = phases.measured_steps, phases.probe_steps is not None
            if self.limit:  # how long its warm-up will be is not known yet
                self.steps = min(self.steps, 1 + phases.warmup_steps + self.limit)
        account = _account()
        names = account.begun.names if account else {}
        self.ended = [run.seconds for run in account.ended] if account else []
        self.runs = max(account.begun.runs if account else 1, len(self.ended) + 1)
        number = f"{len(self.ended) + 1:{len(str(self.runs))}}"
        self.before = f"run {number} of {self.runs}  "
        self.cell, width = spec.cell, max(map(len, names.values()), default=0)
        self.name = f"{names.get(spec.cell, spec.cell):{width}}"
        self.repeat = f" rep{spec.repeat}"
        if self.probe:
            self.before = f"does a batch of {self.batch_size} fit?  "
            self.name, self.repeat = spec.factors.framework, ""

    def update(self) -> None:
        """Read what the runner has written since the last call, and print a line if it is time."""
        self._follow()
        elapsed = time.monotonic() - self.begin
        if not self.out.isatty() and elapsed - self.printed < PLAIN_INTERVAL:
            return
        self.printed = elapsed
        parts = [self.phase]
        expected = None
        if self.rate and not self.steps:
            parts += [self._speed(self.rate * self.batch_size)]
        elif self.rate:
            speed = self._speed(self.rate * self.batch_size)
            parts += [f"{self.steps_done / self.steps:.0%}", speed]
            expected = elapsed + (self.steps - self.steps_done) / self.rate
        durations = self.ended + ([expected] if expected is not None else [])
        if durations and not self.probe:
            usual = sum(durations) / len(durations)
            this = max((expected or usual) - elapsed, 0)
            left = this + (self.runs - len(self.ended) - 1) * usual
            parts.append(f"about {duration(left)} left")
        self._print(parts, end="")

    def finish(self, status: str) -> None:
        """Print how the run ended, with its throughput, and add it to the account.

        Of a run that ended before the measured phase did, the speed is that of its last chunks.
        """
        self._follow()
        seconds = time.monotonic() - self.begin
        speed = ""
        if self.measured:
            speed = self._speed(self.examples / self.measured)
        elif self.rate:
            speed = self._speed(self.rate * self.batch_size)
        self._print([status, *filter(None, [speed]), f"{seconds:.0f} s"], end="\n")
        if PATH.exists():
            _append(Ended(self.cell, round(seconds, 1), round(self.measured, 3), speed))
            if (account := _account()) and account.first_round and not self.probe:
                self.out.write(f"{account.first_round}\n")

    def _speed(self, speed: float) -> str:
        """A speed in examples or calls, of which small ones have three digits."""
        digits = f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"
        return f"{digits} {self.unit}"

    def _print(self, parts: list[str], end: str) -> None:
        rest = "".join(f"  {part}" for part in parts)
        show(self.out, self.before, self.name, self.repeat + rest, end)

    def _follow(self) -> None:
        while new := self.follower.new():
            for event in new:
                self._take(event)

    def _take(self, event: Chunk | Phase) -> None:
        seconds = event.end - (self.last_end if isinstance(event, Chunk) else event.begin)
        if isinstance(event, Chunk):
            self.phase = event.phase
            self.steps_done = event.first_step + event.steps
            # Those of the latency come after the throughput, one batch at a time.
            if event.phase not in ("first_step", "latency") and seconds > 0:
                # From end to end: a chunk begins before the one before it has ended.
                rate = event.steps / seconds
                self.rate = 0.8 * self.rate + 0.2 * rate if self.rate else rate
            self.last_end = event.end
            return
        self.phase, self.last_end = event.name, event.end
        if self.limit and event.name == "warmup":
            self.steps = self.steps_done + self.limit
        if event.name == "first_step":
            self.first_step = event.end
        if event.name == "measured" and seconds > 0:
            # A phase that evaluations interrupt has parts.
            self.measured, self.examples = self.measured + seconds, self.examples + event.examples
            self.rate = event.steps / seconds


def _account() -> Account | None:
    """The account up to the first line that is damaged, which ends no run; None without one."""
    account = None
    with contextlib.suppress(OSError, ValueError):
        first, *lines = text_of(PATH, MOST_BYTES).splitlines()
        account = Account(from_json(Begun, parse_json(first)), [])
        for line in map(parse_json, lines):
            if isinstance(line, dict) and "waited" in line:
                account = account._replace(waited=account.waited + from_json(Waited, line).waited)
            else:
                account.ended.append(from_json(Ended, line))
    return account


def _append(line: Ended | Waited) -> None:
    with open(PATH, "a") as file:
        file.write(json.dumps(to_json(line)) + "\n")
