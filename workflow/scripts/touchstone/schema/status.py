"""How a run ends: the values of `status` in events and records.

They are plain strings: versions of Python differ in the text of an Enum.
"""

OK = "ok"
DIVERGED = "diverged"
OOM = "oom"
TIMEOUT = "timeout"
UNSUPPORTED = "unsupported"
ERROR = "error"

MEANINGS = {
    OK: "The run finished and did every planned step.",
    DIVERGED: "The training loss stopped being a finite number.",
    OOM: "Out of memory: on the device, or over the memory limit of the host.",
    TIMEOUT: "The run was ended at its time limit, or because other programs slowed it down"
    " many times.",
    UNSUPPORTED: "The framework cannot do what the cell asks for.",
    ERROR: "A fault of the machine or of the code, twice in a row: no result, to be tried again.",
}
"""What each status means."""
STATUSES = tuple(MEANINGS)
FIT_IN_MEMORY = (OK, DIVERGED)
"""Where the batch fitted into memory, and every process reached its end."""
