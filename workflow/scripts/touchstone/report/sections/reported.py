"""What programs report of themselves: their losses side by side."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from touchstone.analysis.findings_model import CellSummary, Findings, Reported
from touchstone.report.figures.style import style_of
from touchstone.report.table import Column, Table, stack_name
from touchstone.report.text import number, optional_number

WIDTH, HEIGHT = 600.0, 160.0
"""Of the drawing, in its own units."""


class Curve(NamedTuple):
    """A program's losses, as the points of an SVG line, and the place of the last one."""

    name: str
    colour: str
    points: str
    x: str
    y: str


class Losses(NamedTuple):
    """The losses of programs that do the same: `sentence` says how far they are apart."""

    heading: str
    curves: list[Curve]
    steps: int
    least: str
    most: str
    sentence: str
    table: Table


def view(findings: Findings) -> dict[str, Any]:
    """The losses of each group of programs that are compared."""
    cells = [cell for cell in findings.cells_of("program") if _losses(cell)]
    groups = groupby(sorted(cells, key=_work), key=_work)
    return {"reported": [_group(list(group)) for _, group in groups]}


def _work(cell: CellSummary) -> tuple[str, str, str, int]:
    return *cell.facet, cell.batch_size


def _losses(cell: CellSummary) -> list[tuple[int, float]]:
    return [(report.step, report.loss) for report in cell.reports if report.loss is not None]


def _group(cells: Sequence[CellSummary]) -> Losses:
    losses = {cell.name: _losses(cell) for cell in cells}
    values = [loss for points in losses.values() for _, loss in points]
    least, most = min(values), max(values)
    steps = max(points[-1][0] for points in losses.values())
    common = min(points[-1][0] for points in losses.values())
    first = [points[0][1] for points in losses.values()]
    then = [_after(points, common) for points in losses.values()]
    sentence = ""
    if len(cells) > 1:
        sentence = (
            f"The first losses lie between {number(min(first))} and {number(max(first))}, those"
            f" after {common:,} steps between {number(min(then))} and {number(max(then))}."
        )
    first_cell = cells[0]
    return Losses(
        heading=f"{first_cell.network}, batch size {first_cell.batch_size}",
        curves=[_curve(cell, losses[cell.name], steps, least, most) for cell in cells],
        steps=steps,
        least=number(least),
        most=number(most),
        sentence=sentence,
        table=_table(cells, losses, common),
    )


def _after(points: Sequence[tuple[int, float]], steps: int) -> float:
    """The last loss after at most so many steps, or else the first one."""
    until = [loss for step, loss in points if step <= steps]
    return until[-1] if until else points[0][1]


def _curve(
    cell: CellSummary, losses: Sequence[tuple[int, float]], steps: int, least: float, most: float
) -> Curve:
    span = most - least or 1.0
    points = [
        f"{WIDTH * step / max(steps, 1):.1f},{HEIGHT * (most - loss) / span:.1f}"
        for step, loss in losses
    ]
    colour, _ = style_of(cell.framework)
    return Curve(cell.factors["program"], colour, " ".join(points), *points[-1].split(","))


def _accuracy(reports: Sequence[Reported]) -> str | None:
    accuracies = [report.accuracy for report in reports if report.accuracy is not None]
    return optional_number(accuracies[-1]) if accuracies else None


def _table(
    cells: Sequence[CellSummary], losses: dict[str, list[tuple[int, float]]], common: int
) -> Table:
    columns = (
        Column("Program", lambda cell: stack_name(cell, cell.factors["program"])),
        Column("First loss", lambda cell: number(losses[cell.name][0][1])),
        Column("Loss", lambda cell: number(_after(losses[cell.name], common)), f"step {common:,}"),
        Column("Last loss", lambda cell: number(losses[cell.name][-1][1])),
        Column("Last step", lambda cell: f"{losses[cell.name][-1][0]:,}"),
        Column("Last accuracy", lambda cell: _accuracy(cell.reports)),
    )
    return Table("What the programs report", columns, cells)
