"""Speed-up and efficiency of training with several replicas."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from touchstone.analysis.findings_model import Scaling
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.scaling import MAY_DIFFER_FROM_BASELINE, scalings
from touchstone.plan.names import framework_name
from touchstone.report.figures.axes import legend_columns
from touchstone.report.figures.panels import GRID, INK, grid, message
from touchstone.report.figures.style import FILLS, panel_title, style_of
from touchstone.results.study import Cell, Study, describe_machine, machines

PANELS, ACROSS = 12, 3
"""Panels that the figure draws at most, and in a row."""


class Point(NamedTuple):
    """A speed-up with its cell."""

    cell: Cell
    scaling: Scaling
    speedup: RatioEstimate


def _points(study: Study) -> list[Point]:
    """The speed-ups that there are, in order of the plan."""
    cells = {cell.plan.name: cell for cell in study.cells}
    return [
        Point(cells[scaling.cell], scaling, scaling.speedup)
        for scaling in scalings(study)
        if scaling.speedup
    ]


def _label(point: Point, sized: bool) -> str:
    """What distinguishes the line of a point from others of its panel; `sized`: by batch size
    too."""
    series = point.cell.series
    own = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in zip(series.factors, series.values, strict=True)
        if name not in MAY_DIFFER_FROM_BASELINE
    ]
    parts = [f"batch size {point.cell.batch_size}"] * sized + own
    parts += [f"{point.scaling.nodes} nodes"] * (point.scaling.nodes > 1)
    if point.cell.facet[2] == "cpu":
        parts.append(
            "own cores" if point.scaling.resources == point.scaling.world_size else "the same cores"
        )
    name = framework_name(series.stack)
    return f"{name} ({', '.join(parts)})" if parts else name


def _sized(points: Iterable[Point]) -> bool:
    """Whether the batch size distinguishes lines."""
    return len({point.cell.batch_size for point in points}) > 1


def draw(study: Study) -> Figure:
    """Speed-up by replicas with its 95 % interval; dashed, the resources that they had."""
    points = _points(study)
    if not points:
        return message("No cell of several replicas has a speed next to that of one replica.")
    panels: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        panels.setdefault((*point.cell.facet, f"{point.scaling.kind} scaling"), []).append(point)
    shown = list(panels.items())[:PANELS]
    columns = min(len(shown), ACROSS)
    width = max(2.9 * columns, 6.0)  # inches
    figure, axes = grid(len(shown), columns, width, 3.0)
    handles: dict[str, Any] = {}
    for ax, (place, members) in zip(axes, shown, strict=False):
        facet = panel_title(place[:-1], width / columns)
        ax.set_title(f"{facet}\n{place[-1]}")
        _draw_panel(ax, members, _sized(points), handles)
    figure.legend(
        handles=list(handles.values()), labels=list(handles), loc="outside upper left",
        ncols=legend_columns(handles, width), borderpad=0,
    )  # fmt: skip
    return figure


def _ends(speedup: RatioEstimate) -> tuple[float, float]:
    """The interval, or the value twice where there is none."""
    low, high = speedup.low, speedup.high
    return (speedup.value,) * 2 if low is None or high is None else (low, high)


def _draw_panel(
    ax: Axes,
    points: Sequence[Point],
    sized: bool,
    handles: dict[str, Any],
) -> None:
    """One line for each framework and setting, which begins at one replica; fills `handles`."""
    by_line: dict[str, list[Point]] = {}
    for point in points:
        by_line.setdefault(_label(point, sized), []).append(point)
    line_frameworks: list[str] = []
    for label, members in by_line.items():
        members.sort(key=lambda point: point.scaling.world_size)
        framework = members[0].cell.series.framework
        colour, marker = style_of(framework)
        fill = FILLS[line_frameworks.count(framework) % len(FILLS)]
        line_frameworks.append(framework)
        replicas = [1, *(point.scaling.world_size for point in members)]
        ax.plot(
            replicas, [1, *(point.scaling.resources for point in members)],
            linestyle="--", linewidth=0.8, color=INK, zorder=1,
        )  # fmt: skip
        values = [1.0, *(point.speedup.value for point in members)]
        ends = [
            (1.0, 1.0),
            *(_ends(point.speedup) for point in members),
        ]
        spread = [
            [value - low for value, (low, _) in zip(values, ends, strict=True)],
            [high - value for value, (_, high) in zip(values, ends, strict=True)],
        ]
        handles[label] = ax.errorbar(
            replicas, values, spread, color=colour, marker=marker, markersize=5,
            capsize=3, linewidth=1.2, fillstyle=fill,
        )  # fmt: skip
    # The limits follow the values, which wide intervals would make invisible.
    most = max(max(point.speedup.value, point.scaling.resources) for point in points)
    ax.set_ylim(0, 1.4 * most)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("replicas")
    ax.set_ylabel("speed-up")
    ax.grid(True, color=GRID)


def texts(study: Study) -> dict[str, str]:
    """Title, caption and alternative text of the figure."""
    points = _points(study)
    best = max(points, key=lambda point: point.scaling.efficiency or 0, default=None)
    best_text = ""
    if best:
        scaling = best.scaling
        best_text = (
            f"The highest efficiency is {scaling.efficiency:.2f}: {_label(best, _sized(points))}"
            f" with {scaling.world_size} replicas ({scaling.kind} scaling). "
        )
    where = "; ".join(describe_machine(machine) for machine in machines(study))
    return {
        "title": "Speed-up by replicas",
        "caption": "Throughput / that of the cell that one replica trains, the geometric mean"
        " over blocks with its 95 % interval. Strong scaling keeps the batch of all replicas, weak"
        " scaling that of each. The dashed line is what their devices or cores would give if"
        f" nothing were lost; a wide interval is cut off. Machine: {where}.",
        "alt": f"Line plot of speed-up by replicas. {best_text}The table of scaling holds the same"
        " numbers.",
    }
