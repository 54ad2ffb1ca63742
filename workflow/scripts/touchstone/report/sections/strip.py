"""The picture next to the answer: for each configuration its sets or runs as dots, and an
interval."""

from collections.abc import Iterable, Sequence
from math import floor, log10
from typing import Any, NamedTuple

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import UNIT_OF, RatioEstimate
from touchstone.analysis.ranking_model import ComparedCell, ComparisonSummary
from touchstone.report.figures.style import style_of
from touchstone.report.sections.answer import SENTENCES
from touchstone.report.text import (
    common_cell,
    compared_name,
    comparison_text,
    number,
    relative_text,
)

ROWS = 8
"""Configurations of a comparison that are drawn at most."""
TICKS = 5
"""Steps of the axis at most."""
ROOM = 1.25
"""How far the axis may go beyond the fastest dot to show the end of an interval, as a ratio."""
NICE = (1, 2, 2.5, 5, 10)
"""Steps of the axis, times a power of ten."""


class Line(NamedTuple):
    """An interval on the axis, % of its length; `cut` where it ends beyond the axis."""

    low: float
    high: float
    cut: bool


class Row(NamedTuple):
    """A configuration: its sets or runs, and its speed on the axis, % of its length."""

    name: str
    colour: str
    speed: str
    relative: str
    dots: list[float]
    middle: float
    line: Line | None
    description: str


class Strip(NamedTuple):
    """A comparison: the fastest configuration first.

    `ticks` are places on the axis with their numbers, `left_out` is the number of configurations
    that have a speed and are not drawn; `dots` is what a dot is.
    """

    heading: str
    rows: list[Row]
    ticks: list[tuple[float, str]]
    left_out: int
    has_intervals: bool
    unit: str
    dots: str


def view(findings: Findings) -> dict[str, Any]:
    """The strips of the comparisons; of many only the first, and how many there are.

    Those of one workload, network and data set have the same axis.
    """
    comparisons = findings.comparisons
    shown = comparisons if len(comparisons) <= SENTENCES else comparisons[:1]
    values: dict[tuple[str, ...], list[float]] = {}
    for one in shown:
        values.setdefault(_work(one), []).extend(_values(_drawn(one)))
    return {
        "strips": [_strip(findings, one, *axis(values[_work(one)])) for one in shown],
        "strips_left_out": len(comparisons) - len(shown),
        "comparisons_total": len(comparisons),
    }


def _work(one: ComparisonSummary) -> tuple[str, ...]:
    return one.workload, one.network, one.dataset


def _drawn(one: ComparisonSummary) -> list[ComparedCell]:
    return [cell for cell in one.cells if cell.speed is not None][:ROWS]


def _strip(findings: Findings, one: ComparisonSummary, end: float, ticks: list[float]) -> Strip:
    leads = {pair.slower: pair.ratio for pair in one.leads}
    rows = [_row(findings, one, cell, end, leads.get(cell.cell)) for cell in _drawn(one)]
    return Strip(
        heading=comparison_text(one, common_cell(findings, one)),
        rows=rows,
        ticks=[(100 * tick / end, f"{tick:,.10g}") for tick in ticks],
        left_out=sum(cell.speed is not None for cell in one.cells) - len(rows),
        has_intervals=any(row.line for row in rows),
        unit=UNIT_OF[one.workload],
        dots="set of processes" if one.in_turn else "run",
    )


def _values(cells: Sequence[ComparedCell]) -> list[float]:
    """The dots, and the ends of intervals that are not far beyond them."""
    dots = [value for cell in cells for value in (*cell.values, cell.speed or 0)]
    ends = [cell.high for cell in cells if cell.high is not None]
    return [*dots, *(min(high, ROOM * max(dots)) for high in ends)]


def axis(values: Iterable[float]) -> tuple[float, list[float]]:
    """The end of an axis from 0 that holds all values, and its ticks."""
    most = max(values)
    unit = 10.0 ** floor(log10(most / TICKS))
    step = next(nice * unit for nice in NICE if nice * unit * TICKS >= most * 0.999)
    end = 1.04 * most
    return end, [i * step for i in range(int(end / step) + 1)]


def _row(
    findings: Findings,
    one: ComparisonSummary,
    cell: ComparedCell,
    end: float,
    lead: RatioEstimate | None,
) -> Row:
    summary = findings.cell[cell.cell]
    name = compared_name(one, summary)
    values = ", ".join(number(value) for value in cell.values)
    what = "set" if one.in_turn else "run"
    text = f"{name}: {cell.n} {what}{'s' * (cell.n != 1)} with {values} {UNIT_OF[one.workload]}"
    line = None
    if cell.low is not None and cell.high is not None:
        text += f"; interval relative to the fastest {number(cell.low)} to {number(cell.high)}"
        high = 100 * cell.high / end
        line = Line(100 * cell.low / end, min(high, 100), high > 100)
    return Row(
        name=name,
        colour=style_of(summary.framework)[0],
        speed=number(cell.speed),
        relative=relative_text(cell.cell == one.leader, lead),
        dots=[100 * value / end for value in cell.values],
        middle=100 * (cell.speed or 0) / end,
        line=line,
        description=f"{text}.",
    )
