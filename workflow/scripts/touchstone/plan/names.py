"""How reports spell what a study names: frameworks, modes, devices and other settings.

What a framework and its modes are called, and which of its versions are tested, is in
`runner/adapters/<framework>/names.py`, which no run imports: a change of it repeats no run.
"""

from functools import cache
from typing import Any

from touchstone.plan.frameworks import FOLDER, adapters, constants
from touchstone.schema.spec import PINNED

ALL_THREADS = "all threads"
"""`threads` of a cell that does not limit them."""


def stack_of(framework: str, environment: str = PINNED) -> str:
    """The name of a framework in an environment: `pytorch`, and `pytorch@nightly` where that is
    not the pinned one."""
    return framework if environment == PINNED else f"{framework}@{environment}"


def parts_of(stack: str) -> tuple[str, str]:
    """The framework and the environment of `stack_of`."""
    framework, _, environment = stack.partition("@")
    return framework, environment or PINNED


@cache
def _names(framework: str) -> dict[str, Any]:
    """The constants of `names.py`; empty for a framework that has none."""
    path = FOLDER / framework / "names.py"
    return constants(path) if framework in adapters() and path.exists() else {}


def framework_name(stack: str) -> str:
    """`PyTorch` for `pytorch`, `PyTorch (nightly)` for `pytorch@nightly`; a framework without
    `names.py` keeps its own name."""
    framework, environment = parts_of(stack)
    name = str(_names(framework).get("NAME", framework))
    return name if environment == PINNED else f"{name} ({environment})"


def tested_versions(framework: str) -> tuple[str, ...]:
    """Versions that tests have trained with, the oldest first and the newest last; none where a
    framework's `names.py` has none."""
    return tuple(_names(framework).get("TESTED", ()))


def mode_name(stack: str, mode: str) -> str:
    """`eager, channels last` for PyTorch's `eager_channels_last`, in whatever environment."""
    return str(_names(parts_of(stack)[0]).get("MODES", {}).get(mode, mode.replace("_", " ")))


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
    if factor in ("precision", "input", "environment"):
        return value
    return f"{factor.replace('_', ' ')} {value or '–'}"
