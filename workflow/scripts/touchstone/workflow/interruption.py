"""What an execution does when it is interrupted: by Ctrl-C, SIGTERM, or a terminal that closes.

Snakemake waits for its jobs then, and after SIGTERM until they have finished. Here they end within
seconds: the commands of ours get SIGINT, after which they close what is open (`signals.py`); of
another signal their shell would print a line. What Snakemake prints of jobs that ended so is hidden
(`terminal.py`).
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import psutil

from touchstone import signals
from touchstone.paths import CLI

START = 1.0
"""Seconds that a command has to start: until then Python would answer SIGINT with a traceback."""
_came: list[int] = []


class Runs(NamedTuple):
    """The runs of an execution, and how many of them it has to make."""

    planned: int
    missing: int


_runs: list[Runs] = []
_finished: list[str] = []
"""The folders of the runs that have finished."""


def expect(planned: int, missing: int) -> None:
    """Note how many runs an execution has, and how many of them it has to make."""
    _runs.append(Runs(planned, missing))


def finished(run: str) -> None:
    """Note that a run has finished, whose folder this is."""
    _finished.append(run)


def kept_text() -> str:
    """How many runs an interruption leaves: those that the next execution does not make again."""
    if not (_runs and _runs[-1].planned):
        return "finished runs are kept"
    planned, missing = _runs[-1]
    kept = planned - missing + len(_finished)
    return (
        f"all {planned} runs are kept" if kept == planned else f"{kept} of {planned} runs are kept"
    )


def happened() -> bool:
    """Whether this execution was interrupted."""
    return bool(_came)


def prepare() -> None:
    """Have this process end its jobs when it is interrupted; again after Snakemake has set what
    SIGTERM does."""
    signals.handle(_interrupt)


def finish() -> None:
    """End an interrupted execution, with a status that says so."""
    if _came:
        sys.exit(signals.EXIT_STATUS + _came[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the jobs; the second time kill them."""
    _came.append(number)
    if len(_came) > 1:
        _send(signal.SIGKILL)
        return
    with contextlib.suppress(OSError):  # the terminal may be closed
        line = f"\nInterrupted: {kept_text()}. The same command continues.\n"
        os.write(2, line.encode())
    # What ignores SIGINT, as in the background of a script, has commands that ignore it too.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    _send(signal.SIGTERM if ignored else signal.SIGINT, after=START)
    finish()


def _send(number: int, after: float = 0.0) -> None:
    """Send a signal to our commands, to each when it is so many seconds old."""
    for process in list(_commands()):
        with contextlib.suppress(psutil.NoSuchProcess):
            time.sleep(max(0.0, min(after, process.create_time() + after - time.time())))
            process.send_signal(number)


def _commands() -> Iterator[psutil.Process]:
    """The processes of our commands that this one has started."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if CLI in map(Path, process.cmdline()[1:2]):
                yield process
