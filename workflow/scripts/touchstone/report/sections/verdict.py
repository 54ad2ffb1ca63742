"""The first screen: the verdict in plain words, and the most important numbers at a glance."""

import re
from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.part import UNIT_OF
from touchstone.analysis.ranking_model import ComparedPair, ComparisonSummary
from touchstone.plan.setting import PROGRAM, Kind
from touchstone.report.sections.answer import SENTENCES, rankings
from touchstone.report.sections.columns import MetricColumn, has_values, metric_columns
from touchstone.report.sections.ranking import begun, counted, leads_of
from touchstone.report.table import Column, Table, stack_name
from touchstone.report.text import (
    common_cell,
    compared_name,
    comparison_text,
    listing,
    number,
    optional_number,
    ratio_text,
)
from touchstone.results.metrics import HEADED, METRICS, SPEED_OF, unit_text
from touchstone.results.models import has_ratios

NAMED = 3
"""Configurations beside the fastest that the verdict names."""
GLANCE = 12
"""Configurations that the table at a glance has at most."""
COLUMNS = [
    MetricColumn(METRICS[name].heading, unit_text(name), name, 3 if has_ratios(name) else 4)
    for name in HEADED
    if name != "first_step_time"  # a part of the start-up
]
START_UP = ("import", "load", "build", "first_step")
"""The phases before a run is at work."""


def view(findings: Findings) -> dict[str, Any]:
    """The verdicts, and of a study with one question its intervals."""
    return {
        "verdicts": verdicts(findings),
        "intervals": intervals(findings),
    }


def verdicts(findings: Findings) -> list[str]:
    """Who was fastest in each comparison, and by how much, without intervals."""
    lines = []
    for kind in UNIT_OF:
        comparisons = [o for o in findings.comparisons if o.workload == kind]
        if len(comparisons) > SENTENCES:
            first, *_ = re.split(r"(?<=\.) (?=[A-Z])", counted(findings, comparisons))
            lines.append(re.sub(r" \[[^]]*\]", "", first))
        else:
            headed = len(findings.comparisons) > 1
            lines += [_verdict(findings, comparison, headed) for comparison in comparisons]
    return lines or rankings(findings)[:1]


def _verdict(findings: Findings, comparison: ComparisonSummary, headed: bool) -> str:
    names = _names(findings, comparison)
    if comparison.n < 2:
        parts = ["too few runs to tell which is fastest"]
    elif comparison.too_noisy:
        parts = ["no answer, the machine was too noisy"]
    else:
        parts = _parts(comparison, names)
    place = f"{comparison_text(comparison, common_cell(findings, comparison))}: " if headed else ""
    if comparison.workload != PROGRAM:  # whose name its author spells
        parts = list(map(begun, parts))
    return f"{place}{'. '.join(parts)}."


def _parts(comparison: ComparisonSummary, names: dict[str, str]) -> list[str]:
    """The verdict on a comparison that has one: the fastest against all others."""
    first = names[comparison.leader]
    equal, slower, unknown, _ = leads_of(comparison)
    parts = []
    if equal:
        parts.append(f"{first} and {_listed(equal, names)} are equally fast")
    if unknown:
        parts.append(f"cannot tell whether {first} is faster than {_listed(unknown, names)}")
    if slower:
        ratios = [f"{_times(pair)} as fast as {names[pair.slower]}" for pair in slower[:NAMED]]
        rest = len(slower) - NAMED
        more = f", and faster than {rest} more" if rest > 0 else ""
        parts.append(f"{first} is {listing(ratios)}{more}")
    return parts or [f"no configuration has a ratio to {first}"]


def intervals(findings: Findings) -> str:
    """The intervals of the ratios in the verdict; empty where it has none, or several."""
    if len(findings.comparisons) != 1 or findings.comparisons[0].too_noisy:
        return ""
    (comparison,) = findings.comparisons
    names = _names(findings, comparison)
    texts = [
        f"{names[pair.slower]} {ratio_text(pair.ratio.low)} to {ratio_text(pair.ratio.high)}"
        for pair in comparison.leads[:NAMED]
        if pair.ratio and pair.ratio.low is not None and pair.ratio.high is not None
    ]
    if not texts:
        return ""
    return f"95 % intervals: {', '.join(texts)} times."


def _times(pair: ComparedPair) -> str:
    assert pair.ratio
    return f"{ratio_text(pair.ratio.value)} times"


def _listed(pairs: Sequence[ComparedPair], names: dict[str, str]) -> str:
    rest = len(pairs) - NAMED
    more = [f"{rest} more"] if rest > 0 else []
    return listing([*(names[pair.slower] for pair in pairs[:NAMED]), *more])


def _names(findings: Findings, comparison: ComparisonSummary) -> dict[str, str]:
    """The names of the compared cells, without their brackets if these tell none apart."""
    names = {c.cell: compared_name(comparison, findings.cell[c.cell]) for c in comparison.cells}
    short = {cell: re.sub(r" \([^()]*\)$", "", name) for cell, name in names.items()}
    return short if len(set(short.values())) == len(short) else names


def glance(findings: Findings, price_per_hour: str = "") -> Table | None:
    """The numbers of one comparison's cells, the fastest first, or of a study's only cell.

    Args:
        price_per_hour: of the machine, as `0.40 USD`; without one there is no column of costs.
    """
    if len(findings.comparisons) > 1:
        return None
    comparison = findings.comparisons[0] if findings.comparisons else None
    names = [c.cell for c in comparison.cells] if comparison else [c.name for c in findings.cells]
    cells = [findings.cell[name] for name in names]
    if len(cells) > GLANCE or (not comparison and len(cells) > 1):
        return None
    kind = cells[0].workload
    speeds = {cell.cell: cell.speed for cell in comparison.cells} if comparison else {}
    shown = _names(findings, comparison) if comparison else {}
    columns = (
        Column("Configuration", lambda cell: stack_name(cell, shown.get(cell.name, ""))),
        Column("Speed", lambda cell: optional_number(_speed(cell, speeds)), UNIT_OF[kind]),
        *([_cost_column(price_per_hour, kind, speeds)] if price_per_hour else ()),
        *metric_columns([column for column in COLUMNS if has_values(cells, [column.metric])]),
        Column("Start-up", _start_up, "s"),
    )
    return Table("At a glance", columns, cells, css="glance")


def _speed(cell: CellSummary, speeds: dict[str, float | None]) -> float | None:
    """The speed that the verdict rests on, or the median of the runs."""
    summary = cell.metrics.get(SPEED_OF[cell.workload])
    return speeds.get(cell.name) or (summary.median if summary else None)


def _cost_column(price_per_hour: str, kind: Kind, speeds: dict[str, float | None]) -> Column:
    """The price of an hour / the examples of an hour at the cell's speed, for a million."""
    price, currency = price_per_hour.split()
    million = float(price) / 3600 * 1e6

    def cost(cell: CellSummary) -> str | None:
        speed = _speed(cell, speeds)
        return number(million / speed, 3) if speed else None

    examples = UNIT_OF[kind].removesuffix("/s")
    return Column("Cost", cost, f"{currency} / million {examples}")


def _start_up(cell: CellSummary) -> str | None:
    """The median seconds from a run's start to the end of its first step."""
    seconds = [cell.phases[name] for name in START_UP if name in cell.phases]
    return number(sum(seconds), 3) if seconds else None
