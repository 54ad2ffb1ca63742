"""Which configuration is fastest: cells side by side."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import sqrt
from typing import NamedTuple

from touchstone.analysis.doubts import DISTURBING
from touchstone.analysis.part import RatioEstimate, Workload
from touchstone.analysis.ranking_model import (
    ComparedCell,
    ComparedPair,
    ComparisonSummary,
    InTurn,
    Level,
    NextStep,
    Reason,
    Trust,
    Unit,
)
from touchstone.analysis.ratio import estimate
from touchstone.plan.names import setting_name
from touchstone.results.certificates import Certificates, proof
from touchstone.results.interleaved import Measured, compare_with_turns, turns_of
from touchstone.results.planned import COMPARED
from touchstone.results.study import FACET, Cell, Study
from touchstone.results.tables import remarks
from touchstone.schema.interleaved import Interleaved
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
KNOWN_NOISE = 200.0
"""Degrees of freedom from which more of them change the repeats by less than 1 %."""


class Comparison(NamedTuple):
    """The throughputs of comparable cells.

    `cells` are those with numbers, the fastest first, `without` those that have none. They differ
    in `compared`; `setting` names the other factors that distinguish this comparison from others of
    the study. `group` has the ratios: of the `turns` where there are some, else of the `runs`.
    """

    first: Cell
    compared: list[str]
    setting: str
    cells: list[Cell]
    without: list[Cell]
    group: Group
    runs: Group
    turns: Measured | None

    @property
    def n(self) -> int:
        """The sets in which the cells were measured in turn, or else the fewest runs of a cell."""
        if self.turns:
            return self.turns.sets
        return min(len(cell.values("throughput")) for cell in self.cells)

    @property
    def unit(self) -> Unit:
        """What `n` counts."""
        return "sets" if self.turns else "repeats"


def compare(study: Study, interleaved: Sequence[Interleaved] = ()) -> list[Comparison]:
    """The comparisons by throughput that have two cells or more with numbers.

    Args:
        interleaved: what was measured in turn; the ratios are from there where all cells took part.
    """
    every = study.comparable()
    of_every = [{c.plan.name: c.by_block("throughput") for c in group} for group in every]
    known = zip(every, of_every, turns_of(of_every, interleaved), strict=True)
    kept = [(g, v, t) for g, v, t in known if t or sum(map(bool, v.values())) > 1]
    groups, values = [group for group, _, _ in kept], [value for _, value, _ in kept]
    turns = [turn for _, _, turn in kept]
    fitted = compare_with_turns(values, turns)
    of_runs = compare_groups(values) if any(turns) else fitted
    models = zip(fitted, of_runs, turns, strict=True)
    compared = {name for group in groups for name in _differing(group)}
    varying = [
        name
        for name in _differing(group[0] for group in groups)
        if name not in (*COMPARED, *compared, *FACET, "batch_size")
    ]
    comparisons = []
    for group, (model, runs, in_turn) in zip(groups, models, strict=True):
        first = group[0]
        factors = first.plan.factors
        setting = ", ".join(
            setting_name(name, factors[name], first.series.framework) for name in varying
        )
        named = {cell.plan.name: cell for cell in group}
        found = [named.pop(name) for name in model.ranked]
        comparisons.append(
            Comparison(
                first, _differing(group), setting, found, list(named.values()), model, runs, in_turn
            )
        )
    order = {facet: i for i, facet in enumerate(dict.fromkeys(c.facet for c in study.cells))}
    return sorted(comparisons, key=lambda c: (order[c.first.facet], c.first.batch_size, c.setting))


def _differing(cells: Iterable[Cell]) -> list[str]:
    """The factors in which cells differ."""
    found: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in cell.plan.factors.items():
            found.setdefault(name, set()).add(value)
    return [name for name, values in found.items() if len(values) > 1]


def summary(
    comparison: Comparison, workload: Workload, certificates: Certificates, study: Study
) -> ComparisonSummary:
    """A comparison as the findings have it; `study` is the one whose runs more repeats repeat."""
    network, dataset, device = comparison.first.facet
    pairs = [_pair(comparison, *pair) for pair in combinations(comparison.cells, 2)]
    leader = comparison.cells[0].plan.name
    leads = [pair for pair in pairs if pair.faster == leader]
    rivals = [p.slower for p in leads if p.ratio is None or p.ratio.verdict != "faster"]
    alike = bool(rivals) and all(_alike(p.ratio) for p in leads if p.slower in rivals)
    return ComparisonSummary(
        workload=workload,
        network=network,
        dataset=dataset,
        compared=comparison.compared,
        device=None if "device" in comparison.compared else device,
        batch_size=(None if "batch_size" in comparison.compared else comparison.first.batch_size),
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
        in_turn=_in_turn(comparison.turns),
        level=LEVEL,
        trust=_trust(comparison, pairs, leads),
        next_step=_next_step(comparison, study) if rivals and not alike else None,
    )


def _in_turn(turns: Measured | None) -> InTurn | None:
    if turns is None:
        return None
    return InTurn(
        sets=turns.sets,
        rounds=turns.rounds,
        all_rounds=turns.all_rounds,
        set_aside=turns.set_aside,
        disturbed=turns.disturbed,
        apart=turns.apart,
        moved=turns.moved,
        busy=turns.busy,
        paired=turns.paired,
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
        runs_ratio=estimate(comparison.runs.ratio(*names)) if comparison.turns else None,
        remarks=remarks(*provenances),
    )


def _compared(comparison: Comparison, cell: Cell, certificates: Certificates) -> ComparedCell:
    name, leader = cell.plan.name, comparison.cells[0].plan.name
    ratio = comparison.group.ratio(leader, name) if name != leader else None
    ends = ratio.interval() if ratio else None
    fastest = comparison.group.speed(leader)
    return ComparedCell(
        cell=name,
        speed=comparison.group.speed(name) if cell in comparison.cells else None,
        runs=cell.values("throughput"),
        low=fastest / ends[1] if ends else None,
        high=fastest / ends[0] if ends else None,
        equal_computation=_equal_computation(cell, certificates),
    )


def _equal_computation(cell: Cell, certificates: Certificates) -> str:
    """What is known of equal computation; outputs of inference are compared with the training's."""
    factors = cell.plan.factors
    found = proof(certificates, cell.facet[0], cell.series.stack, factors["precision"])
    return found.verdict if found.shown or not cell.values("deviation") else "outputs equal"


def _trust(
    comparison: Comparison, pairs: Sequence[ComparedPair], leads: Sequence[ComparedPair]
) -> Trust:
    if turns := comparison.turns:
        total, disturbed = turns.rounds, turns.disturbed
    else:
        runs = [run for cell in comparison.cells for run in cell.runs]
        total, disturbed = len(runs), sum(bool(DISTURBING & set(run.flags)) for run in runs)
    known = [pair.ratio for pair in leads if pair.ratio]
    reaches = [ratio.high / ratio.value for ratio in known if ratio.high is not None]
    reach = max(reaches, default=None)
    disagree = any(pair.runs_disagree for pair in pairs)
    level, reason = _level(comparison.n, disturbed / total, disagree, reach or 1.0)
    return Trust(
        level=level,
        reason=reason,
        n=comparison.n,
        unit=comparison.unit,
        runs=total,
        disturbed=disturbed,
        reach=reach,
    )


def _level(n: int, disturbed: float, disagree: bool, reach: float) -> tuple[Level, Reason | None]:
    """How far to trust a comparison, and the main reason.

    `disturbed` is the share of disturbed runs; `disagree`: the long runs give other ratios.
    """
    if n < 2:
        return "low", "one run"
    if disturbed > LOW_SHARE:
        return "low", "disturbed"
    if disagree:
        return "low", "long runs"
    if reach >= LOW_REACH:
        return "low", "interval"
    if disturbed > MEDIUM_SHARE:
        return "medium", "disturbed"
    if reach >= MEDIUM_REACH:
        return "medium", "interval"
    return ("medium", "few runs") if n < INDICATIVE_BELOW else ("high", None)


def _next_step(comparison: Comparison, study: Study) -> NextStep:
    """From the measured lead over the next cell, the noise, and the time that a run took."""
    first, second = (cell.plan.name for cell in comparison.cells[:2])
    lead = comparison.group.ratio(first, second)
    turns = comparison.turns
    now = turns.sets if turns else max(cell.plan.repeats for cell in comparison.cells)
    seconds = turns.seconds if turns else study.round_seconds
    decides = lead is not None and bool(lead.error) and lead.log > 0
    repeats: int | None = None
    if lead is not None and decides:
        repeats = _enough(comparison, lead.log, now)
    elif comparison.n == 1:
        repeats = max(LEAST_REPEATS, now + 1)
    minutes = None if repeats is None else (repeats - now) * seconds / 60
    return NextStep(unit=comparison.unit, repeats=repeats, minutes=minutes, decides=decides)


def _enough(comparison: Comparison, lead: float, now: int) -> int | None:
    """The repeats with which such a lead is shown with a chance of 80 %; None for too many."""
    group = comparison.group
    cells = len(comparison.cells)

    def shown(repeats: int) -> bool:
        error = sqrt(2 * group.variance / repeats)
        freedom = min(group.freedom + (cells - 1) * (repeats - now), KNOWN_NOISE)
        # The noncentrality is never below 2.8, and takes long to compute.
        return lead > 2.8 * error and lead > noncentrality(freedom, cells, group.groups) * error

    choices = range(now + 1, MOST_REPEATS + 1)
    place = bisect_left(choices, True, key=shown)
    return choices[place] if place < len(choices) else None
