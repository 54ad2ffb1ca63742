"""The words and numbers of the report."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from touchstone.report.figures.style import style_of
from touchstone.statistics.intervals import Ratio

FEW = 3
"""Different values of a setting that are all told."""
PROVEN = ("forward", "gradients")
"""The kinds of deviation that the table of proof shows beside the closest one."""


def number(value: float | None, digits: int = 4) -> str:
    """A number with about `digits` significant digits, never with a bare exponent in prose."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # after rounding: 9.9996 is 10.00
    decimals = digits - 1 - exponent
    return f"{round(value, decimals):,.{max(decimals, 0)}f}" if decimals < 9 else f"{value:.3g}"


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def ratio_text(value: float) -> str:
    """A ratio with two decimals, or three where two would hide it."""
    return f"{value:.2f}" if value >= 1.01 else f"{value:.3f}"


def interval_text(ratio: Ratio) -> str:
    """The 95 % interval of a ratio, `[1.70, 2.21]`."""
    interval = ratio.interval()
    return "[{:.2f}, {:.2f}]".format(*interval) if interval else ""


def setting(value: Any) -> str:
    """A setting as text; a float at the 7 digits that float32 can hold."""
    if value is None:
        return "–"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def dot(framework: str) -> Markup:
    """A dot in the framework's colour; the name always stands beside it."""
    colour, _ = style_of(framework)
    html = Markup('<span class="dot" style="background:{}" aria-hidden="true"></span>')
    return html.format(colour)
