"""A study's figures again: published on the left, measured on the right, every run a point."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from touchstone.published.dossier import Curves, FigureSpec
from touchstone.published.entries import Entry, label
from touchstone.published.points import Level
from touchstone.published.table import NUMBERS, show
from touchstone.report.figures.axes import legend_columns, spell
from touchstone.report.figures.style import darker, machine_styles, style_of
from touchstone.results.metrics import words
from touchstone.results.study import Cell as MeasuredCell

INK, MUTED = "#1A1A1A", "#5A5A5A"
WIDTH, HEIGHT = 8.0, 3.1  # inches
LOG_FROM = 20.0  # a range wider than this ratio gets a logarithmic axis
# Okabe and Ito 2008 without the colours of the three first frameworks, for other series.
COLOURS = ("#000000", "#56B4E9", "#E69F00", "#CC79A7", "#999999", "#0072B2", "#D55E00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def draw(spec: FigureSpec, entries: Sequence[Entry]) -> Figure:
    """A figure of two panels that share the x axis, and the y axis where scales are near."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.06))
    left, right = figure.subplots(1, 2)
    series = list(dict.fromkeys(label(entry, spec.series) for entry in entries))
    levels = list(dict.fromkeys(label(entry, spec.x) for entry in entries))
    numbers = spec.x in NUMBERS
    if numbers:
        levels.sort(key=float)
    for name, ax in (("published", left), ("measured here", right)):
        ax.set_title(name)
        published = name == "published"
        drawn = [_draw(ax, spec, entries, key, series, levels, published) for key in series]
        if not any(drawn):
            _say_why(ax, entries, published)
            continue
        ax.set_xticks(range(len(levels)), levels)
        ax.tick_params(axis="x", length=0)
        if max(map(len, levels)) * len(levels) > 40:
            for text in ax.get_xticklabels():
                text.set(rotation=30, ha="right", rotation_mode="anchor")
        if not numbers:
            _mark_missing(ax, spec, entries, series, levels, published)
        ax.set_xlim(-0.5, len(levels) - 0.5)
        ax.set_xlabel(words(spec.x))
        ax.grid(axis="y")
        _scale(ax, drawn, f"{words(entries[0].name)} ({entries[0].unit})")
    handles = [
        Line2D([], [], label=key, linestyle="-" if numbers else "none", **_style(spec, series, key))
        for key in series
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=legend_columns(series, WIDTH))
    return figure


def _style(spec: FigureSpec, series: Sequence[str], key: str) -> dict[str, Any]:
    if spec.series == "framework":
        colour, marker = style_of(key)
    else:
        place = series.index(key)
        colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    return {"color": colour, "marker": marker}


def _mark_missing(
    ax: Axes, spec: FigureSpec, entries: Sequence[Entry], series: Sequence[str],
    levels: Sequence[str], published: bool,
) -> None:  # fmt: skip
    """A cross in place of a bar for which this side has no figure; the caption says why."""
    slots: dict[tuple[str, str], bool] = {}
    for entry in entries:
        if published and entry.line is None:
            continue  # not in the source
        slot = (label(entry, spec.x), label(entry, spec.series))
        slots[slot] = slots.get(slot, False) or bool(_values(entry, published))
    for (at, key), drawn in slots.items():
        if not drawn:
            ax.plot(
                [levels.index(at) + _shift(series, key)], [0.03], linestyle="none", marker="x",
                markersize=4, color=MUTED, transform=ax.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip


def _shift(series: Sequence[str], key: str) -> float:
    """How far a series is from the middle of a level."""
    return (series.index(key) - (len(series) - 1) / 2) * 0.8 / len(series)


def _draw(
    ax: Axes, spec: FigureSpec, entries: Sequence[Entry], key: str, series: Sequence[str],
    levels: Sequence[str], published: bool,
) -> list[float]:  # fmt: skip
    """Draw a series; the values that it has."""
    style = _style(spec, series, key)
    lines: dict[str, list[tuple[float, list[float]]]] = {}
    for entry in entries:
        if label(entry, spec.series) != key:
            continue
        if values := _values(entry, published):
            device = str(entry.factors.get("device", ""))
            at = float(levels.index(label(entry, spec.x)))
            lines.setdefault(device, []).append((at, values))
    shown: list[float] = []
    log = _is_log([value for entry in entries for value in _values(entry, published)])
    for device, places in lines.items():
        places.sort(key=lambda place: place[0])
        shown += [value for _, values in places for value in values]
        dashes = "--" if device == "cpu" and len(lines) > 1 else "-"
        if spec.x in NUMBERS:
            middles = [median(values) for _, values in places]
            ax.plot([at for at, _ in places], middles, dashes, color=style["color"], linewidth=1.1)
            shift = 0.0
        else:
            shift = _shift(series, key)
            width = 0.0 if log else 0.7 / len(series)  # a bar needs an axis from zero
            ax.bar(
                [at + shift for at, _ in places], [median(values) for _, values in places],
                width=width, color=style["color"], alpha=0.45, edgecolor=darker(style["color"]),
                linewidth=0.6,
            )  # fmt: skip
        for at, values in places:
            spread = [0.03 * (i - (len(values) - 1) / 2) for i in range(len(values))]
            ax.plot(
                [at + shift + dx for dx in spread], values, linestyle="none", markersize=4.5,
                color=style["color"], marker=style["marker"], alpha=0.9,
            )  # fmt: skip
    return shown


def _values(entry: Entry, published: bool) -> list[float]:
    if published:
        return [] if entry.published is None else [entry.published]
    return list(entry.values.values())


def _is_log(values: Sequence[float]) -> bool:
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) / min(positive) > LOG_FROM


def _scale(ax: Axes, drawn: Sequence[list[float]], text: str) -> None:
    values = [value for series in drawn for value in series if value > 0]
    if _is_log(values):
        ax.set_yscale("log")
        ax.set_ylim(min(values) / 1.6, max(values) * 1.6)
        text += ", log scale"
    else:
        ax.set_ylim(0, max(values, default=1.0) * 1.1)
    spell(ax)
    ax.set_ylabel(text)


def _say_why(ax: Axes, entries: Sequence[Entry], published: bool) -> None:
    """A panel without a number says why."""
    theirs = [e for e in entries if e.line is not None]
    reasons = [e.remark for e in theirs] if published else [e.reason for e in entries]
    reason = "; ".join(list(dict.fromkeys(filter(None, reasons)))[:3]) or "no figure"
    if published:
        reason = f"no figure in the source: {reason}"
    ax.text(
        0.5, 0.5, "\n".join(textwrap.wrap(reason, 40)), transform=ax.transAxes, ha="center",
        va="center", color=MUTED,
    )  # fmt: skip
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(False)


def caption(spec: FigureSpec, entries: Sequence[Entry], clock: str, machine: str) -> str:
    """What a figure shows: how, on what, and how many runs."""
    counts = sorted({len(e.values) for e in entries if e.values})
    remarks = dict.fromkeys(e.remark for e in entries if e.remark and e.published is not None)
    published = f" Published: {'; '.join(remarks)}." if any(remarks) else ""
    reasons = list(dict.fromkeys(e.reason for e in entries if not e.values and e.reason))
    why = "; ".join([*reasons[:3], *(["..."] if len(reasons) > 3 else [])])
    if not counts:  # the place of its panel has the reasons too
        return f"Nothing was measured here: {why}.{published}"
    empty = sum(not e.values for e in entries)
    crosses = "" if spec.x in NUMBERS else ", a cross each"
    missing = (
        f" {empty} of {len(entries)} figures were not measured{crosses}: {why}." if empty else ""
    )
    bars = (
        "line joins medians"
        if spec.x in NUMBERS
        else "bar, where the axis begins at zero, is the median"
    )
    several = spec.x in NUMBERS and {str(e.factors.get("device")) for e in entries} >= {
        "cpu",
        "gpu",
    }
    dashed = " Dashed lines are the CPU's where both devices were used." if several else ""
    return (
        f"Each point is a run, n = {' or '.join(map(str, counts))} a cell; a {bars}. {clock}"
        f" Measured on {machine}.{published}{missing}{dashed}"
        " The two panels have scales of their own."
    )


def draw_curves(spec: Curves, cells: Sequence[tuple[Level, MeasuredCell]]) -> Figure:
    """The mean training loss by epoch: a thin line for each run, a shade for each level.

    Args:
        cells: the level of `spec.series` that each has, and the cell; ordered by level.
    """
    figure = Figure(figsize=(WIDTH * 0.75, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=0.06))
    ax = figure.subplots()
    levels = list(dict.fromkeys(level for level, _ in cells))
    styles = dict(zip(levels, machine_styles(len(levels)), strict=True))
    for level, cell in cells:
        marker = MARKERS[levels.index(level) % len(MARKERS)]
        for run in cell.runs:
            losses = [float("nan") if loss is None else loss for loss in run.losses]
            ax.plot(
                range(1, len(losses) + 1), losses, color=styles[level][0], linewidth=1.1,
                marker=marker, markersize=3.5,
                linestyle="--" if cell.facet[2] == "cpu" and _both(cells) else "-",
            )  # fmt: skip
    if not any(run.losses for _, cell in cells for run in cell.runs):
        why = list(dict.fromkeys(run.reason or run.status for _, c in cells for run in c.runs))
        ax.text(0.5, 0.5, "\n".join(textwrap.wrap("; ".join(why), 60)), ha="center", color=MUTED)
    ax.set_xlabel("epoch")
    ax.set_ylabel("mean training loss")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.grid(axis="y")
    handles = [
        Line2D([], [], label=f"{words(spec.series)} {show(level)}", color=styles[level][0],
               marker=MARKERS[levels.index(level) % len(MARKERS)], markersize=3.5)
        for level in levels
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside right upper")
    return figure


def _both(cells: Sequence[tuple[Level, MeasuredCell]]) -> bool:
    return len({cell.facet[2] for _, cell in cells}) > 1


def curves_caption(spec: Curves, cells: Sequence[tuple[Level, MeasuredCell]], machine: str) -> str:
    """What the curves are, on what they were measured, and which runs have none."""
    runs = [run for _, cell in cells for run in cell.runs]
    counts = sorted({len(cell.runs) for _, cell in cells})
    unfinished = [run for run in runs if run.status != "ok"]
    why = "; ".join(dict.fromkeys(run.reason or run.status for run in unfinished))
    short = f" {len(unfinished)} of {len(runs)} runs did not finish: {why}." if unfinished else ""
    dashed = " Dashed lines are the CPU's." if _both(cells) else ""
    return (
        f"Each line is a run, n = {' or '.join(map(str, counts))} a cell; each point the mean loss"
        f" of an epoch's steps. Measured on {machine}. Published: {spec.source}.{short}{dashed}"
    )
