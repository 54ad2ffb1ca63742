"""Which framework is fastest: cells side by side."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt
from statistics import median
from typing import NamedTuple

from touchstone.analysis.doubts import DISTURBING
from touchstone.analysis.part import RatioEstimate, Workload
from touchstone.analysis.ranking_model import (
    ComparedCell,
    ComparedPair,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.analysis.ratio import estimate
from touchstone.results.certificates import Certificates, proof
from touchstone.results.study import FACET, Cell, Study
from touchstone.results.tables import COMPARED, remarks
from touchstone.statistics.groups import Group, compare_groups
from touchstone.statistics.intervals import INDICATIVE_BELOW, LEVEL, noncentrality

LOW_REACH, MEDIUM_REACH = 1.5, 1.1
"""Upper end of an interval / ratio from which trust is low, and medium."""
LOW_SHARE, MEDIUM_SHARE = 1 / 3, 1 / 10
"""Share of disturbed runs above which it is."""
ALIKE = 1.02
"""Ratio up to which speeds are called alike."""
LEAST_REPEATS, MOST_REPEATS = 3, 100
"""Repeats that are proposed."""


class Comparison(NamedTuple):
    """The throughputs of comparable cells on one network, data set, device and batch size.

    `cells` are those with numbers, the fastest first, `without` those that have none. `setting`
    names the other factors that distinguish this comparison from others of the study.
    """

    facet: tuple[str, str, str]
    batch_size: int
    setting: str
    cells: list[Cell]
    without: list[Cell]
    group: Group

    @property
    def n(self) -> int:
        """The fewest runs of a cell."""
        return min(len(cell.values("throughput")) for cell in self.cells)


def compare(study: Study) -> list[Comparison]:
    """The comparisons by throughput that have two cells or more with numbers."""
    groups = [
        group
        for group in study.comparable()
        if sum(bool(cell.values("throughput")) for cell in group) > 1
    ]
    models = compare_groups(
        [{cell.plan.name: cell.by_block("throughput") for cell in group} for group in groups]
    )
    shown_anyway = (*COMPARED, *FACET, "batch_size")
    varying = [
        name
        for name in (study.cells[0].plan.factors if groups else ())
        if name not in shown_anyway and len({group[0].plan.factors[name] for group in groups}) > 1
    ]
    comparisons = []
    for group, model in zip(groups, models, strict=True):
        factors = group[0].plan.factors
        setting = ", ".join(f"{n.replace('_', ' ')} {factors[n] or '–'}" for n in varying)
        named = {cell.plan.name: cell for cell in group}
        found = [named.pop(name) for name in model.ranked]
        place = (group[0].facet, group[0].batch_size, setting)
        comparisons.append(Comparison(*place, found, list(named.values()), model))
    order = {facet: i for i, facet in enumerate(dict.fromkeys(c.facet for c in study.cells))}
    return sorted(comparisons, key=lambda c: (order[c.facet], c.batch_size, c.setting))


def summary(
    comparison: Comparison, workload: Workload, certificates: Certificates, study: Study
) -> ComparisonSummary:
    """A comparison as the findings have it; `study` is the one whose runs more repeats repeat."""
    network, dataset, device = comparison.facet
    pairs = [_pair(comparison, *pair) for pair in combinations(comparison.cells, 2)]
    leader = comparison.cells[0].plan.name
    leads = [pair for pair in pairs if pair.faster == leader]
    rivals = [p.slower for p in leads if p.ratio is None or p.ratio.verdict != "faster"]
    alike = bool(rivals) and all(_alike(p.ratio) for p in leads if p.slower in rivals)
    return ComparisonSummary(
        workload=workload,
        network=network,
        dataset=dataset,
        device=device,
        batch_size=comparison.batch_size,
        setting=comparison.setting,
        cells=[
            _compared(comparison, cell, certificates)
            for cell in (*comparison.cells, *comparison.without)
        ],
        pairs=pairs,
        winner=None if rivals else leader,
        rivals=rivals,
        alike=alike,
        n=comparison.n,
        level=LEVEL,
        trust=_trust(comparison, leads),
        next_step=_next_step(comparison, study) if rivals and not alike else None,
    )


def _alike(ratio: RatioEstimate | None) -> bool:
    if ratio is None or ratio.low is None or ratio.high is None:
        return False
    return ratio.low >= 1 / ALIKE and ratio.high <= ALIKE


def _pair(comparison: Comparison, faster: Cell, slower: Cell) -> ComparedPair:
    names = faster.plan.name, slower.plan.name
    provenances = ([run.provenance for run in cell.runs] for cell in (faster, slower))
    return ComparedPair(
        faster=names[0],
        slower=names[1],
        ratio=estimate(comparison.group.ratio(*names)),
        remarks=remarks(*provenances),
    )


def _compared(comparison: Comparison, cell: Cell, certificates: Certificates) -> ComparedCell:
    n = len(cell.values("throughput"))
    return ComparedCell(
        cell=cell.plan.name,
        speed=comparison.group.speed(cell.plan.name) if cell in comparison.cells else None,
        n=n,
        equal_computation=_equal_computation(cell, certificates),
    )


def _equal_computation(cell: Cell, certificates: Certificates) -> str:
    """What is known of equal computation; outputs of inference are compared with the training's."""
    factors = cell.plan.factors
    found = proof(certificates, cell.facet[0], cell.series.framework, factors["precision"])
    return found.verdict if found.shown or not cell.values("deviation") else "outputs equal"


def _trust(comparison: Comparison, leads: Sequence[ComparedPair]) -> Trust:
    runs = [run for cell in comparison.cells for run in cell.runs]
    disturbed = sum(bool(DISTURBING & set(run.flags)) for run in runs)
    known = [pair.ratio for pair in leads if pair.ratio]
    reaches = [ratio.high / ratio.value for ratio in known if ratio.high is not None]
    trust = Trust(
        level="high",
        reason=None,
        n=comparison.n,
        runs=len(runs),
        disturbed=disturbed,
        reach=max(reaches, default=None),
    )
    reach = trust.reach or 1.0
    if comparison.n < 2:
        return trust.model_copy(update={"level": "low", "reason": "one run"})
    if disturbed > LOW_SHARE * len(runs):
        return trust.model_copy(update={"level": "low", "reason": "disturbed"})
    if reach >= LOW_REACH:
        return trust.model_copy(update={"level": "low", "reason": "interval"})
    if disturbed > MEDIUM_SHARE * len(runs):
        return trust.model_copy(update={"level": "medium", "reason": "disturbed"})
    if reach >= MEDIUM_REACH:
        return trust.model_copy(update={"level": "medium", "reason": "interval"})
    if comparison.n < INDICATIVE_BELOW:
        return trust.model_copy(update={"level": "medium", "reason": "few runs"})
    return trust


def _next_step(comparison: Comparison, study: Study) -> NextStep:
    """From the measured lead over the next cell, the noise, and the time that a run took."""
    first, second = (cell.plan.name for cell in comparison.cells[:2])
    lead = comparison.group.ratio(first, second)
    now = max(cell.plan.repeats for cell in comparison.cells)
    repeats: int | None = max(LEAST_REPEATS, now + 1)
    known = lead is not None and bool(lead.error) and lead.log > 0
    if known and lead is not None:
        repeats = _enough(comparison, lead.log, now)
    elif comparison.n > 1:
        repeats = None
    minutes = None if repeats is None else (repeats - now) * _round_seconds(study) / 60
    return NextStep(repeats=repeats, minutes=minutes, decides=known)


def _enough(comparison: Comparison, lead: float, now: int) -> int | None:
    """The repeats with which such a lead is shown with a chance of 80 %; None for too many."""
    group = comparison.group
    cells = len(comparison.cells)
    for repeats in range(now + 1, MOST_REPEATS + 1):
        error = sqrt(2 * group.variance / repeats)
        freedom = float(group.freedom + (cells - 1) * (repeats - now))
        # The noncentrality is never below 2.8, and takes long to compute.
        if lead > 2.8 * error and lead > noncentrality(freedom, cells, group.groups) * error:
            return repeats
    return None


def _round_seconds(study: Study) -> float:
    """How long one run of every cell takes: the sum of the cells' medians."""
    found = [[sum(run.phases.values()) for run in cell.runs] for cell in study.cells]
    return sum(median(seconds) for seconds in found if seconds)
