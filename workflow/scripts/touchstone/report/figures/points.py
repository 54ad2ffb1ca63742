"""A metric of every run, a panel for each network."""

from collections.abc import Mapping, Sequence
from math import ceil, inf, isfinite, log10, nan
from statistics import geometric_mean, median
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from touchstone.report.figures.axes import spell
from touchstone.report.figures.panels import (
    GROUND,
    INK,
    LOG_FROM,
    MARKER,
    MUTED,
    WIDTH,
    flags,
    grid,
    legend,
    marker_style,
    message,
    place,
    setting,
)
from touchstone.report.figures.style import darker, panel_title, style_of
from touchstone.results.metrics import METRICS
from touchstone.results.study import Cell, Result, Series, Study
from touchstone.results.tables import PARITY_NOT_SHOWN


class PointFigure(NamedTuple):
    """A figure of one metric: its title, axis label and clock; `{}` is what its x axis has."""

    metric: str
    title: str
    label: str
    clock: str
    from_zero: bool


SPEED = "throughput"
SIZES, THREADS = "batch size", "threads"
"""What the x axis may have."""
InTurn = Mapping[str, Sequence[float]]
"""By cell, its speeds in the sets of turns, images/s."""
NOT_IN_TURN: InTurn = MappingProxyType({})
POINT_FIGURES = (
    PointFigure(
        "throughput",
        "Training throughput by {}",
        "throughput (images/s)",
        "All examples of the measured phase / its time on the monotonic clock;"
        " the device is synchronised at the two edges only.",
        True,
    ),
    PointFigure(
        "test_accuracy",
        "Test accuracy after the last epoch",
        "test accuracy",
        "Correct / all examples of the test set, evaluated once, outside of the measured phase.",
        False,
    ),
    PointFigure(
        "cpu_utilization",
        "CPU utilisation by {}",
        "CPU utilisation (%)",
        "CPU time of the process tree over the measured phase / (its time x logical cores).",
        True,
    ),
    PointFigure(
        "host_memory",
        "Host memory by {}",
        "host memory (MiB)",
        "Mean proportional set size, summed over the process tree, in the measured phase.",
        True,
    ),
)


def draw_points(
    study: Study, kind: PointFigure, most: float = WIDTH, in_turn: InTurn = NOT_IN_TURN
) -> Figure:
    """A metric of every run, by batch size within each facet; a line marks each middle.

    Where all cells have the same batch size, and not the same threads, it is by threads.

    Args:
        in_turn: by cell, its speeds in the sets of turns, which take the place of its throughputs.
        most: width of the figure at most, inches; below the usual one it has a single column.
    """
    in_turn = in_turn if kind.metric == SPEED else NOT_IN_TURN
    if not in_turn and (why := study.why_empty(kind.metric)):
        return message(f"No run has a value for {kind.label}: {why}.")
    factor, study = _laid_out(study)
    groups = _by_facet(study, factor)
    slots = max(len(levels) * (len(_series_of(study, levels)) + 1) for levels in groups.values())
    columns = min(len(groups), 3 if slots <= 8 else 2 if slots <= 14 else 1)
    columns = 1 if most < WIDTH else columns
    width = min(most, 1.6 + columns * max(2.4, 0.5 * slots))
    missing = any(_words(cell, kind, in_turn) for cell in study.cells)
    figure, axes = grid(len(groups), columns, width, 3.2 if missing else 2.8)
    for ax, (facet, levels) in zip(axes, groups.items(), strict=True):
        ax.set_title(panel_title(facet, width / columns))
        slot_width = 68 * (width / columns - 0.9) / slots  # points
        _draw_facet(ax, study, kind, levels, slot_width, in_turn)
        ax.set_xlabel(factor)
    legend(figure, study, line=False)
    return figure


def _laid_out(study: Study) -> tuple[str, Study]:
    """What the x axis has, and the study with series that do not differ in it."""
    threads = {cell.plan.settings.threads for cell in study.cells}
    if len({cell.batch_size for cell in study.cells}) > 1 or len(threads) < 2:
        return SIZES, study
    return THREADS, Study([c._replace(series=c.series.without(THREADS)) for c in study.cells])


def _by_facet(study: Study, factor: str) -> dict[tuple[str, str, str], dict[str, list[Cell]]]:
    """Cells by facet and place on the x axis, which ascends; all threads are the most."""
    groups: dict[tuple[str, str, str], dict[str, list[Cell]]] = {
        cell.facet: {} for cell in study.cells
    }
    placed = [
        (cell.batch_size if factor == SIZES else cell.plan.settings.threads, cell)
        for cell in study.cells
    ]
    for level, cell in sorted(placed, key=lambda pair: pair[0] or inf):
        groups[cell.facet].setdefault(str(level or "all"), []).append(cell)
    return groups


def _series_of(study: Study, levels: dict[str, list[Cell]]) -> list[Series]:
    present = {cell.series for cells in levels.values() for cell in cells}
    return [series for series in study.series if series in present]


def _draw_facet(
    ax: Axes,
    study: Study,
    kind: PointFigure,
    levels: dict[str, list[Cell]],
    slot_width: float,
    in_turn: InTurn,
) -> None:
    series = _series_of(study, levels)
    slot = 1 / (len(series) + 1)
    missing_points: list[tuple[float, list[str], str]] = []
    marker_size = min(MARKER, max(3.0, 0.3 * slot_width))
    numbers: list[float] = []
    middles = {line: [nan] * len(levels) for line in series}
    for group, cells in enumerate(levels.values()):
        if group % 2:
            ax.axvspan(group - 0.5, group + 0.5, color=GROUND, linewidth=0, zorder=0)
        for cell in cells:
            x = group + (series.index(cell.series) - (len(series) - 1) / 2) * slot
            if missing := _words(cell, kind, in_turn):
                missing_points.append((x, missing, cell.series.framework))
            values = _values(cell, kind, in_turn)
            if not values:  # the layout would make room for a line without points, at the origin
                continue
            numbers += values
            middle = middles[cell.series][group] = _middle(values, kind)
            ax.plot([x - 0.42 * slot, x + 0.42 * slot], [middle] * 2, color=INK, linewidth=1.1)
            spread = [0.5 * slot * ((i + 1) / (len(values) + 1) - 0.5) for i in range(len(values))]
            at = [x + dx for dx in spread]
            marker = marker_style(study, cell.series, marker_size)
            ax.plot(at, values, linestyle="none", alpha=0.9, clip_on=False, **marker)
            if cell.plan.name in in_turn:
                continue
            runs = [run for run in cell.runs if run.values[kind.metric] is not None]
            for dx, value, run in zip(at, values, runs, strict=True):
                if _flagged(run):
                    size = marker_size + 4
                    ax.plot(
                        dx, value, "o", color=MUTED, fillstyle="none", markersize=size, mew=0.7,
                        clip_on=False,
                    )  # fmt: skip
    for line, heights in middles.items():
        if sum(map(isfinite, heights)) > 1:
            shift = (series.index(line) - (len(series) - 1) / 2) * slot
            at = [group + shift for group in range(len(levels))]
            colour, _ = style_of(line.framework)
            ax.plot(at, heights, color=colour, linewidth=0.8, alpha=0.7, zorder=1)
    ax.set_xlim(-0.5, len(levels) - 0.5)
    ax.set_xticks(range(len(levels)), list(levels))
    ax.tick_params(axis="x", length=0)
    ax.grid(axis="y")
    _scale(ax, kind, numbers)
    if missing_points:
        _write_missing(ax, missing_points, slot_width)


def _values(cell: Cell, kind: PointFigure, in_turn: InTurn) -> Sequence[float]:
    return in_turn.get(cell.plan.name) or cell.values(kind.metric)


def _words(cell: Cell, kind: PointFigure, in_turn: InTurn) -> list[str]:
    """What to write for runs without a number; nothing where turns have one."""
    return [] if cell.plan.name in in_turn else cell.words(kind.metric)


def _middle(values: Sequence[float], kind: PointFigure) -> float:
    """The geometric mean of speeds, as the answer has it, the median of other metrics."""
    return geometric_mean(values) if kind.metric == SPEED else median(values)


def _flagged(run: Result) -> bool:
    """Whether a run has a flag other than that on its framework and network."""
    return any(flag != PARITY_NOT_SHOWN for flag in run.flags)


def _scale(ax: Axes, kind: PointFigure, numbers: list[float]) -> None:
    """A linear axis from zero, a close one for shares, a logarithmic one for wide ranges."""
    label = kind.label
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if low > 0 and high / low > LOG_FROM and kind.from_zero:
        ax.set_yscale("log")
        ax.set_ylim(low / 1.5, high * 1.5)
        label += ", log scale"
    elif kind.from_zero:
        ax.set_ylim(0, high * 1.08 or 1)
    else:
        pad = max(0.15 * (high - low), 0.01)
        ax.set_ylim(max(low - pad, 0), min(high + pad, 1.0 + 0.1 * pad))
    ax.set_ylabel(label)
    spell(ax)


def _write_missing(
    ax: Axes, missing_points: list[tuple[float, list[str], str]], slot_width: float
) -> None:
    """Open a strip below the axis for what is written instead of a missing number."""
    letter, line, height = 4.7, 10.0, 165.0  # points: of 7.5 point type, and of the axes
    flat = {x: "\n".join(missing).replace(" ", "\n") for x, missing, _ in missing_points}
    upright = max(len(w) for text in flat.values() for w in text.split("\n")) * letter > slot_width
    texts = {x: "\n".join(missing) for x, missing, _ in missing_points} if upright else flat
    if upright:
        needed = max(len(w) for text in texts.values() for w in text.split("\n")) * letter
    else:
        needed = max(text.count("\n") + 1 for text in texts.values()) * line
    share = (needed + 10) / height
    bottom, top = ax.get_ylim()
    ticks = [tick for tick in ax.get_yticks() if bottom <= tick <= top]
    if ax.get_yscale() == "log":
        ax.set_ylim(bottom / (top / bottom) ** (share / (1 - share)), top)
        ax.minorticks_off()
    else:
        ax.set_ylim(bottom - (top - bottom) * share / (1 - share), top)
    ax.set_yticks(ticks)
    ax.axhline(bottom, color="#8A8A8A", linewidth=0.8)
    for x, _, framework in missing_points:
        ax.text(
            x,
            share / 2,
            texts[x],
            transform=ax.get_xaxis_transform(),
            rotation=90 if upright else 0,
            ha="center",
            va="center",
            multialignment="center",
            linespacing=1.1,
            fontsize=7.5,
            color=darker(style_of(framework)[0]),
        )


def point_texts(study: Study, kind: PointFigure, in_turn: InTurn = NOT_IN_TURN) -> dict[str, str]:
    """Title, caption and alternative text; `in_turn` as of `draw_points`."""
    in_turn = in_turn if kind.metric == SPEED else NOT_IN_TURN
    best = max(
        (
            (_middle(values, kind), cell)
            for cell in study.cells
            if (values := _values(cell, kind, in_turn))
        ),
        key=lambda pair: pair[0],
        default=None,
    )
    middle = "geometric mean" if kind.metric == SPEED else "median"
    point = "Each point is one run"
    of_runs = [cell for cell in study.cells if cell.plan.name not in in_turn]
    if len(of_runs) < len(study.cells):
        point = "Each point is a set of processes that took turns"
        point += ", or a run of a configuration that took none" if of_runs else ""
    caption = f"{kind.clock} {point}, the thick line is their {middle}. "
    factor, laid_out = _laid_out(study)
    if any(len(levels) > 1 for levels in _by_facet(laid_out, factor).values()):
        caption += "Thin lines join those of one name in the legend. "
    if best and any(_words(cell, kind, in_turn) for cell in study.cells):
        caption += "A word is shown where there is no number (1/3: one run of three). "
    caption += flags(Study(of_runs), rings=True)
    unit = METRICS[kind.metric].unit.replace("1", "")
    alt = f"Dot plot of {kind.label} by {factor} and framework. "
    if best is None:
        alt += f"It has no point: {study.why_empty(kind.metric)}. "
    else:
        digits = max(0, 3 - ceil(log10(best[0]))) if best[0] > 0 else 0
        number = f"{best[0]:,.{digits}f} {unit}".strip()
        alt += (
            f"The highest {middle} is {number}: {best[1].series.label} at batch size"
            f" {best[1].batch_size} on {', '.join(best[1].facet)}. "
        )
    table = "table of speeds" if in_turn else "summary table"
    alt += f"The {table} holds the same numbers."
    return {
        "title": kind.title.format(factor),
        "caption": caption + (setting(Study(of_runs)) or place(study)),
        "alt": alt,
    }
