"""Where the time of a step goes: a bar for each layer and cell, forward and backward in line."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from touchstone.analysis.profile_model import LayerProfile
from touchstone.report.figures.axes import legend_columns, plain
from touchstone.report.figures.panels import GRID, INK, WIDTH
from touchstone.report.figures.style import HATCHES, panel_title, style_of
from touchstone.results.study import Cell, Study, describe_machine, machines
from touchstone.schema.status import OK

PANELS, LAYERS = 6, 30
"""What the figure draws at most: groups of cells, and of each the layers that take most time."""
BAR, GAP, HEAD = 0.13, 0.09, 0.75
"""Heights, inches: of a cell's bar, of the room between layers, of a panel's title and axis."""
LIGHT = 0.45
"""Opacity of the backward part of a bar."""


def measured(profiles: Sequence[LayerProfile]) -> list[LayerProfile]:
    """The groups in which a cell has numbers, as many as are drawn."""
    return [group for group in profiles if any(cell.status == OK for cell in group.cells)][:PANELS]


def draw(study: Study, profiles: Sequence[LayerProfile]) -> Figure:
    """Stacked horizontal bars, ms of a step."""
    groups = measured(profiles)
    cells = {cell.plan.name: cell for cell in study.cells}
    heights = [_height(group) for group in groups] or [1.5]
    layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06)
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.5), layout=layout)
    if not groups:
        figure.text(0.5, 0.5, "no cell has a profile", ha="center", va="center")
        return figure
    axes = figure.subplots(len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[
        :, 0
    ]
    hatches = _hatches(groups, cells)
    for ax, group in zip(axes, groups, strict=True):
        _panel(ax, group, cells, hatches)
    handles = [
        Patch(facecolor=style_of(cells[name].series.stack)[0], hatch=hatch, edgecolor="white",
              label=_label(cells[name]))
        for name, hatch in hatches.items()
    ]  # fmt: skip
    handles += [
        Patch(facecolor=INK, label="forward"),
        Patch(facecolor=INK, alpha=LIGHT, label="backward"),
    ]
    labels = {str(handle.get_label()): handle for handle in handles}
    columns = legend_columns(labels, WIDTH)
    figure.legend(handles=labels.values(), loc="outside upper left", ncols=columns, borderpad=0)
    return figure


def _height(group: LayerProfile) -> float:
    return HEAD + sum(len(times) * BAR + GAP for _, times in _lines(group))


def _label(cell: Cell) -> str:
    return cell.series.label


def _hatches(groups: Sequence[LayerProfile], cells: dict[str, Cell]) -> dict[str, str]:
    """By cell, a hatch that tells it from other ones of its framework in a group."""
    hatches: dict[str, str] = {}
    for group in groups:
        seen: dict[str, int] = {}
        for cell in group.cells:
            framework = cells[cell.cell].series.framework
            if cell.status == OK:
                hatches[cell.cell] = HATCHES[seen.get(framework, 0) % len(HATCHES)]
                seen[framework] = seen.get(framework, 0) + 1
    return hatches


def _lines(group: LayerProfile) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """Names of layers, with the seconds forward and backward by cell; last what is no layer's."""
    lines = []
    for row in group.rows:
        times = {
            cell: (time.forward or 0.0, time.backward or 0.0) for cell, time in row.seconds.items()
        }
        lines.append((" + ".join(row.layers), times))
    longest = sorted(lines, key=lambda line: -max(sum(pair) for pair in line[1].values()))[:LAYERS]
    other = {cell.cell: (cell.other, 0.0) for cell in group.cells if cell.other is not None}
    return [line for line in lines if line in longest] + [("other", other)]


def _panel(
    ax: Any,
    group: LayerProfile,
    cells: dict[str, Cell],
    hatches: dict[str, str],
) -> None:
    """The bars of one group of cells."""
    names = [cell.cell for cell in group.cells if cell.status == OK]
    top, ticks = 0.0, []
    for _, times in _lines(group):
        own = [name for name in names if name in times]
        ticks.append(top + len(own) * BAR / 2)
        for number, name in enumerate(own):
            forward, backward = (1000 * seconds for seconds in times[name])
            style = {
                "height": BAR * 0.9, "color": style_of(cells[name].series.stack)[0],
                "hatch": hatches[name], "edgecolor": "white", "linewidth": 0,
            }  # fmt: skip
            y = top + (number + 0.5) * BAR
            ax.barh(y, forward, **style)
            ax.barh(y, backward, left=forward, alpha=LIGHT, **style)
        top += len(own) * BAR + GAP
    ax.set_yticks(ticks, [name for name, _ in _lines(group)])
    ax.set_ylim(top, -GAP)
    ax.margins(x=0.02)
    ax.tick_params(axis="y", length=0)
    first = cells[names[0]]
    network, dataset, device = first.facet
    parts = (network, dataset, device.upper(), f"batch size {first.batch_size}")
    ax.set_title(panel_title(parts, WIDTH))
    ax.set_xlabel("ms of a step")
    ax.xaxis.set_major_formatter(plain)
    ax.grid(True, axis="x", color=GRID)


def texts(study: Study, profiles: Sequence[LayerProfile]) -> dict[str, str]:
    """Title, caption and alternative text of the figure."""
    where = "; ".join(describe_machine(machine) for machine in machines(study))
    most = max((len(group.rows) for group in measured(profiles)), default=0)
    some = f" The {LAYERS} longest layers are drawn." if most > LAYERS else ""
    if len(profiles) > PANELS:
        some += f" The first {PANELS} of {len(profiles)} groups are drawn."
    return {
        "title": "Time of each layer",
        "caption": "Time of a training step in each layer, by each framework's own profiler: the"
        " forward pass in full colour, the backward pass in light colour. Layers with a plus are"
        " computed in one operation. Other: the input, the loss, the update and waiting."
        f"{some} Machine: {where}.",
        "alt": "Horizontal bars of the time of each layer of the network, in milliseconds of a"
        " step, by framework. The table of layers holds the same numbers.",
    }
