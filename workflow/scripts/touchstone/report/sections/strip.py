"""The chart next to the answer: a metric of each configuration, as dots, mean and interval.

The page draws its first state. `static/chart.js` draws the others from the same rows, so whatever
is a number or a sentence is made here, for every metric and every baseline.
"""

import json
from collections.abc import Iterator
from math import floor, log10
from typing import Any, NamedTuple

from markupsafe import Markup

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import UNIT_OF
from touchstone.analysis.ranking_model import (
    CHARTED,
    ComparedMetric,
    ComparisonSummary,
    MetricOfCell,
    MetricPair,
)
from touchstone.report.figures.style import style_of
from touchstone.report.sections.answer import SENTENCES
from touchstone.report.text import (
    common_cell,
    compared_name,
    comparison_text,
    contrast_text,
    number,
)
from touchstone.results.metrics import HIGHER, METRICS, SPEED_OF, unit_text
from touchstone.results.models import has_ratios

TICKS = 5
"""Steps of the axis at most."""
ROOM = 1.25
"""How far the axis may go beyond the largest dot to show the end of an interval, as a ratio."""
NICE = (1, 2, 2.5, 5, 10)
"""Steps of the axis, times a power of ten."""
CHOICES = 30
"""Comparisons that the page offers at most, where it draws one of them."""


class Against(NamedTuple):
    """A configuration against a baseline: ratio or difference in words, and the ends of its
    interval on the axis, % of its length; `cut` where it ends beyond the axis."""

    text: str
    low: str = ""
    high: str = ""
    cut: bool = False


class Row(NamedTuple):
    """A configuration; places are on the axis, % of its length.

    `values` says what its dots are, `against` has every baseline by name.
    """

    name: str
    colour: str
    value: str
    values: str
    dots: list[str]
    middle: str
    against: dict[str, Against]


class Chart(NamedTuple):
    """A metric of a comparison, the best configuration first, which is the first baseline.

    `ticks` are places on the axis with their numbers, `note` says how to read it.
    """

    label: str
    unit: str
    ticks: list[tuple[str, str]]
    rows: list[Row]
    note: str


class Strip(NamedTuple):
    """A comparison: its speed, then its other metrics.

    `left_out` is the number of configurations that have a speed and are not drawn.
    """

    heading: str
    charts: list[Chart]
    left_out: int


def view(findings: Findings) -> dict[str, Any]:
    """The strips of the comparisons that are drawn: all, or of many the first; and as JSON those
    that the page offers.

    Speeds of one workload, network and data set have the same axis where all are drawn.
    """
    comparisons = findings.comparisons
    is_many = len(comparisons) > SENTENCES
    ends: dict[tuple[str, ...], float] = {}
    for comparison in comparisons if not is_many else ():
        ends[_work(comparison)] = max(_reach(_speed(comparison)), ends.get(_work(comparison), 0.0))
    strips = [
        _strip(findings, comparison, ends.get(_work(comparison)))
        for comparison in comparisons[:CHOICES]
    ]
    return {
        "strips": strips[:1] if is_many else strips,
        "strips_left_out": len(comparisons) - 1 if is_many else 0,
        "comparisons_total": len(comparisons),
        "strips_json": _as_json(strips) if strips else "",
    }


def _as_json(strips: list[Strip]) -> Markup:
    """The strips as `static/chart.js` reads them."""
    values = [
        strip._asdict()
        | {
            "charts": [
                chart._asdict() | {"rows": [row._asdict() for row in chart.rows]}
                for chart in strip.charts
            ]
        }
        for strip in strips
    ]
    return Markup(json.dumps(values, separators=(",", ":")).replace("<", "\\u003c"))


def _work(comparison: ComparisonSummary) -> tuple[str, ...]:
    return comparison.workload, comparison.network, comparison.dataset


def _speed(comparison: ComparisonSummary) -> ComparedMetric:
    """The speed of a comparison in the form of its other metrics."""
    cells = [
        MetricOfCell(cell=cell.cell, value=cell.speed, values=cell.values)
        for cell in comparison.cells
        if cell.speed is not None
    ][:CHARTED]
    pairs = [
        MetricPair(
            cell=pair.faster, reference=pair.slower, value=pair.ratio.value, low=pair.ratio.low,
            high=pair.ratio.high,
        )
        for pair in comparison.pairs
        if pair.ratio
    ]  # fmt: skip
    return ComparedMetric(metric=SPEED_OF[comparison.workload], cells=cells, pairs=pairs)


def _strip(findings: Findings, comparison: ComparisonSummary, end: float | None) -> Strip:
    speed = _speed(comparison)
    charts = [
        _chart(findings, comparison, speed, "Speed", UNIT_OF[comparison.workload], end),
        *(
            _chart(findings, comparison, m, METRICS[m.metric].heading, unit_text(m.metric))
            for m in comparison.metrics
        ),
    ]
    return Strip(
        heading=comparison_text(comparison, common_cell(findings, comparison)),
        charts=charts,
        left_out=sum(cell.speed is not None for cell in comparison.cells) - len(speed.cells),
    )


def _contrasts(metric: ComparedMetric) -> dict[tuple[str, str], tuple[float, ...]]:
    """Of each ordered pair of cells value, low and high of one against the other; without an
    interval only the value."""
    contrasts: dict[tuple[str, str], tuple[float, ...]] = {}
    for pair in metric.pairs:
        numbers = [x for x in (pair.value, pair.low, pair.high) if x is not None]
        turned = [1 / x if has_ratios(metric.metric) else -x for x in numbers]
        contrasts[pair.cell, pair.reference] = tuple(numbers)
        contrasts[pair.reference, pair.cell] = (turned[0], *reversed(turned[1:]))
    return contrasts


def _ends(contrast: tuple[float, ...], baseline: float, is_ratio: bool) -> list[float]:
    """The interval of a cell in the metric's unit: that of its ratio times the baseline's value,
    or that of its difference from it. Empty where there is none."""
    _, *ends = contrast
    return [end * baseline if is_ratio else end + baseline for end in ends]


def _reach(metric: ComparedMetric) -> float:
    """The largest dot, or the end of an interval against the first cell that is not far beyond."""
    most = max(max(cell.values, default=0.0) for cell in metric.cells)
    most = max(most, *(cell.value for cell in metric.cells))
    first, is_ratio = metric.cells[0], has_ratios(metric.metric)
    highs = (
        max(_ends(contrast, first.value, is_ratio), default=0.0)
        for (_, baseline), contrast in _contrasts(metric).items()
        if baseline == first.cell
    )
    return max([most, *(min(high, ROOM * most) for high in highs)])


def axis(most: float) -> tuple[float, list[float]]:
    """The end of an axis from 0 that holds `most`, and its ticks."""
    unit = 10.0 ** floor(log10(most / TICKS)) if most > 0 else 1.0
    step = next(nice * unit for nice in NICE if nice * unit * TICKS >= most * 0.999)
    end = 1.04 * most or 1.0
    return end, [i * step for i in range(int(end / step) + 1)]


def _chart(
    findings: Findings,
    comparison: ComparisonSummary,
    metric: ComparedMetric,
    label: str,
    unit: str,
    reach: float | None = None,
) -> Chart:
    end, ticks = axis(reach or _reach(metric))
    names = {c.cell: compared_name(comparison, findings.cell[c.cell]) for c in metric.cells}
    what = "set" if comparison.in_turn and metric.metric == SPEED_OF[comparison.workload] else "run"
    contrasts = _contrasts(metric)
    is_ratio = has_ratios(metric.metric)

    def against(cell: str) -> Iterator[tuple[str, Against]]:
        for baseline in metric.cells:
            if baseline.cell == cell:
                yield names[cell], Against("baseline")
            elif contrast := contrasts.get((cell, baseline.cell)):
                text = contrast_text(contrast, is_ratio)
                ends = _ends(contrast, baseline.value, is_ratio)
                places = [_place(min(max(x, 0.0), end), end) for x in ends] or ["", ""]
                yield (
                    names[baseline.cell],
                    Against(text, places[0], places[1], max(ends, default=0) > end),
                )

    rows = [
        Row(
            name=names[cell.cell],
            colour=style_of(findings.cell[cell.cell].framework)[0],
            value=number(cell.value),
            values=f"{len(cell.values)} {what}{'s' * (len(cell.values) != 1)}: "
            + ", ".join(map(number, cell.values)),
            dots=[_place(value, end) for value in cell.values],
            middle=_place(cell.value, end),
            against=dict(against(cell.cell)),
        )
        for cell in metric.cells
    ]
    return Chart(
        label=label,
        unit=unit,
        ticks=[(_place(tick, end), f"{tick:,.10g}") for tick in ticks],
        rows=rows,
        note=_note(metric, what),
    )


def _place(value: float, end: float) -> str:
    return f"{100 * value / end:.2f}%"


def _note(metric: ComparedMetric, what: str) -> str:
    """How to read a chart."""
    better = "Higher" if METRICS[metric.metric].better == HIGHER else "Lower"
    dots = "set of processes that took turns" if what == "set" else "run"
    if not any(pair.low is not None for pair in metric.pairs):
        return f"{better} is better. A dot is a {dots}."
    return (
        f"{better} is better. A dot is a {dots}, a bar the 95 % interval relative to the baseline,"
        " the dashed line: where a bar does not reach it, the difference is shown."
    )
