"""The one kind of error for bad inputs, and how a main reports it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from touchstone import started
from touchstone.errors import TouchstoneError, explained
from touchstone.safe_text import one_line


def repair() -> str:
    """The remedy for a damaged download, record file or manifest."""
    remedy = started.verify(repair=True)
    return f"`{remedy}` deletes what is damaged, and the next execution makes it again"


def unreadable(error: OSError) -> str:
    """Why a file cannot be read, as a cause in a message."""
    if isinstance(error, FileNotFoundError):
        return "the file is missing"
    return f"it cannot be read ({error.strerror or error})"


class DatasetError(TouchstoneError):
    """A file that cannot be used: which one, why, and what to do about it."""

    def __init__(self, file: Path | str, cause: str, remedy: str) -> None:
        super().__init__(one_line(f"{file}: {cause}; {remedy}"))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How it goes from one process to another: with its message only."""
        return DatasetError.__new__, (DatasetError, str(self))


class DatasetErrors(DatasetError):
    """Several of them, reported together, one a line; of very many, the first `MOST`."""

    MOST = 20

    def __init__(self, faults: list[DatasetError]) -> None:
        lines = [str(fault) for fault in faults[: self.MOST]]
        if len(faults) > self.MOST:
            lines.append(f"and {len(faults) - self.MOST} more faults like these")
        Exception.__init__(self, "\n".join(lines))


class CatalogueError(TouchstoneError, ValueError):
    """All the faults of a catalogue file, one line each: file, key, cause, remedy."""


def exit_status(work: Callable[[], None], output: Path) -> int:
    """Do `work`; return 0, or report a bad input or a fault of the disk and return 1.

    `output` is named in the message where the operating system names no file.
    """
    try:
        work()
    except (CatalogueError, DatasetError) as error:
        message = str(error)
    except OSError as error:
        message = explained(error, output)
    else:
        return 0
    print(f"error: {message}", file=sys.stderr)
    return 1
