"""The training losses of every run."""

from math import isfinite
from statistics import fmean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from touchstone.report.figures.axes import spell
from touchstone.report.figures.panels import (
    LOG_FROM,
    MUTED,
    WIDTH,
    flags,
    grid,
    layout_of,
    legend,
    marker_style,
    message,
    setting,
)
from touchstone.report.figures.style import darker, panel_title
from touchstone.results.study import Cell, Result, Study


def draw_losses(study: Study, most: float = WIDTH) -> Figure:
    """Mean training loss by epoch: each run a thin line, the mean of the ok runs a thick one.

    Args:
        most: width of the figure at most, inches; below the usual one it has a single column.
    """
    curves = [loss for run in study.runs for loss in run.losses if loss is not None]
    if not curves:
        return message(f"No run completed an epoch: {study.why_empty('final_loss')}.")
    groups = study.by_facet()
    panels = [(f, b, cells) for f, batches in groups.items() for b, cells in batches.items()]
    across = 3 if len(panels) % 2 or len(panels) > 4 else 2
    columns, width = layout_of(len(panels), most, across)
    figure, axes = grid(len(panels), columns, width, 2.7)
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
    legend(figure, study, line=True)
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
        marker = marker_style(study, cell.series)
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
            missing = ", ".join(cell.words("test_accuracy"))
            notes.append((f"{cell.series.label}: {missing}", darker(colour)))
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


def loss_texts(study: Study) -> dict[str, str]:
    caption = (
        "Mean loss over the steps of each epoch, warm-up included, so no clock is involved."
        " Thin lines are single runs, thick lines the mean of the ok runs."
    )
    if any(cell.failed for cell in study.cells):
        caption += " A cross marks the last complete epoch of a run that failed."
    caption = f"{caption} {flags(study, rings=False)}".rstrip()
    alt = "Line plot of mean training loss by epoch, one panel per batch size. "
    finals = {cell.plan.name: cell.values("final_loss") for cell in study.cells}
    ends = [median(values) for values in finals.values() if values]
    if ends:
        alt += f"Median final losses lie between {min(ends):.3g} and {max(ends):.3g}. "
    alt += "The summary table holds the final losses."
    return {
        "title": "Training loss by epoch",
        "caption": f"{caption} {setting(study)}",
        "alt": alt,
    }
