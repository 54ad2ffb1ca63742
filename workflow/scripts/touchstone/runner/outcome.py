"""How a run ends."""

import atexit
import ctypes
import os
import re
import sys
from typing import Any


class Diverged(Exception):
    """A loss is not finite."""


def raise_foreseen(adapter: Any, error: Exception) -> None:
    """Raise MemoryError or NotImplementedError where the adapter knows an error to mean that."""
    if adapter.is_out_of_memory(error):
        said = str(error).strip().splitlines() or [""]
        # XLA first says that it could not choose kernels, and on a later line why.
        shown = (line for line in said if re.search("memory|exhausted", line, re.IGNORECASE))
        raise MemoryError(next(shown, said[0]))
    reason = adapter.unsupported_reason(error)
    if reason:
        raise NotImplementedError(reason)


def exit_now() -> None:
    """End this process, all its files being written, without taking the framework apart.

    That takes up to a second, for which the next run would wait. What registered itself for the
    end of the process is called, and what C has not written yet is written.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)
