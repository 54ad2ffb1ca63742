"""What each factor of a comparison changes, all else the same."""

import re
from collections.abc import Iterable, Sequence
from math import exp, inf, log
from statistics import fmean

from touchstone.analysis.groups import differing_by
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import ComparisonSummary, Curve, FactorEffect, FactorLevel
from touchstone.analysis.ratio import estimate
from touchstone.plan.names import BEST
from touchstone.plan.setting import Kind
from touchstone.results.interleaved import is_too_wide
from touchstone.results.metrics import SPEED_OF
from touchstone.results.planned import COMPARED
from touchstone.results.study import Cell, Study
from touchstone.statistics.groups import Group, compare_groups
from touchstone.statistics.intervals import UNDECIDED

NUMBERS = ("batch_size", "threads", "reader_threads", "replicas", "nodes")
"""Factors whose values are numbers; an empty one, of all threads, is the largest."""
OF_CURVES = ("batch_size", "threads", "reader_threads")
"""Those of them that have a curve beside comparisons of frameworks; replicas have a table."""
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
    fixed = [cell for cell in cells if cell.plan.settings.mode != BEST] or list(cells)
    by_factor = (_effect(factor, fixed, group, {}) for factor in compared if factor not in COMPARED)
    return [effect for effect in by_factor if any(level.ratio for level in effect.levels)]


def curves(study: Study, workload: Kind, comparisons: Iterable[ComparisonSummary]) -> list[Curve]:
    """How each of `OF_CURVES` changes the speed of the configurations of a study, by its runs;
    none of those that ran once."""
    sets = [{cell.cell for cell in comparison.cells} for comparison in comparisons]
    compared = set().union(*sets)
    series: list[tuple[str, list[Cell]]] = []
    for factor in OF_CURVES:
        for cells in differing_by(study.cells, factor):
            valued = [cell for cell in cells if cell.values(SPEED_OF[workload])]
            names = {cell.plan.name for cell in valued}
            if len(names) > 1 and names <= compared and not any(names <= group for group in sets):
                series.append((factor, valued))
    models = compare_groups(
        [{c.plan.name: c.by_block(SPEED_OF[workload]) for c in cells} for _, cells in series]
    )
    return [
        _curve(workload, factor, cells, model)
        for (factor, cells), model in zip(series, models, strict=True)
        if model.freedom
    ]


def _curve(workload: Kind, factor: str, cells: Sequence[Cell], model: Group) -> Curve:
    named = {cell.plan.name: cell for cell in cells}
    return Curve(
        workload=workload,
        cells=model.ranked,
        effect=_effect(factor, [named[name] for name in model.ranked], model, {}),
        too_noisy=is_too_wide(model),
    )


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
            (row[value], row[first]) for row in by_rest.values() if {value, first} <= row.keys()
        ]
        ratios = [estimate(group.ratio(*(c.plan.name for c in pair))) for pair in pairs]
        levels.append(_level(value, versions.get(value), [ratio for ratio in ratios if ratio]))
    return FactorEffect(factor=factor, ordered=ordered, levels=levels)


def _level(value: str, version: str | None, ratios: Sequence[RatioEstimate]) -> FactorLevel:
    values = [ratio.value for ratio in ratios]
    return FactorLevel(
        value=value,
        version=version,
        ratio=_mean(ratios) if ratios else None,
        least=min(values, default=None),
        most=max(values, default=None),
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
    all_values = list(values)
    numbers = [value for value in all_values if value is not None]
    return exp(fmean(map(log, numbers))) if len(numbers) == len(all_values) else None


def _order(value: str) -> tuple[float, ...]:
    """The place of a number or of a version; that of no number is the last."""
    return tuple(map(float, re.findall(r"\d+", value))) or (inf,)


def _version(cell: Cell) -> str | None:
    """The version of the framework that the cell's runs used; None where they differ."""
    versions = {run.provenance["software"].get("version") for run in cell.runs}
    return versions.pop() if len(versions) == 1 else None
