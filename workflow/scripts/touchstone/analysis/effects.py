"""What each factor of a comparison changes, all else the same."""

import re
from collections.abc import Iterable, Sequence
from math import exp, inf, log
from statistics import fmean

from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import FactorEffect, FactorLevel
from touchstone.analysis.ratio import estimate
from touchstone.plan.names import BEST
from touchstone.results.planned import COMPARED
from touchstone.results.study import Cell
from touchstone.statistics.groups import Group
from touchstone.statistics.intervals import UNDECIDED

NUMBERS = ("batch_size", "threads", "reader_threads", "replicas", "nodes")
"""Factors whose values are numbers; an empty one, of all threads, is the largest."""
RELEASES = "environment"
"""The factor whose values have the order of their framework's versions."""


def effects(cells: Sequence[Cell], compared: Sequence[str], group: Group) -> list[FactorEffect]:
    """The effects of the factors in which some cells differ. Values without an order begin with
    that of the slowest cell.

    None of framework, mode and style: such a comparison is a ranking.

    Args:
        cells: that have a speed, the fastest first.
        group: the model of their speeds.
    """
    if list(compared) == [RELEASES]:
        versions = {cell.plan.factors[RELEASES]: _version(cell) for cell in cells}
        if None in versions.values() or len(set(versions.values())) < len(cells):
            return []
        return [_effect(RELEASES, cells, group, versions)]
    if set(compared) <= set(COMPARED):
        return []
    fixed = [cell for cell in cells if cell.plan.factors["mode"] != BEST]
    found = (_effect(factor, fixed, group, {}) for factor in compared if factor not in COMPARED)
    return [effect for effect in found if any(level.ratio for level in effect.levels)]


def _effect(
    factor: str, cells: Sequence[Cell], group: Group, versions: dict[str, str | None]
) -> FactorEffect:
    values = list(dict.fromkeys(cell.plan.factors[factor] for cell in reversed(cells)))
    ordered = factor in NUMBERS or bool(versions)
    if ordered:
        values.sort(key=lambda value: _order(versions.get(value) or value))
    by_rest: dict[tuple[str, ...], dict[str, Cell]] = {}
    for cell in cells:
        rest = tuple(value for name, value in cell.plan.factors.items() if name != factor)
        by_rest.setdefault(rest, {})[cell.plan.factors[factor]] = cell
    first = values[0]
    levels = [
        FactorLevel(value=first, version=versions.get(first), ratio=None, least=None, most=None)
    ]
    for value in values[1:]:
        pairs = [
            (one[value], one[first]) for one in by_rest.values() if {value, first} <= one.keys()
        ]
        ratios = [estimate(group.ratio(*(c.plan.name for c in pair))) for pair in pairs]
        levels.append(_level(value, versions.get(value), [ratio for ratio in ratios if ratio]))
    return FactorEffect(factor=factor, ordered=ordered, levels=levels)


def _level(value: str, version: str | None, ratios: Sequence[RatioEstimate]) -> FactorLevel:
    known = [ratio.value for ratio in ratios]
    return FactorLevel(
        value=value,
        version=version,
        ratio=_mean(ratios) if ratios else None,
        least=min(known, default=None),
        most=max(known, default=None),
    )


def _mean(ratios: Sequence[RatioEstimate]) -> RatioEstimate:
    """The geometric mean of ratios and of the ends of their intervals: where these hold the true
    ratios, it holds their mean."""
    if len(ratios) == 1:
        return ratios[0]
    low, high = _geometric(r.low for r in ratios), _geometric(r.high for r in ratios)
    middle = _geometric(r.value for r in ratios)
    assert middle is not None
    verdict = ratios[0].verdict
    if low is not None and high is not None:
        verdict = "faster" if low > 1 else "slower" if high < 1 else UNDECIDED
    return RatioEstimate(
        n=min(r.n for r in ratios),
        value=middle,
        low=low,
        high=high,
        verdict=verdict,
        indicative=any(r.indicative for r in ratios),
        detectable=None,
        detectable_low=None,
        detectable_high=None,
    )


def _geometric(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return exp(fmean(map(log, known))) if len(known) == len(found) else None


def _order(value: str) -> tuple[float, ...]:
    """The place of a number or of a version; that of no number is the last."""
    return tuple(map(float, re.findall(r"\d+", value))) or (inf,)


def _version(cell: Cell) -> str | None:
    """The version of the framework that the cell's runs used; None where they differ."""
    found = {run.provenance["software"].get("version") for run in cell.runs}
    return found.pop() if len(found) == 1 else None
