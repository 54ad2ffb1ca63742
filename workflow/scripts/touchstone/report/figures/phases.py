"""Where the time of a run goes: a bar for each cell, its phases in line."""

from statistics import median

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from touchstone.report.figures.axes import legend_columns, plain
from touchstone.report.figures.panels import INK, flags, message, setting
from touchstone.report.figures.style import machine_styles
from touchstone.results.phases import PHASES
from touchstone.results.study import Cell, Study
from touchstone.schema.status import OK

BARS = 24
"""Cells that the figure draws at most."""
WIDTH = 6.2  # inches; half of the page
BAR, HEAD = 0.24, 1.1
"""Heights, inches: of a bar with its room, and of axis and legend."""


def _seconds(cell: Cell) -> dict[str, float]:
    """The median time of each phase over the runs that are ok, s."""
    ok = [run.phases for run in cell.runs if run.status == OK]
    return {
        name: median(seconds)
        for name in PHASES
        if (seconds := [phases[name] for phases in ok if name in phases])
    }


def _names(study: Study) -> dict[str, str]:
    """By cell, its series and what else tells it apart: network, data set, device, batch size."""
    places = [(*cell.facet, f"batch size {cell.batch_size}") for cell in study.cells]
    differing = [i for i in range(4) if len({place[i] for place in places}) > 1]
    return {
        cell.plan.name: ", ".join([cell.series.label, *(place[i] for i in differing)])
        for cell, place in zip(study.cells, places, strict=True)
    }


def draw_phases(study: Study, most: float = WIDTH) -> Figure:
    """Stacked horizontal bars of seconds; `most` is the width of the figure, inches."""
    by_cell = {cell.plan.name: _seconds(cell) for cell in study.cells}
    shown = [name for name, seconds in by_cell.items() if seconds][:BARS]
    if not shown:
        return message(f"No run finished: {study.why_empty('throughput')}.")
    phases = [name for name in PHASES if any(name in by_cell[cell] for cell in shown)]
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
    figure = Figure(figsize=(most, BAR * len(shown) + HEAD), layout=layout)
    ax = figure.subplots()
    lefts = [0.0] * len(shown)
    for phase, (colour, _) in zip(phases, machine_styles(len(phases)), strict=True):
        widths = [by_cell[cell].get(phase, 0.0) for cell in shown]
        ax.barh(range(len(shown)), widths, 0.7, lefts, color=colour, edgecolor=INK, linewidth=0.5)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    names = _names(study)
    ax.set_yticks(range(len(shown)), [names[cell] for cell in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("seconds of a run")
    ax.xaxis.set_major_formatter(plain)
    ax.grid(axis="x")
    styles = zip(phases, machine_styles(len(phases)), strict=True)
    handles = [
        Patch(facecolor=colour, edgecolor=INK, linewidth=0.5, label=name.replace("_", " "))
        for name, (colour, _) in styles
    ]
    columns = legend_columns(phases, most)
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, borderpad=0)
    return figure


def phases_texts(study: Study) -> dict[str, str]:
    """Title, caption and alternative text."""
    total = sum(bool(_seconds(cell)) for cell in study.cells)
    some = f" The first {BARS} of {total} cells are drawn." if total > BARS else ""
    return {
        "title": "Where the time of a run goes",
        "caption": "Median seconds of each phase over the runs that are ok, from the import of the"
        " framework on. Only the measured phase, whose length the study sets, enters the"
        f" throughput.{some} {flags(study, rings=False)}{setting(study)}",
        "alt": "Stacked horizontal bars of seconds by phase and configuration. The table of phases"
        " holds the same numbers.",
    }
