"""Faults that end a command in one line."""

import errno
from pathlib import Path

from touchstone.safe_text import CONTROL

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class TouchstoneError(Exception):
    """What a user can mend: the message names the file or key, the cause and the remedy.

    Its text may quote what others wrote: it has no control characters but ends of lines.
    """

    def __str__(self) -> str:
        return harmless(super().__str__())


def harmless(text: str) -> str:
    """The text without control characters, but with its lines."""
    return "\n".join(CONTROL.sub(" ", line) for line in text.split("\n"))


class UsageError(TouchstoneError):
    """Arguments of a command that do not go together."""


def explained(error: Exception, place: Path | str | None = None) -> str:
    """An error in one sentence.

    Of what the operating system refused, it names the file, the cause and the remedy; `place` where
    the operating system names no file. Our own errors say all that themselves. There are no control
    characters but ends of lines.
    """
    return harmless(_sentence(error, place))


def _sentence(error: Exception, place: Path | str | None) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in _DISK:
        remedy = "check the space, the limits and the health of the disk, then run again"
    elif error.errno in _READ_ONLY:
        remedy = "check that you may write there, or use another folder, then run again"
    else:
        remedy = "check that the path exists and that you may use it"
    name = error.filename or place
    return f"{f'{name}: ' if name else ''}{error.strerror or error}; {remedy}"
