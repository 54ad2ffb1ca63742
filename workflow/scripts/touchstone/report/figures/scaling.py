"""Speed-up and efficiency of training with several replicas."""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from touchstone.analysis.scaling import FREE, Scaled, scaled
from touchstone.plan.names import framework_name
from touchstone.report.figures.axes import legend_columns
from touchstone.report.figures.style import FILLS, panel_title, style_of
from touchstone.results.study import Study, describe_machine, machines

PANELS, ACROSS = 12, 3
"""Panels that the figure draws at most, and in a row."""


def _label(row: Scaled, sized: bool) -> str:
    """What distinguishes the line of a row from others of its panel; `sized`: by batch size too."""
    series = row.cell.series
    own = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in zip(series.factors, series.values, strict=True)
        if name not in FREE
    ]
    parts = [f"batch size {row.cell.batch_size}"] * sized + own
    parts += [f"{row.nodes} nodes"] * (row.nodes > 1)
    if row.cell.facet[2] == "cpu":
        parts.append("own cores" if row.resources == row.world_size else "the same cores")
    name = framework_name(series.stack)
    return f"{name} ({', '.join(parts)})" if parts else name


def _sized(rows: Iterable[Scaled]) -> bool:
    """Whether the batch size distinguishes lines."""
    return len({row.cell.batch_size for row in rows}) > 1


def draw(study: Study, colours: dict[str, str]) -> Figure:
    """Speed-up by replicas with its 95 % interval; dashed, the resources that they had.

    `colours` are of the ink and of lines.
    """
    rows = [row for row in scaled(study) if row.speedup]
    if not rows:
        figure = Figure(figsize=(6.0, 1.6))
        text = "No cell of several replicas has a speed next to one that one replica trains."
        figure.text(0.5, 0.5, text, ha="center", va="center", color=colours["ink"])
        return figure
    panels: dict[tuple[str, ...], list[Scaled]] = {}
    for row in rows:
        panels.setdefault((*row.cell.facet, f"{row.kind} scaling"), []).append(row)
    shown = list(panels.items())[:PANELS]
    columns = min(len(shown), ACROSS)
    lines = ceil(len(shown) / columns)
    width = max(2.9 * columns, 6.0)  # inches
    figure = Figure(
        figsize=(width, 3.0 * lines + 0.5),
        layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06),
    )
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for unused in axes[len(shown) :]:
        unused.set_visible(False)
    handles: dict[str, Any] = {}
    for ax, (place, members) in zip(axes, shown, strict=False):
        facet = panel_title(place[:-1], width / columns)
        ax.set_title(f"{facet}\n{place[-1]}")
        _draw_panel(ax, members, _sized(rows), handles, colours)
    figure.legend(
        handles=list(handles.values()), labels=list(handles), loc="outside upper left",
        ncols=legend_columns(handles, width), borderpad=0,
    )  # fmt: skip
    return figure


def _draw_panel(
    ax: Axes,
    rows: Sequence[Scaled],
    sized: bool,
    handles: dict[str, Any],
    colours: dict[str, str],
) -> None:
    """One line for each framework and setting, which begins at one replica; fills `handles`."""
    by_line: dict[str, list[Scaled]] = {}
    for row in rows:
        by_line.setdefault(_label(row, sized), []).append(row)
    line_frameworks: list[str] = []
    for label, members in by_line.items():
        members.sort(key=lambda row: row.world_size)
        framework = members[0].cell.series.framework
        colour, marker = style_of(framework)
        fill = FILLS[line_frameworks.count(framework) % len(FILLS)]
        line_frameworks.append(framework)
        ax.plot(
            [1, *(row.world_size for row in members)], [1, *(row.resources for row in members)],
            linestyle="--", linewidth=0.8, color=colours["ink"], zorder=1,
        )  # fmt: skip
        values = [1.0, *(row.speedup.value for row in members if row.speedup)]
        ends = [
            (1.0, 1.0),
            *(row.interval or (v, v) for row, v in zip(members, values[1:], strict=True)),
        ]
        spread = [
            [value - low for value, (low, _) in zip(values, ends, strict=True)],
            [high - value for value, (_, high) in zip(values, ends, strict=True)],
        ]
        handles[label] = ax.errorbar(
            [1, *(row.world_size for row in members)], values, spread, color=colour, marker=marker,
            markersize=5, capsize=3, linewidth=1.2, fillstyle=fill,
        )  # fmt: skip
    # The limits follow the values, which wide intervals would make invisible.
    most = max(max(row.speedup.value, row.resources) for row in rows if row.speedup)
    ax.set_ylim(0, 1.4 * most)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("replicas")
    ax.set_ylabel("speed-up")
    ax.grid(True, color=colours["grid"])


def texts(study: Study) -> dict[str, str]:
    """Title, caption and alternative text of the figure."""
    rows = [row for row in scaled(study) if row.speedup]
    best = max(rows, key=lambda row: row.efficiency or 0, default=None)
    best_text = ""
    if best and best.speedup:
        best_text = (
            f"The highest efficiency is {best.efficiency:.2f}: {_label(best, _sized(rows))} with"
            f" {best.world_size} replicas ({best.kind} scaling). "
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
