"""How a command ends when it is interrupted: by Ctrl-C, SIGTERM, or a terminal that closes.

It closes what it has open and ends its processes, prints nothing, and dies of the signal, so that
the process that started it knows.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CLOSING_SECONDS = 5
"""Seconds after which an interrupted command ends, whatever it is still closing."""

EXIT_STATUS = 128
"""To which the number of the signal is added, as shells do."""

Handler = Callable[[int, FrameType | None], None]


def silence() -> None:
    """Let an interruption end this process at once, without a traceback."""
    handle(signal.SIG_DFL)


def handle(how: Handler | signal.Handlers) -> None:
    """Treat interruptions like this, but those that this process was started to ignore; only the
    main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        return
    for kind in INTERRUPTIONS:
        if signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, how)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within it, an interruption closes all that is open, and ends this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.getsignal(kind) for kind in INTERRUPTIONS}
    came: list[int] = []
    own = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:  # a fork that is about to start a program
            os._exit(EXIT_STATUS + number)
        came.append(number)
        if len(came) > 1:  # it is closing
            return
        signal.alarm(CLOSING_SECONDS)
        # Python swallows what is raised in a finalizer or a callback, and prints it.
        sys.unraisablehook = lambda _: _die_of(number)
        raise KeyboardInterrupt

    handle(interrupt)
    try:
        yield
    finally:
        if came:
            _die_of(came[0])
        for kind, how in before.items():
            signal.signal(kind, how)


def _die_of(number: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
