"""How a run ends."""

import atexit
import ctypes
import os
import re
import sys
import threading
from typing import Any, Optional

EXIT_SECONDS = 3.0
"""Seconds that hooks of a program may take at the end of its process."""


class Diverged(Exception):
    """A loss is not finite."""


class Failed(Exception):
    """A script of the user failed, which is a result; the text says why."""


def raise_as_outcome(adapter: Any, error: Exception) -> None:
    """Raise MemoryError or NotImplementedError where the adapter knows an error to mean that."""
    if adapter.is_out_of_memory(error):
        said = str(error).strip().splitlines() or [""]
        # XLA first says that it could not choose kernels, and on a later line why.
        shown = (line for line in said if re.search("memory|exhausted", line, re.IGNORECASE))
        raise MemoryError(next(shown, said[0]))
    reason = adapter.unsupported_reason(error)
    if reason:
        raise NotImplementedError(reason)


def exit_now(patience: Optional[float] = None) -> None:
    """End this process, all its files being written, without taking the framework apart.

    That takes up to a second, for which the next run would wait. What registered itself for the
    end of the process is called, and what C has not written yet is written; after so many seconds
    of `patience` the process ends whatever they do.
    """
    if patience is not None:
        timer = threading.Timer(patience, os._exit, [0])
        timer.daemon = True
        timer.start()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)
