"""The figure of several machines: times, accuracy and speed-up, every run a point.

They are the quantities in which Lawrence and others (2017, "Comparing TensorFlow Deep Learning
Performance Using CPUs, GPUs, Local PCs and Cloud") compare six systems.
"""

import textwrap
from collections.abc import Callable, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from touchstone.analysis.machines import QUANTITIES, Machine, all_cells, speedup
from touchstone.report.figures.panels import INK, LOG_FROM, WIDTH
from touchstone.report.figures.style import machine_styles
from touchstone.results.study import Cell

CELLS = 12
"""Cells that the figure draws at most, so that it can be read; the tables have all."""
BAR = 0.16  # inches
LABEL = 22  # characters of a line of a cell's label
SPEEDUP = "Speed-up against the slowest"


def draw_machines(machines: Sequence[Machine]) -> tuple[Figure, dict[str, str]]:
    """The figure, and its `title`, `caption` and `alt`."""
    names = all_cells(machines)
    shown_cells = names[:CELLS]
    slot = max(len(machines) + 0.8, 2.5) * BAR
    figure = Figure(
        figsize=(WIDTH, 2 * (slot * len(shown_cells) + 0.7) + 0.3 + 0.2 * len(machines)),
        layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06),
    )
    axes = figure.subplots(2, 2, sharey=True)
    speedups = {name: speedup(machines, name) for name in shown_cells}

    def of(quantity: Callable[[Cell], list[float]]) -> Callable[[Machine, str], list[float]]:
        return lambda machine, name: quantity(machine.cells[name]) if name in machine.cells else []

    for ax, quantity in zip(axes.flat, QUANTITIES, strict=False):
        _bars(ax, machines, shown_cells, quantity.label, of(quantity.values))
    axes[1, 0].set_xlim(0, 1.03)  # an accuracy is a share; the points of 1 are whole
    _bars(
        axes[1, 1],
        machines,
        shown_cells,
        SPEEDUP,
        lambda machine, name: gain.runs.get(machine.name, []) if (gain := speedups[name]) else [],
    )
    axes[1, 1].axvline(1, color=INK, linewidth=0.8)
    labels = _labels(machines, shown_cells)
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(shown_cells)), [labels[name] for name in shown_cells])
    axes[0, 0].set_ylim(len(shown_cells) - 0.5, -0.5)
    figure.legend(
        handles=[
            Patch(facecolor=colour, edgecolor=INK, linewidth=0.6, hatch=hatch, label=machine.name)
            for machine, (colour, hatch) in zip(
                machines, machine_styles(len(machines)), strict=True
            )
        ],
        loc="outside upper left",
        borderpad=0,
    )
    return figure, _texts(machines, len(shown_cells), len(names))


def _labels(machines: Sequence[Machine], names: Sequence[str]) -> dict[str, str]:
    """Framework and batch size of each cell, and of network, data set and device what differs;
    its full name where another cell would have the same label."""
    planned = {n: m.cells[n] for m in machines for n in names if n in m.cells}
    varying = [i for i in range(3) if len({cell.facet[i] for cell in planned.values()}) > 1]
    labels = {
        name: " ".join(
            [cell.series.label, *(cell.facet[i] for i in varying), f"batch {cell.batch_size}"]
        )
        for name, cell in planned.items()
    }
    texts = list(labels.values())
    return {
        name: "\n".join(textwrap.wrap(name if texts.count(label) > 1 else label, LABEL))
        for name, label in labels.items()
    }


def _bars(
    ax: Axes,
    machines: Sequence[Machine],
    names: Sequence[str],
    title: str,
    values: Callable[[Machine, str], list[float]],
) -> None:
    """A bar to each median, its runs as points, a word where there is no number."""
    ax.set_title(title)
    height = 0.8 / len(machines)
    numbers = [v for machine in machines for name in names for v in values(machine, name)]
    if numbers and min(numbers) > 0 and max(numbers) / min(numbers) > LOG_FROM:
        ax.set_xscale("log")
        ax.set_xlim(min(numbers) / 2, max(numbers) * 1.5)
        ax.set_title(f"{title}, log scale")
    for i, (machine, (colour, hatch)) in enumerate(
        zip(machines, machine_styles(len(machines)), strict=True)
    ):
        for j, name in enumerate(names):
            y = j + (i - (len(machines) - 1) / 2) * height
            runs = values(machine, name)
            if not runs:
                cell = machine.cells.get(name)
                word = ", ".join(cell.words("training_time")) if cell else "not planned"
                ax.text(
                    0.01, y, word or "no value", transform=ax.get_yaxis_transform(), va="center",
                    fontsize=7.5, color=INK,
                )  # fmt: skip
                continue
            ax.barh(
                y, median(runs), height * 0.92, color=colour, hatch=hatch, edgecolor=INK,
                linewidth=0.6,
            )  # fmt: skip
            spread = [height * 0.5 * ((k + 1) / (len(runs) + 1) - 0.5) for k in range(len(runs))]
            ax.plot(
                runs, [y + dy for dy in spread], "o", color="white", markeredgecolor=INK,
                markersize=3.2, markeredgewidth=0.7,
            )  # fmt: skip
    ax.grid(axis="x")
    ax.tick_params(axis="y", length=0)


def _texts(machines: Sequence[Machine], shown: int, cells: int) -> dict[str, str]:
    repeats = sorted({cell.plan.repeats for m in machines for cell in m.study.cells})
    n = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    caption = (
        "A bar is the median of a cell's runs, every point one run, a word a missing number. Time"
        " per epoch is the training time (first step and warm-up included) over the"
        " epochs, total time all phases from the framework's import to the evaluation. Speed-up is"
        " the slowest machine's median time per epoch over a run's own: the slowest is chosen by"
        f" these very numbers, the table above is not. n = {n} runs per cell and machine."
    )
    if shown < cells:
        caption += f" Only the first {shown} of {cells} cells are drawn; the tables hold all."
    alt = (
        f"Four bar charts of {shown} cells on {', '.join(m.name for m in machines)}: time per"
        " epoch, total time, test accuracy, speed-up. The table of times holds the same numbers."
    )
    return {"title": "Times, accuracy and speed-up by machine", "caption": caption, "alt": alt}
