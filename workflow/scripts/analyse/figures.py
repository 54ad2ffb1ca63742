"""The figures of a study: every run is a point, every missing number a word."""

import io
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil, isfinite, log10
from statistics import fmean, median
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analyse import operations, scaling
from analyse.axes import legend_columns, spell
from analyse.metrics import METRICS
from analyse.study import Cell, Result, Series, Study, describe_machine, machines
from analyse.style import FILLS, UNPROVEN, darker, panel_title, style_of
from analyse.tables import PARITY_NOT_SHOWN, counted

INK, MUTED, GRID, GROUND = "#1A1A1A", "#5A5A5A", "#E3E3E3", "#F3F3F3"
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with Matplotlib: the same on every machine
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": "#8A8A8A",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "touchstone",  # stable ids: the same study gives the same bytes
}
WIDTH = 8.0  # inches; a full text column of the report
LOG_FROM = 20.0  # a range of values wider than this ratio gets a logarithmic axis
MARKER = 5.5  # points
PANELS, SERIES, BATCHES = 12, 12, 8
"""What a figure draws at most: so the figures of a study of any size can be read and loaded."""
NAMED = 6  # pairs that a caption names


class PointFigure(NamedTuple):
    """A figure of one metric by batch size: its title, axis label and clock."""

    metric: str
    title: str
    label: str
    clock: str
    from_zero: bool


POINT_FIGURES = (
    PointFigure(
        "throughput",
        "Training throughput by batch size",
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
        "CPU utilisation by batch size",
        "CPU utilisation (%)",
        "CPU time of the process tree over the measured phase / (its time x logical cores).",
        True,
    ),
    PointFigure(
        "host_memory",
        "Host memory by batch size",
        "host memory (MiB)",
        "Mean of the samples of the proportional set size, summed over the process tree, in the"
        " measured phase.",
        True,
    ),
)


@contextmanager
def drawing() -> Iterator[None]:
    """The style of all figures; drawing and saving both belong inside."""
    with mpl.rc_context(RC):
        yield


def make_figures(study: Study) -> Iterator[tuple[str, Figure, dict[str, str]]]:
    """Name, figure and texts (`title`, `caption`, `alt`) of each figure of the report."""
    if (called := study.operations).cells:
        colours = {"ink": INK, "grid": GRID}
        yield "operations", operations.draw(called, colours), operations.texts(called)
    study = study.trained
    if scaling.has_replicas(study):
        colours = {"ink": INK, "grid": GRID}
        yield "scaling", scaling.draw(study, colours), scaling.texts(study)
    some, left_out = drawn(study, lambda cell: cell.facet)
    for kind in POINT_FIGURES:
        texts = _point_texts(some, kind)
        texts["caption"] += left_out
        yield kind.metric, draw_points(some, kind), texts
    some, left_out = drawn(study, lambda cell: (cell.facet, cell.batch_size))
    texts = _loss_texts(some)
    texts["caption"] += left_out
    yield "training_loss", draw_losses(some), texts


def drawn(study: Study, panel: Callable[[Cell], Any]) -> tuple[Study, str]:
    """The part of a study that a figure draws, and a sentence on what it leaves out.

    The first series, batch sizes and panels are drawn, in order of the plan.
    """
    series = set(study.series[:SERIES])
    cells = [cell for cell in study.cells if cell.series in series]
    sizes: dict[Any, set[int]] = {}
    for cell in cells:
        sizes.setdefault(cell.facet, set()).add(cell.batch_size)
    cells = [c for c in cells if c.batch_size in sorted(sizes[c.facet])[:BATCHES]]
    panels = set(list(dict.fromkeys(map(panel, cells)))[:PANELS])
    cells = [cell for cell in cells if panel(cell) in panels]
    if len(cells) == len(study.cells):
        return study, ""
    return Study(cells), (
        f" Only {len(cells)} of {len(study.cells)} cells are drawn: at most {PANELS} panels,"
        f" {SERIES} series and {BATCHES} batch sizes, the first of each; the tables hold all."
    )


def render(figure: Figure) -> dict[str, bytes]:
    """The figure as `svg` and `png` (160 dpi), without dates or versions."""
    images = {}
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
        images[kind] = buffer.getvalue()
    return images


# Layout


def _marker(study: Study, series: Series, size: float = MARKER) -> dict[str, Any]:
    colour, marker = style_of(series.framework)
    own = [s for s in study.series if s.framework == series.framework]
    return {
        "color": colour,
        "marker": marker,
        "markersize": size,
        "fillstyle": FILLS[own.index(series) % len(FILLS)],
        "markeredgewidth": 0.9,
        "markerfacecoloralt": "white",
    }


def _grid(panels: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with `panels` axes; `height` inches a row."""
    rows = ceil(panels / columns)
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
    figure = Figure(figsize=(width, height * rows + 0.35), layout=layout)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[panels:]:
        unused.set_visible(False)
    return figure, axes[:panels]


def _legend(figure: Figure, study: Study, line: bool) -> None:
    unproven = {cell.series for cell in study.cells if PARITY_NOT_SHOWN in cell.flags}
    labels = {s: s.label + UNPROVEN * (s in unproven) for s in study.series}
    handles = [
        Line2D([], [], linestyle="-" if line else "none", label=label, **_marker(study, s))
        for s, label in labels.items()
    ]
    columns = legend_columns(labels.values(), figure.get_figwidth())
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, borderpad=0)


def _message(figure: Figure, text: str) -> None:
    wrapped = "\n".join(textwrap.wrap(text, int(11 * figure.get_figwidth())))
    figure.text(0.5, 0.5, wrapped, ha="center", va="center", color=MUTED, fontsize=10)


# Points by batch size


def draw_points(study: Study, kind: PointFigure) -> Figure:
    """A metric of every run, by batch size within each facet; a line marks each median."""
    if why := study.why_empty(kind.metric):
        figure = Figure(figsize=(6.0, 1.6))
        _message(figure, f"No run has a value for {kind.label}: {why}.")
        return figure
    groups = study.by_facet()
    slots = max(len(batches) * (len(_series_of(study, batches)) + 1) for batches in groups.values())
    columns = min(len(groups), 3 if slots <= 8 else 2 if slots <= 14 else 1)
    width = min(WIDTH, 1.6 + columns * max(2.4, 0.5 * slots))
    missing = any(cell.words(kind.metric) for cell in study.cells)
    figure, axes = _grid(len(groups), columns, width, 3.2 if missing else 2.8)
    for ax, (facet, batches) in zip(axes, groups.items(), strict=True):
        ax.set_title(panel_title(facet, width / columns))
        slot_width = 68 * (width / columns - 0.9) / slots  # points
        _draw_facet(ax, study, kind, batches, slot_width)
    _legend(figure, study, line=False)
    return figure


def _series_of(study: Study, batches: dict[int, list[Cell]]) -> list[Series]:
    present = {cell.series for cells in batches.values() for cell in cells}
    return [series for series in study.series if series in present]


def _draw_facet(
    ax: Axes, study: Study, kind: PointFigure, batches: dict[int, list[Cell]], slot_width: float
) -> None:
    series = _series_of(study, batches)
    slot = 1 / (len(series) + 1)
    words: list[tuple[float, list[str], str]] = []
    marker_size = min(MARKER, max(3.0, 0.3 * slot_width))
    numbers: list[float] = []
    for group, cells in enumerate(batches.values()):
        if group % 2:
            ax.axvspan(group - 0.5, group + 0.5, color=GROUND, linewidth=0, zorder=0)
        for cell in cells:
            x = group + (series.index(cell.series) - (len(series) - 1) / 2) * slot
            values = cell.values(kind.metric)
            numbers += values
            if values:
                middle = median(values)
                ax.plot([x - 0.42 * slot, x + 0.42 * slot], [middle] * 2, color=INK, linewidth=1.1)
            spread = [0.5 * slot * ((i + 1) / (len(values) + 1) - 0.5) for i in range(len(values))]
            at = [x + dx for dx in spread]
            marker = _marker(study, cell.series, marker_size)
            ax.plot(at, values, linestyle="none", alpha=0.9, clip_on=False, **marker)
            runs = [run for run in cell.runs if run.values[kind.metric] is not None]
            for dx, value, run in zip(at, values, runs, strict=True):
                if _flagged(run):
                    size = marker_size + 4
                    ax.plot(
                        dx, value, "o", color=MUTED, fillstyle="none", markersize=size, mew=0.7,
                        clip_on=False,
                    )  # fmt: skip
            if missing := cell.words(kind.metric):
                words.append((x, missing, cell.series.framework))
    ax.set_xlim(-0.5, len(batches) - 0.5)
    ax.set_xticks(range(len(batches)), [str(batch) for batch in batches])
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("batch size")
    ax.grid(axis="y")
    _scale(ax, kind, numbers)
    if words:
        _write_words(ax, words, slot_width)


def _flagged(run: Result) -> bool:
    """Whether a run has a flag of its own, beside that on its framework and network."""
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


def _write_words(ax: Axes, words: list[tuple[float, list[str], str]], slot_width: float) -> None:
    """Open a strip below the axis for the words that stand where numbers would."""
    letter, line, height = 4.7, 10.0, 165.0  # points: of 7.5 point type, and of the axes
    flat = {x: "\n".join(missing).replace(" ", "\n") for x, missing, _ in words}
    upright = max(len(w) for text in flat.values() for w in text.split("\n")) * letter > slot_width
    texts = {x: "\n".join(missing) for x, missing, _ in words} if upright else flat
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
    for x, _, framework in words:
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


# Training loss


def draw_losses(study: Study) -> Figure:
    """Mean training loss by epoch: each run a thin line, the mean of the ok runs a thick one."""
    curves = [loss for run in study.runs for loss in run.losses if loss is not None]
    if not curves:
        figure = Figure(figsize=(6.0, 1.6))
        _message(figure, f"No run completed an epoch: {study.why_empty('final_loss')}.")
        return figure
    groups = study.by_facet()
    panels = [(f, b, cells) for f, batches in groups.items() for b, cells in batches.items()]
    columns = min(len(panels), 3 if len(panels) % 2 or len(panels) > 4 else 2)
    width = min(WIDTH, 4.4 * columns + 0.6)
    figure, axes = _grid(len(panels), columns, width, 2.7)
    limits = {facet: _loss_limits(batches) for facet, batches in groups.items()}
    for ax, (facet, batch, cells) in zip(axes, panels, strict=True):
        title = f"batch size {batch}"
        place = panel_title(facet, width / columns)
        ax.set_title(f"{place}\n{title}" if len(groups) > 1 else title)
        _draw_loss_panel(ax, study, cells)
        if limit := limits[facet]:
            low, high = limit
            if low > 0 and high / low > LOG_FROM:
                ax.set_yscale("log")
                ax.set_ylim(low / 1.3, high * 1.3)
            else:
                # Losses that differ in the fourth digit are as good as equal: no axis spreads them.
                pad = max(0.06 * (high - low), 0.01 * high) or 0.05
                ax.set_ylim(max(low - pad, 0.0) if low >= 0 else low - pad, high + pad)
        spell(ax)
        log = ", log scale" if ax.get_yscale() == "log" else ""
        ax.set_ylabel("mean training loss" + log)
        ax.set_xlabel("epoch")
        ax.grid(True)
    _legend(figure, study, line=True)
    return figure


def _loss_limits(batches: dict[int, list[Cell]]) -> tuple[float, float] | None:
    """The range of all losses of a facet, so that its panels share one scale."""
    losses = [
        loss
        for cells in batches.values()
        for cell in cells
        for run in cell.runs
        for loss in run.losses
        if loss is not None
    ]
    return (min(losses), max(losses)) if losses else None


def _draw_loss_panel(ax: Axes, study: Study, cells: list[Cell]) -> None:
    notes = []
    longest = max(len(run.losses) for cell in cells for run in cell.runs)
    for place, cell in enumerate(cells):
        marker = _marker(study, cell.series)
        colour = marker["color"]
        # Points of a single epoch would hide one another.
        shift = 0.08 * (place - (len(cells) - 1) / 2) if longest <= 1 else 0.0
        for run in cell.runs:
            losses = [loss if loss is not None else float("nan") for loss in run.losses]
            epochs = [epoch + shift for epoch in range(1, len(losses) + 1)]
            ax.plot(epochs, losses, color=colour, linewidth=0.7, alpha=0.55)
            if run.status != "ok":
                _mark_end(ax, losses, colour)
        if means := _mean_losses(cell.runs):
            every = max(1, len(means) // 6)
            ax.plot(
                [epoch + shift for epoch in range(1, len(means) + 1)],
                means,
                linewidth=1.5,
                markevery=every,
                **{**marker, "markersize": 4.5},
            )
        if cell.failed:
            words = cell.words("test_accuracy")
            notes.append((f"{cell.series.label}: {', '.join(words)}", darker(colour)))
    for i, (note, colour) in enumerate(notes):
        ax.annotate(
            note,
            xy=(1, 1),
            xycoords="axes fraction",
            xytext=(-2, -3 - 11 * i),
            textcoords="offset points",
            ha="right",
            va="top",
            color=colour,
            size=7.5,
        )
    if not longest and not notes:
        ax.text(
            0.5, 0.5, "no epoch was completed", transform=ax.transAxes, ha="center", color=MUTED
        )
    ax.set_xlim(0.5, max(longest, 1) + 0.5)
    ax.xaxis.set_major_locator(
        MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    )


def _mark_end(ax: Axes, losses: list[float], colour: str) -> None:
    """A cross at the last epoch that a failed run completed with a finite loss."""
    finite = [i for i, loss in enumerate(losses) if isfinite(loss)]
    if finite:
        ax.plot(
            [finite[-1] + 1], [losses[finite[-1]]], marker="x", color=darker(colour), markersize=6
        )


def _mean_losses(runs: list[Result]) -> list[float]:
    """The mean over the ok runs, up to the first epoch that one of them has no loss for."""
    means = []
    for losses in zip(*(run.losses for run in runs if run.status == "ok"), strict=False):
        finite = [loss for loss in losses if loss is not None]
        if len(finite) < len(losses):
            break
        means.append(fmean(finite))
    return means


# Texts


def _flags(study: Study, rings: bool) -> str:
    """What the figure says of flags, in sentences."""
    flags = [f for run in study.runs for f in run.flags if f != PARITY_NOT_SHOWN]
    pairs = {(c.series.framework, c.facet[0]) for c in study.cells if PARITY_NOT_SHOWN in c.flags}
    text = ""
    if flags:
        mark = "A ring marks a run with a flag" if rings else "Runs drawn carry flags"
        text += f"{mark} ({counted(flags)}). "
    if pairs:
        names = [f"{framework} on {network}" for framework, network in sorted(pairs)]
        more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        text += f"{UNPROVEN.strip()}: equal computation is not shown"
        text += f" ({', '.join(names[:NAMED] + more)}). "
    return text


def _setting(study: Study) -> str:
    """How many runs on which machine, in a sentence."""
    if not study.cells:
        return ""
    repeats = sorted({cell.plan.repeats for cell in study.cells})
    n = f"n = {repeats[0]}" if len(repeats) == 1 else f"n = {repeats[0]} to {repeats[-1]}"
    where = "; ".join(describe_machine(machine) for machine in machines(study))
    runs = "run" if repeats == [1] else "runs"
    return f"{n} {runs} per cell, each a fresh process. Machine: {where}."


def _point_texts(study: Study, kind: PointFigure) -> dict[str, str]:
    best = max(
        (
            (median(cell.values(kind.metric)), cell)
            for cell in study.cells
            if cell.values(kind.metric)
        ),
        key=lambda pair: pair[0],
        default=None,
    )
    caption = f"{kind.clock} Each point is one run, the line is their median. "
    if best and any(cell.words(kind.metric) for cell in study.cells):
        caption += "A word stands where there is no number (1/3: one run of three). "
    caption += _flags(study, rings=True)
    unit = METRICS[kind.metric].unit.replace("1", "")
    alt = f"Dot plot of {kind.label} by batch size and framework. "
    if best is None:
        alt += f"It has no point: {study.why_empty(kind.metric)}. "
    else:
        digits = max(0, 3 - ceil(log10(best[0]))) if best[0] > 0 else 0
        number = f"{best[0]:,.{digits}f} {unit}".strip()
        alt += (
            f"The highest median is {number}: {best[1].series.label} at batch size"
            f" {best[1].batch_size} on {', '.join(best[1].facet)}. "
        )
    alt += "The summary table holds the same numbers."
    return {"title": kind.title, "caption": caption + _setting(study), "alt": alt}


def _loss_texts(study: Study) -> dict[str, str]:
    caption = (
        "Mean loss over the steps of each epoch, warm-up included, so no clock is involved."
        " Thin lines are single runs, thick lines the mean of the ok runs."
    )
    if any(cell.failed for cell in study.cells):
        caption += " A cross marks the last complete epoch of a run that failed."
    caption = f"{caption} {_flags(study, rings=False)}".rstrip()
    alt = "Line plot of mean training loss by epoch, one panel per batch size. "
    finals = {cell.plan.name: cell.values("final_loss") for cell in study.cells}
    ends = [median(values) for values in finals.values() if values]
    if ends:
        alt += f"Median final losses lie between {min(ends):.3g} and {max(ends):.3g}. "
    alt += "The summary table holds the final losses."
    return {
        "title": "Training loss by epoch",
        "caption": f"{caption} {_setting(study)}",
        "alt": alt,
    }
