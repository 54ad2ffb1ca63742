"""The page's chart as a file: its first state, from the same rows."""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from touchstone.report.figures.panels import GRID, INK, MUTED, message
from touchstone.report.sections.strip import Chart, Strip

WIDTH = 9.0
ROW, HEAD = 0.3, 1.0
"""Heights, inches: of a configuration, and of a chart's heading with its axis."""
NAME, NOTE = 30, 100
"""Characters of a line of a name, and of the note below a chart."""
VALUE, AGAINST = 1.11, 1.14
"""Where the numbers end and the relative ones begin, as multiples of the axis."""


def draw(strips: Sequence[Strip], where: str) -> Figure:
    """The charts of the comparisons that the page draws, a row for each configuration.

    Args:
        where: the machines, in a sentence.
    """
    if not strips:
        return message("No two configurations with a speed do the same work.")
    heights = [HEAD + ROW * len(strip.charts[0].rows) for strip in strips]
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08)
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.25), layout=layout)
    axes = figure.subplots(len(strips), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for ax, strip in zip(axes[:, 0], strips, strict=True):
        ax.set_title(strip.heading)
        _panel(ax, strip.charts[0])
    figure.supxlabel("\n".join(textwrap.wrap(where, NOTE)), x=0.01, ha="left", fontsize=8)
    return figure


def _panel(ax: Axes, chart: Chart) -> None:
    """A chart as `strip.html.j2` draws it: places are shares of the axis."""
    baseline = chart.rows[0]
    ax.axvline(_share(baseline.middle), color=INK, linewidth=1, linestyle=(0, (3, 3)), zorder=1)
    for y, row in enumerate(chart.rows):
        ax.axhline(y, color=GRID, linewidth=0.7, zorder=0)
        text, low, high, cut = row.against.get(baseline.name, ("–", "", "", False))
        if low:
            ends = [_share(low), _share(high)]
            caps = ends[:1] if cut else ends
            ax.plot(ends, [y, y], color=INK, linewidth=1.4, zorder=2)
            ax.plot(caps, [y] * len(caps), "|", color=INK, markersize=8, zorder=2)
        ax.plot(
            [_share(dot) for dot in row.dots], [y] * len(row.dots), "o", color=row.colour,
            markersize=6, markeredgecolor=INK, markeredgewidth=0.6, clip_on=False, zorder=3,
        )  # fmt: skip
        numbers = {VALUE: (row.value, "right"), AGAINST: (text, "left")}
        for x, (number, side) in numbers.items():
            ax.text(x, y, number, transform=ax.get_yaxis_transform(), ha=side, va="center")
    names = ["\n".join(textwrap.wrap(row.name, NAME)) for row in chart.rows]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xticks([_share(place) for place, _ in chart.ticks], [text for _, text in chart.ticks])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for x, text, side in ((VALUE, chart.unit, "right"), (AGAINST, "relative", "left")):
        ax.annotate(
            text, (x, 0), (0, -4), xycoords="axes fraction", textcoords="offset points", ha=side,
            va="top", color=MUTED,
        )  # fmt: skip
    ax.set_xlabel("\n".join(textwrap.wrap(chart.note, NOTE)), loc="left", color=MUTED, fontsize=8)


def _share(place: str) -> float:
    """A place on the axis, `12.50%`, as a share of its length."""
    return float(place.removesuffix("%")) / 100
