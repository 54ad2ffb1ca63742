"""How reports spell what a study names: frameworks, modes, devices and other settings.

The name of a framework and of its modes is in `runner/adapters/<framework>/names.py`, which no run
imports: a change of it repeats no run.
"""

from functools import cache
from typing import Any

from touchstone.plan.frameworks import FOLDER, adapters, constants

ALL_THREADS = "all threads"
"""`threads` of a cell that does not limit them."""


@cache
def _names(framework: str) -> dict[str, Any]:
    """The constants of `names.py`; empty for a framework that has none."""
    path = FOLDER / framework / "names.py"
    return constants(path) if framework in adapters() and path.exists() else {}


def framework_name(framework: str) -> str:
    """`PyTorch` for `pytorch`; a framework without `names.py` keeps its own name."""
    return str(_names(framework).get("NAME", framework))


def mode_name(framework: str, mode: str) -> str:
    """`eager, channels last` for PyTorch's `eager_channels_last`."""
    return str(_names(framework).get("MODES", {}).get(mode, mode.replace("_", " ")))


def setting_name(factor: str, value: str, framework: str) -> str:
    """A setting of a cell in words: `batch size 64`, `2 threads`, `bf16`, `GPU`.

    Args:
        factor: a column of `results/plan.tsv`, `value` what the cell has there.
        framework: of the cell.
    """
    if factor == "framework":
        return framework_name(value)
    if factor == "mode":
        return mode_name(framework, value)
    if factor == "device":
        return value.upper()
    if factor == "threads":
        return f"{value} thread{'s' * (value != '1')}" if value else ALL_THREADS
    if factor in ("precision", "input"):
        return value
    return f"{factor.replace('_', ' ')} {value or '–'}"
