"""What the figures of a study share: their grid of panels, legend, markers and captions."""

import textwrap
from math import ceil
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from touchstone.plan.names import framework_name
from touchstone.report.figures.axes import legend_columns
from touchstone.report.figures.style import FILLS, OTHER_MARKERS, UNPROVEN, style_of
from touchstone.results.study import Series, Study, describe_machine, machines
from touchstone.results.tables import PARITY_NOT_SHOWN, counted

INK, MUTED, GRID, GROUND = "#1A1A1A", "#5A5A5A", "#E3E3E3", "#F3F3F3"
WIDTH = 8.0  # inches; a full text column of the report
NARROW = 4.4  # inches; of a phone
LOG_FROM = 20.0  # a range of values wider than this ratio gets a logarithmic axis
MARKER = 5.5  # points
NAMED = 6  # pairs that a caption names


def marker_style(study: Study, series: Series, size: float = MARKER) -> dict[str, Any]:
    """The framework's colour, and its marker in several fillings, then other markers."""
    colour, marker = style_of(series.framework)
    marks = [(marker, fill) for fill in FILLS]
    marks += [(other, fill) for fill in FILLS for other in OTHER_MARKERS if other != marker]
    own = [s for s in study.series if s.framework == series.framework]
    marker, fill = marks[own.index(series) % len(marks)]
    return {
        "color": colour,
        "marker": marker,
        "markersize": size,
        "fillstyle": fill,
        "markeredgewidth": 0.9,
        "markerfacecoloralt": "white",
    }


def grid(panels: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with `panels` axes; `height` inches a row."""
    rows = ceil(panels / columns)
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
    figure = Figure(figsize=(width, height * rows + 0.35), layout=layout)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def layout_of(panels: int, most: float, columns: int = 2) -> tuple[int, float]:
    """How many of so many panels are in a row, and the width of the figure, inches: at most `most`,
    below the usual width with a single column."""
    columns = 1 if most < WIDTH else min(panels, columns)
    return columns, min(most, 4.4 * columns + 0.6)


def legend(figure: Figure, study: Study, line: bool) -> None:
    unproven = {cell.series for cell in study.cells if PARITY_NOT_SHOWN in cell.flags}
    labels = {s: s.label + UNPROVEN * (s in unproven) for s in study.series}
    handles = [
        Line2D([], [], linestyle="-" if line else "none", label=label, **marker_style(study, s))
        for s, label in labels.items()
    ]
    columns = legend_columns(labels.values(), figure.get_figwidth())
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, borderpad=0)


def message(text: str) -> Figure:
    """A figure that only says why there is nothing to draw."""
    figure = Figure(figsize=(6.0, 1.6))
    wrapped = "\n".join(textwrap.wrap(text, int(11 * figure.get_figwidth())))
    figure.text(0.5, 0.5, wrapped, ha="center", va="center", color=MUTED, fontsize=10)
    return figure


def flags(study: Study, rings: bool) -> str:
    """What the figure says of flags, in sentences."""
    flags = [f for run in study.runs for f in run.flags if f != PARITY_NOT_SHOWN]
    pairs = {(c.series.stack, c.facet[0]) for c in study.cells if PARITY_NOT_SHOWN in c.flags}
    text = ""
    if flags:
        mark = "A ring marks a run with a flag" if rings else "Runs drawn carry flags"
        text += f"{mark} ({counted(flags)}). "
    if pairs:
        names = [f"{framework_name(name)} on {network}" for name, network in sorted(pairs)]
        more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        text += f"{UNPROVEN.strip()}: equal computation is not shown"
        text += f" ({', '.join(names[:NAMED] + more)}). "
    return text


def setting(study: Study) -> str:
    """How many runs on which machine, in a sentence."""
    if not study.cells:
        return ""
    repeats = sorted({cell.plan.repeats for cell in study.cells})
    n = f"n = {repeats[0]}" if len(repeats) == 1 else f"n = {repeats[0]} to {repeats[-1]}"
    runs = "run" if repeats == [1] else "runs"
    return f"{n} {runs} per cell, each a fresh process. {place(study)}"


def place(study: Study) -> str:
    """The machines, in a sentence."""
    return f"Machine: {'; '.join(describe_machine(machine) for machine in machines(study))}."
