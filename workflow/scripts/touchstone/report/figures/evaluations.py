"""The accuracy of every run by the time that it had trained."""

from collections.abc import Sequence

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
from touchstone.report.figures.style import panel_title
from touchstone.results.study import Cell, Result, Study


def evaluates(study: Study) -> bool:
    """Whether a cell is evaluated while it trains."""
    return any(cell.plan.settings.evaluate_every for cell in study.cells)


def _points(run: Result) -> list[tuple[float, float]]:
    """Seconds of training and the test accuracy then."""
    return [(at, accuracy) for at, accuracy in run.evaluations if accuracy is not None]


def draw_evaluations(study: Study, most: float = WIDTH) -> Figure:
    """A line for each run, a panel for each network and batch size.

    Args:
        most: width of the figure at most, inches; below the usual one it has a single column.
    """
    groups = study.by_facet()
    panels = [
        (facet, batch, cells)
        for facet, batches in groups.items()
        for batch, cells in batches.items()
        if any(_points(run) for cell in cells for run in cell.runs)
    ]
    if not panels:
        why = study.why_empty("test_accuracy") or "none that is drawn is, while it trains"
        return message(f"No run was evaluated: {why}.")
    columns, width = layout_of(len(panels), most)
    figure, axes = grid(len(panels), columns, width, 2.7)
    for ax, (facet, batch, cells) in zip(axes, panels, strict=True):
        ax.set_title(panel_title([*facet, f"batch size {batch}"], width / columns))
        _panel(ax, study, cells)
    legend(figure, study, line=True)
    return figure


def _panel(ax: Axes, study: Study, cells: Sequence[Cell]) -> None:
    for cell in cells:
        marker = marker_style(study, cell.series, 4.0)
        for run in cell.runs:
            if points := _points(run):
                seconds, accuracies = zip(*points, strict=True)
                ax.plot(seconds, accuracies, linewidth=1.0, alpha=0.8, **marker)
    ax.set_xlim(left=0)
    ax.set_xlabel("training time (s)")
    ax.set_ylabel("test accuracy")
    ax.xaxis.set_major_formatter(plain)
    ax.grid(True)


def evaluation_texts(study: Study) -> dict[str, str]:
    """Title, caption and alternative text."""
    ends = [points[-1] for run in study.runs if (points := _points(run))]
    alt = "Line plot of test accuracy by training time. "
    if ends:
        low, high = min(y for _, y in ends), max(y for _, y in ends)
        alt += f"The last accuracies lie between {low:.3g} and {high:.3g}. "
    return {
        "title": "Test accuracy by training time",
        "caption": "Correct / all examples of the test set, by the time of training until then,"
        f" evaluations left out. A line is a run. {flags(study, rings=False)}{setting(study)}",
        "alt": alt + "The records hold every evaluation.",
    }
