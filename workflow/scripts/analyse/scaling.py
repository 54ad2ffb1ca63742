"""How training speed grows with the replicas: a table and a figure of speed-up and efficiency."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from analyse.axes import legend_columns
from analyse.statistics import TOO_FEW, Ratio, paired_ratio
from analyse.study import Cell, Study, describe_machine, machines
from analyse.style import FILLS, panel_title, style_of
from analyse.tables import FACTORS, counted

FREE = ("nodes", "replicas", "batch_split", "threads")
"""The factors in which a cell of several replicas may differ from the one that trains alone."""
STRONG, WEAK = "strong", "weak"
COLUMNS = (
    *FACTORS,
    *("scaling", "nodes", "replicas", "resources", "cell", "reference_cell"),
    *("throughput", "reference_throughput", "n", "speedup", "low", "high"),
    *("efficiency", "efficiency_low", "efficiency_high", "verdict", "indicative"),
    *("reason", "flags", "reference_flags"),
)
PANELS, ACROSS = 12, 3
"""Panels that the figure draws at most, and in a row."""


@dataclass(frozen=True)
class Scaled:
    """A cell of several replicas, and the cell that trains the same alone.

    `resources` is how many times the devices, or on the CPU the threads, of the one alone it has:
    the speed-up that nothing lost in exchanging gradients would leave.
    """

    cell: Cell
    alone: Cell
    resources: int

    @property
    def nodes(self) -> int:
        return _count(self.cell, "nodes")

    @property
    def replicas(self) -> int:
        """Those of a node."""
        return _count(self.cell, "replicas")

    @property
    def world_size(self) -> int:
        """The replicas of all nodes."""
        return _world_size(self.cell)

    @property
    def kind(self) -> str:
        """`strong`: the batch of all replicas stays the same; `weak`: that of each does."""
        return WEAK if self.cell.plan.factors["batch_split"] == "per_replica" else STRONG

    @cached_property
    def speedup(self) -> Ratio | None:
        """Throughput / that of the one alone, within blocks; None where no block has both."""
        return paired_ratio(self.cell.by_block("throughput"), self.alone.by_block("throughput"))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the speed-up."""
        return self.speedup.interval() if self.speedup else None

    @property
    def efficiency(self) -> float | None:
        """Speed-up / resources."""
        return self.speedup.value / self.resources if self.speedup else None

    @property
    def efficiency_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the efficiency."""
        if self.interval is None:
            return None
        low, high = self.interval
        return low / self.resources, high / self.resources

    @property
    def verdict(self) -> str:
        """`faster`, `slower` than the one alone, or that nothing was shown."""
        return self.speedup.verdict("throughput") if self.speedup else TOO_FEW

    @property
    def reason(self) -> str:
        """Why there is no speed-up."""
        if self.speedup:
            return ""
        words = {cell.plan.name: cell.words("throughput") for cell in (self.cell, self.alone)}
        told = "; ".join(f"{name}: {', '.join(word)}" for name, word in words.items() if word)
        return told or "no block has both"


def has_replicas(study: Study) -> bool:
    """Whether a cell of the study is trained by several replicas."""
    return any(_world_size(cell) > 1 for cell in study.cells)


def scaled(study: Study) -> list[Scaled]:
    """The cells of several replicas beside those that train the same alone, in order of the plan.

    All settings but the numbers of nodes and replicas are the same; on the CPU the threads of a
    node, or those of a replica.
    """
    alone: dict[tuple[str, ...], list[Cell]] = {}
    for cell in study.cells:
        if _world_size(cell) == 1:
            alone.setdefault(_rest(cell), []).append(cell)
    return [
        Scaled(cell, one, resources)
        for cell in study.cells
        if _world_size(cell) > 1
        for one in alone.get(_rest(cell), [])
        if (resources := _resources(cell, one))
    ]


def _count(cell: Cell, factor: str) -> int:
    return int(cell.plan.factors.get(factor) or 1)


def _world_size(cell: Cell) -> int:
    return _count(cell, "nodes") * _count(cell, "replicas")


def _rest(cell: Cell) -> tuple[str, ...]:
    return tuple(value for name, value in cell.plan.factors.items() if name not in FREE)


def _resources(cell: Cell, alone: Cell) -> int | None:
    """How many times the resources of `alone` the cell has; None where that is no whole share."""
    ours, theirs = (one.plan.factors.get("threads", "") for one in (cell, alone))
    if cell.facet[2] == "gpu":
        return _world_size(cell) if ours == theirs else None
    if ours == theirs:
        return _count(cell, "nodes")
    each = ours and theirs and int(ours) == int(theirs) * _count(cell, "replicas")
    return _world_size(cell) if each else None


def table(rows: Iterable[Scaled]) -> str:
    """The rows as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells, ratio = (row.cell, row.alone), row.speedup
        speedup = (ratio.value if ratio else None, *(row.interval or (None, None)))
        efficiency = (row.efficiency, *(row.efficiency_interval or (None, None)))
        writer.writerow(
            [
                *(row.cell.plan.factors[name] for name in FACTORS),
                *(row.kind, row.nodes, row.replicas, row.resources),
                *(cell.plan.name for cell in cells),
                *(_text(middle(cell)) for cell in cells),
                *(ratio.n if ratio else 0, *map(_text, speedup), *map(_text, efficiency)),
                *(row.verdict, "yes" if ratio is None or ratio.indicative else "no", row.reason),
                *(counted(cell.flags) for cell in cells),
            ]
        )
    return text.getvalue()


def middle(cell: Cell) -> float | None:
    """The median throughput of a cell (images/s), if it has one."""
    values = cell.values("throughput")
    return median(values) if values else None


def _text(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _label(row: Scaled, sized: bool) -> str:
    """What sets the line of a row apart from others of its panel; `sized`, by batch size too."""
    series = row.cell.series
    own = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in zip(series.factors, series.values, strict=True)
        if name not in FREE
    ]
    words = [f"batch size {row.cell.batch_size}"] * sized + own
    words += [f"{row.nodes} nodes"] * (row.nodes > 1)
    if row.cell.facet[2] == "cpu":
        words.append("own cores" if row.resources == row.world_size else "the same cores")
    return f"{series.framework} ({', '.join(words)})" if words else series.framework


def _sized(rows: Iterable[Scaled]) -> bool:
    """Whether lines are to be told apart by batch size."""
    return len({row.cell.batch_size for row in rows}) > 1


def draw(study: Study, colours: dict[str, str]) -> Figure:
    """Speed-up by replicas with its 95 % interval; dashed, the resources that they had.

    `colours` are of the ink and of lines.
    """
    rows = [row for row in scaled(study) if row.speedup]
    if not rows:
        figure = Figure(figsize=(6.0, 1.6))
        text = "No cell of several replicas has a number beside one that trains the same alone."
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
    """One line for each framework and setting, from a cell alone on; fills `handles`."""
    by_line: dict[str, list[Scaled]] = {}
    for row in rows:
        by_line.setdefault(_label(row, sized), []).append(row)
    drawn: list[str] = []
    for label, members in by_line.items():
        members.sort(key=lambda row: row.world_size)
        framework = members[0].cell.series.framework
        colour, marker = style_of(framework)
        fill = FILLS[drawn.count(framework) % len(FILLS)]
        drawn.append(framework)
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
    # Wide intervals of few runs would leave nothing to be seen of the values.
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
    told = ""
    if best and best.speedup:
        told = (
            f"The highest efficiency is {best.efficiency:.2f}: {_label(best, _sized(rows))} with"
            f" {best.world_size} replicas ({best.kind} scaling). "
        )
    where = "; ".join(describe_machine(machine) for machine in machines(study))
    return {
        "title": "Speed-up by replicas",
        "caption": "Throughput / that of the cell that trains the same alone, the geometric mean"
        " over blocks with its 95 % interval. Strong scaling keeps the batch of all replicas, weak"
        " scaling that of each. The dashed line is what their devices or cores would give if"
        f" nothing were lost; a wide interval is cut off. Machine: {where}.",
        "alt": f"Line plot of speed-up by replicas. {told}The table of scaling holds the same"
        " numbers.",
    }
