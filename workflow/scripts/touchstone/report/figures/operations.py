"""The basic operations of a study: their rates, what they reach of the measured peak, a figure."""

from collections.abc import Iterable
from math import log10
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from touchstone.analysis.peaks import peaks, place_of
from touchstone.plan.names import framework_name
from touchstone.report.figures.axes import plain
from touchstone.report.figures.panels import GRID, INK
from touchstone.report.figures.style import style_of
from touchstone.results.study import Cell, Study, describe_machine, machines

CHARACTER = 0.06, 0.12
"""About the width and the height that a character of a name takes, in inches."""
AXES = 7.2, 2.6
"""About the width and the height of axes, in inches."""


def _intensity(cell: Cell) -> float | None:
    """Floating-point operations per byte; the same in all runs."""
    rates = list(zip(cell.values("flop_rate"), cell.values("memory_rate"), strict=True))
    return rates[0][0] / rates[0][1] if rates and rates[0][0] else None


def draw(study: Study) -> Figure:
    """A roofline: GFLOP/s of every run by operations per byte, under what was measured at best.

    Williams, Waterman and Patterson 2009, doi 10.1145/1498765.1498785.
    """
    places = peaks(study)
    figure = Figure(
        figsize=(8.0, 3.4 * len(places) + 0.4),
        layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06),
    )
    axes = figure.subplots(len(places), 1, squeeze=False)[:, 0]
    for ax, (at, peak) in zip(axes, places.items(), strict=True):
        cells = [cell for cell in study.cells if place_of(cell) == at]
        placed = [(x, cell) for cell in cells if (x := _intensity(cell))]
        for x, cell in placed:
            colour, marker = style_of(cell.series.framework)
            rates = cell.values("flop_rate")
            ax.plot([x] * len(rates), rates, marker, color=colour, markersize=5, alpha=0.85)
        ends = [
            min((x for x, _ in placed), default=0.1) / 2,
            max((x for x, _ in placed), default=1) * 2,
        ]
        if peak.flop_rate:
            edge = peak.flop_rate / peak.memory_rate if peak.memory_rate else ends[0]
            ax.plot([max(edge, ends[0]), ends[1]], [peak.flop_rate] * 2, color=INK, lw=1)
            if peak.memory_rate and edge > ends[0]:
                slope = [ends[0] * peak.memory_rate, min(edge, ends[1]) * peak.memory_rate]
                ax.plot([ends[0], min(edge, ends[1])], slope, color=INK, lw=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(*ends)
        ax.margins(y=0.35)  # room for the names
        _name(ax, placed)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(plain)
            axis.set_minor_locator(NullLocator())
        ax.set_title(f"on the {at.label}")
        ax.set_xlabel("floating-point operations per byte, log scale")
        ax.set_ylabel("GFLOP/s, log scale")
        ax.grid(True, color=GRID)
    used = dict.fromkeys(c.series.stack for c in study.cells if _intensity(c))
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            label=framework_name(name),
            color=style_of(name)[0],
            marker=style_of(name)[1],
        )  # fmt: skip
        for name in used
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), borderpad=0)
    return figure


def _name(ax: Any, placed: Iterable[tuple[float, Cell]]) -> None:
    """Write the operations' names above their highest points; those that would overlap share a
    place."""
    decades = [log10(high / low) for low, high in (ax.get_xlim(), ax.get_ylim())]
    inches = [length / max(span, 0.1) for length, span in zip(AXES, decades, strict=True)]
    labels: list[tuple[float, float, list[str]]] = []
    for x, cell in sorted(placed, key=lambda pair: pair[0]):
        name, y = cell.facet[0].replace("_", " "), max(cell.values("flop_rate"))
        for place, (other_x, other_y, names) in enumerate(labels):
            wide = CHARACTER[0] * max(len(text) for text in (*names, name))
            high = CHARACTER[1] * (len(names) + 1)
            apart = abs(log10(x / other_x)) * inches[0], abs(log10(y / other_y)) * inches[1]
            if apart[0] < wide and apart[1] < high:
                labels[place] = (other_x, max(y, other_y), list(dict.fromkeys([*names, name])))
                break
        else:
            labels.append((x, y, [name]))
    for x, y, names in labels:
        ax.annotate(
            "\n".join(names), (x, y), xytext=(0, 6), color=INK, fontsize=7,
            textcoords="offset points", ha="center", va="bottom",
        )  # fmt: skip


def texts(study: Study) -> dict[str, str]:
    """Title, caption and alternative text of the figure."""
    where = "; ".join(describe_machine(machine) for machine in machines(study))
    roof = [
        f"{peak.flop_rate:,.0f} GFLOP/s"
        f"{f' and {peak.memory_rate:,.1f} GB/s' if peak.memory_rate else ''} on the {at.label}"
        for at, peak in peaks(study).items()
        if peak.flop_rate
    ]
    limits = f" The line is the best that was measured: {'; '.join(roof)}." if roof else ""
    return {
        "title": "Basic operations",
        "caption": "GFLOP/s by the operations for each byte that must be moved at least; each point"
        f" is one run.{limits} A copy has no arithmetic and is only in the table."
        f" Machine: {where}.",
        "alt": "Scatter plot of floating-point rates of basic operations under a roofline. The"
        " table of basic operations holds the same numbers.",
    }
