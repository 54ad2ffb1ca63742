"""How reports spell what a study names: frameworks, modes, devices and other settings.

What a framework and its modes are called, and which of its versions are tested, is in
`runner/adapters/<framework>/names.py`, which no run imports: a change of it repeats no run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from touchstone.plan.frameworks import FOLDER, adapters, constants
from touchstone.schema.spec import PINNED, TUNED

BEST = "best"
"""The mode that tries modes, threads and waiting, and takes the fastest."""
ALL_THREADS = "all threads"
"""`threads` of a cell that does not limit them."""


class Stack(NamedTuple):
    """What computes: a framework, in an environment and a style.

    As text it is `pytorch`, `pytorch+plain` in the style `plain`, and `pytorch@nightly` in an
    environment that is not the pinned one.
    """

    framework: str
    environment: str = PINNED
    style: str = TUNED

    @classmethod
    def of(cls, text: str) -> Stack:
        """The stack of a text."""
        named, _, environment = text.partition("@")
        framework, _, style = named.partition("+")
        return cls(framework, environment or PINNED, style or TUNED)

    def __str__(self) -> str:
        style = "" if self.style == TUNED else f"+{self.style}"
        environment = "" if self.environment == PINNED else f"@{self.environment}"
        return f"{self.framework}{style}{environment}"

    @property
    def variant(self) -> list[str]:
        """The style and the environment, where they are not the usual ones."""
        unusual = (self.style, TUNED), (self.environment, PINNED)
        return [name for name, usual in unusual if name != usual]


def stack_of(factors: Mapping[str, Any]) -> str:
    """The stack of a cell, as text; `factors` are the columns of a row of `plan.tsv`, in which
    operations have no style."""
    return str(Stack(factors["framework"], factors["environment"], factors["style"] or TUNED))


@cache
def _names(framework: str) -> dict[str, Any]:
    """The constants of `names.py`; empty for a framework that has none."""
    path = FOLDER / framework / "names.py"
    return constants(path) if framework in adapters() and path.exists() else {}


def framework_name(stack: str) -> str:
    """`PyTorch` for `pytorch`, `PyTorch (plain)` for `pytorch+plain`, `PyTorch (nightly)` for
    `pytorch@nightly`; a framework without `names.py` keeps its own name."""
    parts = Stack.of(stack)
    name = str(_names(parts.framework).get("NAME", parts.framework))
    return f"{name} ({', '.join(parts.variant)})" if parts.variant else name


def tested_versions(framework: str) -> tuple[str, ...]:
    """Versions that tests have trained with, the oldest first and the newest last; none where a
    framework's `names.py` has none."""
    return tuple(_names(framework).get("TESTED", ()))


def mode_name(stack: str, mode: str) -> str:
    """`eager, channels last` for PyTorch's `eager_channels_last`, in whatever environment."""
    return str(_names(Stack.of(stack).framework).get("MODES", {}).get(mode, mode.replace("_", " ")))


def setting_name(factor: str, value: str, framework: str) -> str:
    """A setting of a cell in words: `batch size 64`, `2 threads`, `bf16`, `GPU`, `no flip`.

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
    if factor == "program":
        return value
    if factor == "threads":
        return f"{value} thread{'s' * (value != '1')}" if value else ALL_THREADS
    if factor in ("precision", "environment", "style"):
        return value
    if factor == "input":
        return "synthetic input" if value == "synthetic" else f"input from {value}"
    if factor == "steps" and not value:
        return "all steps"
    words = factor.replace("_", " ")
    if value == "True":
        return words
    if value in ("", "False"):
        return f"{'not' if factor == 'deterministic' else 'no'} {words}"
    return f"{words} {value}"
