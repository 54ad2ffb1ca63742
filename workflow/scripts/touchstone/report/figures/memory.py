"""Speed against memory: a point for each cell, a panel for each network."""

from collections.abc import Sequence
from statistics import geometric_mean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from touchstone.report.figures.axes import plain
from touchstone.report.figures.panels import (
    WIDTH,
    flags,
    grid,
    layout_of,
    legend,
    marker_style,
    message,
    setting,
)
from touchstone.report.figures.points import SPEED, InTurn
from touchstone.report.figures.style import panel_title
from touchstone.results.study import Cell, Study

MEMORY = {"cpu": "host_memory_peak", "gpu": "gpu_memory_peak"}
"""The metric of each device."""


def _points(cells: Sequence[Cell], in_turn: InTurn) -> list[tuple[Cell, float, float]]:
    """The cells that have both: memory, MiB, and speed, images/s."""
    points = []
    for cell in cells:
        memory = cell.values(MEMORY[cell.facet[2]])
        speeds = in_turn.get(cell.plan.name) or cell.values(SPEED)
        if memory and speeds:
            points.append((cell, median(memory), geometric_mean(speeds)))
    return points


def draw_memory(study: Study, in_turn: InTurn, most: float = WIDTH) -> Figure:
    """Speed by largest memory, a line from batch size to batch size.

    Args:
        in_turn: by cell, its speeds in the sets of turns, which take the place of its throughputs.
        most: width of the figure at most, inches; below the usual one it has a single column.
    """
    groups = {
        facet: _points([cell for cells in batches.values() for cell in cells], in_turn)
        for facet, batches in study.by_facet().items()
    }
    groups = {facet: points for facet, points in groups.items() if points}
    if not groups:
        why = study.why_empty(SPEED) or "no sensor measured the memory"
        return message(f"No run has a speed and its memory: {why}.")
    columns, width = layout_of(len(groups), most)
    figure, axes = grid(len(groups), columns, width, 2.9)
    for ax, (facet, points) in zip(axes, groups.items(), strict=True):
        ax.set_title(panel_title(facet, width / columns))
        _panel(ax, study, points)
        ax.set_xlabel(f"{'GPU' if facet[2] == 'gpu' else 'host'} memory, peak (MiB)")
    legend(figure, study, line=False)
    return figure


def _panel(ax: Axes, study: Study, points: Sequence[tuple[Cell, float, float]]) -> None:
    sized = len({cell.batch_size for cell, _, _ in points}) > 1
    for series in dict.fromkeys(cell.series for cell, _, _ in points):
        own = [(memory, speed) for cell, memory, speed in points if cell.series == series]
        ax.plot(
            *zip(*own, strict=True), linewidth=0.8, clip_on=False, **marker_style(study, series)
        )
    for cell, memory, speed in points if sized else ():
        ax.annotate(
            str(cell.batch_size), (memory, speed), (0, 5), textcoords="offset points",
            ha="center", fontsize=7,
        )  # fmt: skip
    ax.set_xlim(0, 1.08 * max(memory for _, memory, _ in points))
    ax.set_ylim(0, 1.12 * max(speed for _, _, speed in points))
    ax.set_ylabel("throughput (images/s)")
    ax.xaxis.set_major_formatter(plain)
    ax.yaxis.set_major_formatter(plain)
    ax.grid(True)


def memory_texts(study: Study, in_turn: InTurn) -> dict[str, str]:
    """Title, caption and alternative text."""
    points = _points(study.cells, in_turn)
    caption = (
        "Each point is a cell: its speed, the geometric mean of its"
        f" {'sets of turns' if in_turn else 'runs'}, by the median of its runs' largest memory."
        " Higher and further left is better."
    )
    if len({cell.batch_size for cell, _, _ in points}) > 1:
        caption += " Numbers are batch sizes."
    alt = "Scatter plot of speed by memory. "
    if points:
        least, _, _ = min(points, key=lambda point: point[1])
        alt += f"{least.series.label} at batch size {least.batch_size} has the smallest memory. "
    return {
        "title": "Speed and memory",
        "caption": f"{caption} {flags(study, rings=False)}{setting(study)}",
        "alt": alt + "The summary table holds the same numbers.",
    }
