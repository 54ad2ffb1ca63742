"""What the axes and legends of all figures have in common."""

from collections.abc import Collection

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

DENSE = 300.0
"""Up to this ratio of its ends a logarithmic axis has ticks at 1, 2 and 5, else only at 1."""
LETTERS, MARK = 11, 7
"""Letters of a legend that go into an inch, and how many of them a mark takes."""


def plain(value: float, _: float) -> str:
    """A tick's number, without an exponent or an offset."""
    return f"{value:,.10g}"


def spell(ax: Axes) -> None:
    """Spell out the numbers of the y axis, whose scale and limits are set."""
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < DENSE else (1,)))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(plain)


def legend_columns(labels: Collection[str], inches: float) -> int:
    """How many columns a legend of these labels may have in so wide a figure."""
    room = LETTERS * inches
    if sum(len(label) + MARK for label in labels) <= room:
        return len(labels)
    return max(1, min(len(labels), int(room / (max(map(len, labels)) + MARK))))
