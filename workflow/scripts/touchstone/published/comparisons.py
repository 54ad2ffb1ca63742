"""The kinds of comparisons that test a claim: one function for each, on one group of figures.

A function takes its test, the figures of one group and what counts as evidence. It returns what it
found, which is nothing where the group lacks a figure that the comparison needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, permutations, product
from math import log

from touchstone.published.claim_model import (
    OTHERS,
    EndsTest,
    ExtremeTest,
    GainTest,
    MeanTest,
    OrderTest,
    RankTest,
    RatioTest,
    Relative,
    SpreadTest,
    TrendTest,
    ValueTest,
    Where,
)
from touchstone.published.contrast import Contrast, contrast, figure, mean_of
from touchstone.published.evidence import FAILS, HOLDS, OPEN, Evidence, Group, group, outcome
from touchstone.published.points import Level, Point, level, matches
from touchstone.published.table import show
from touchstone.results.metrics import words

HARDWARE = ("device", "devices", "replicas", "gpu", "generation")
"""The factors that the word of a source for a piece of hardware says."""
SETTINGS = ("task", "dataset", "precision")
"""The factors by which the figures that a ranking is compared with are distinguished."""


def select(points: Iterable[Point], where: Where) -> list[Point]:
    """The figures whose factors have the levels asked for."""
    return [point for point in points if matches(point.factors, where)]


def relative(points: Sequence[Point], wanted: Relative) -> list[Point]:
    """Figures divided by others of the same machine, block by block (`Relative`)."""
    ratios = []
    alike = [*wanted.alike, "machine"]
    for point, base in product(select(points, wanted.of), select(points, wanted.to)):
        if any(point.factors.get(name) != base.factors.get(name) for name in alike):
            continue
        blocks = sorted(point.values.keys() & base.values.keys())
        values = {b: point.values[b] / base.values[b] for b in blocks if base.values[b] > 0}
        if values:
            ratios.append(replace(point, unit="x", values=values, in_turn=None))
    return ratios


def ratio(
    test: RatioTest, points: list[Point], evidence: Evidence, others: list[Point]
) -> list[Group]:
    """Every figure `of` over every figure `to`; `others` are those of the other metric."""
    groups = []
    pairs = product(
        _named(select(points, test.of), test.of), _named(select(others or points, test.to), test.to)
    )
    for (of, point), (to, base) in pairs:
        effect = contrast(point, base)
        if effect is None:
            continue
        slack = 1 + test.tolerance
        low, high = test.bounds(evidence.exact or (point.exact and base.exact))
        if effect.is_ratio:
            low = low / slack if low is not None else None
            high = high * slack if high is not None else None
        else:
            low = low - test.tolerance if low is not None else None
            high = high + test.tolerance if high is not None else None
        groups.append(group(f"{of} / {to}", evidence.between(effect, low, high), effect))
    return groups


def value(test: ValueTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """Each figure by itself."""
    figures = [(point, figure(point)) for point in points]
    return [
        group(
            point.cell or "",
            evidence.between(effect, *test.bounds(evidence.exact or point.exact)),
            effect,
        )
        for point, effect in figures
    ]


def trend(test: TrendTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """Figures along a factor of numbers, of which there must be three or more."""
    points = _along(points, test.along)
    if len({point.factors[test.along] for point in points}) < 3:
        return []
    if test.expect == "level":
        neutral = 0.0 if points[0].unit == "1" else 1.0
        return _spread(points, None, neutral + test.tolerance, evidence)
    if test.expect in ("peaks", "dips"):
        return _peak(test, points, evidence)
    if test.expect == "saturates":
        return _saturation(test, points, evidence)
    return _slope(test, points, evidence)


def _slope(test: TrendTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """A rise or a fall: of the ends beyond doubt, and no step the other way.

    A step holds if it is shown not to go the other way by more than the tolerance.
    """
    if test.expect == "falls":
        points = points[::-1]
    ends = contrast(points[-1], points[0])
    steps = [effect for a, b in pairwise(points) if (effect := contrast(b, a))]
    if ends is None or len(steps) < len(points) - 1:
        return []
    ratio_bound = 1 / (1 + test.tolerance)
    bounds = [ratio_bound if step.is_ratio else -test.tolerance for step in steps]
    pairs = list(zip(steps, bounds, strict=True))
    rises = evidence.at_least(ends, ends.neutral) and not evidence.at_most(ends, ends.neutral)
    holds = rises and all(evidence.at_least(step, bound) for step, bound in pairs)
    tries = len(steps) + 1
    fails = evidence.below(ends, ends.neutral, tries) or any(
        evidence.below(step, bound, tries) for step, bound in pairs
    )
    return [group(_ends(points, test.along), outcome(holds, fails), ends)]


def _saturation(test: TrendTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """Some step gains no more than the tolerance."""
    steps = [effect for a, b in pairwise(points) if (effect := contrast(b, a))]
    if not steps:
        return []
    pairs = [(step, step.neutral + test.tolerance) for step in steps]
    holds = any(evidence.at_most(step, bound, len(steps)) for step, bound in pairs)
    fails = all(evidence.above(step, bound) for step, bound in pairs)
    least = min(steps, key=lambda step: step.value)
    return [group("the step that gains least", outcome(holds, fails), least)]


def _peak(test: TrendTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """A level between the ends that lies above both; fails where all lie below one end.

    A dip is the same with every ratio turned round.
    """
    dips = test.expect == "dips"
    sides = [
        [
            effect
            for end in (points[0], points[-1])
            if (effect := contrast(end, point) if dips else contrast(point, end))
        ]
        for point in points[1:-1]
    ]
    if any(len(pair) < 2 for pair in sides):
        return []

    def above_both(pair: list[Contrast]) -> bool:
        bounds = [1 + test.tolerance if side.is_ratio else test.tolerance for side in pair]
        limits = zip(pair, bounds, strict=True)
        return all(evidence.at_least(side, bound, len(sides)) for side, bound in limits)

    holds = any(map(above_both, sides))
    fails = any(
        all(evidence.below(pair[end], pair[end].neutral, 2) for pair in sides) for end in (0, 1)
    )
    lower = [min(pair, key=lambda side: side.value) for pair in sides]
    best = max(range(len(sides)), key=lambda place: lower[place].value)
    at = f"{words(test.along)} {show(points[best + 1].factors[test.along])}"
    label = f"ends against the dip at {at}" if dips else f"peak at {at} against the ends"
    return [group(label, outcome(holds, fails), lower[best])]


def ends(test: EndsTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """The last level of a factor against the first."""
    points = _along(points, test.along)
    if len({point.factors[test.along] for point in points}) < 2:
        return []
    effect = contrast(points[-1], points[0])
    if effect is None:
        return []
    said = evidence.between(effect, *test.bounds(evidence.exact))
    return [group(_ends(points, test.along), said, effect)]


def spread(test: SpreadTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """How far the figures of several levels are apart."""
    if len({point.factors.get(test.across) for point in points}) < 2:
        return []
    return _spread(points, *test.bounds(evidence.exact), evidence)


def _spread(
    points: list[Point], least: float | None, most: float | None, evidence: Evidence
) -> list[Group]:
    """The largest / the smallest, by all pairs: which one is largest is not known beforehand."""
    pairs = [effect for left, right in permutations(points, 2) if (effect := contrast(left, right))]
    if not pairs:
        return []
    count = max(len(pairs) // 2, 1)
    holds, fails = True, False
    if most is not None:
        holds = all(evidence.at_most(pair, most) for pair in pairs)
        fails = any(evidence.above(pair, most, count) for pair in pairs)
    if least is not None:
        holds = holds and any(evidence.at_least(pair, least, count) for pair in pairs)
        fails = fails or all(evidence.below(pair, least) for pair in pairs)
    widest = max(pairs, key=lambda pair: pair.value)
    return [group("largest / smallest", outcome(holds, fails), widest)]


def extreme(test: ExtremeTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """A level against all others, of which `places` - 1 may be beyond it."""
    wanted = level(test.factor, test.level)
    ours = [point for point in points if point.factors.get(test.factor) == wanted]
    rivals = [point for point in points if point.factors.get(test.factor) != wanted]
    if len(ours) != 1 or not rivals:
        return []
    smallest = test.expect.endswith("smallest")
    sides = [(rival, ours[0]) if smallest else (ours[0], rival) for rival in rivals]
    leads = [effect for left, right in sides if (effect := contrast(left, right))]
    if not leads:
        return []
    bounds = [test.margin if lead.is_ratio else test.margin - 1 for lead in leads]
    pairs, count = list(zip(leads, bounds, strict=True)), len(leads)
    if test.expect.startswith("not"):
        holds = any(evidence.at_most(lead, bound, count) for lead, bound in pairs)
        fails = all(evidence.above(lead, bound) for lead, bound in pairs)
    else:
        needed, tries = count - test.places + 1, 1 if test.places == 1 else count
        holds = sum(evidence.at_least(lead, bound, tries) for lead, bound in pairs) >= needed
        fails = sum(evidence.below(lead, bound, count) for lead, bound in pairs) >= test.places
    nearest = sorted(leads, key=lambda lead: lead.value)[min(test.places, count) - 1]
    label = f"the smallest other / {wanted}" if smallest else f"{wanted} / the largest other"
    return [group(label, outcome(holds, fails), nearest)]


def order(test: OrderTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """Tiers of levels, the largest first: every pair of two tiers, or all of them together."""
    named = {level(test.factor, name) for tier in test.order for name in tier} - {OTHERS}
    tiers: list[list[Point]] = []
    for tier in test.order:
        levels = {level(test.factor, name) for name in tier}
        rest = OTHERS in levels
        tiers.append(
            [
                point
                for point in points
                if (at := point.factors.get(test.factor)) in levels or (rest and at not in named)
            ]
        )
    pairs = [
        (upper, lower, effect)
        for above, below in combinations(tiers, 2)
        for upper, lower in product(above, below)
        if (effect := contrast(upper, lower))
    ]
    if test.each == "pair":
        return [
            group(
                f"{_at(upper, test.factor)} / {_at(lower, test.factor)}",
                evidence.between(effect, effect.neutral, None),
                effect,
            )
            for upper, lower, effect in pairs
        ]
    there = {point.factors.get(test.factor) for tier in tiers for point in tier}
    if not pairs or not named <= there or not all(tiers):
        return []
    contrasts = [effect for _, _, effect in pairs]
    holds = all(evidence.at_least(effect, effect.neutral) for effect in contrasts)
    fails = any(evidence.below(effect, effect.neutral, len(contrasts)) for effect in contrasts)
    upper, lower, least = min(pairs, key=lambda pair: pair[2].value)
    label = f"closest to the reverse: {_at(upper, test.factor)} / {_at(lower, test.factor)}"
    return [group(label, outcome(holds, fails), least)]


def mean(test: MeanTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """A level against the arithmetic mean of its group, itself included."""
    wanted = level(test.factor, test.level)
    ours = [point for point in points if point.factors.get(test.factor) == wanted]
    if len(ours) != 1 or len(points) < 2:
        return []
    effect = contrast(ours[0], mean_of(points))
    if effect is None:
        return []
    said = evidence.between(effect, *test.bounds(evidence.exact))
    return [group(f"{wanted} / the mean", said, effect)]


def gain(test: GainTest, points: list[Point], evidence: Evidence) -> list[Group]:
    """The gain from the second step to the third over that from the first to the second."""
    groups = []
    for first, second, third in product(*(select(points, step) for step in test.steps)):
        if any(second.factors.get(name) != third.factors.get(name) for name in test.alike):
            continue
        blocks = first.values.keys() & second.values.keys() & third.values.keys()
        if not blocks or any(p.values[b] <= 0 for p in (first, second, third) for b in blocks):
            continue
        effect = Contrast.of(
            [
                log(third.values[b] * first.values[b] / second.values[b] ** 2)
                for b in sorted(blocks)
            ],
            is_ratio=True,
        )
        said = evidence.between(effect, None, 1 + test.tolerance)
        groups.append(group("second gain / first gain", said, effect))
    return groups


def rank(
    test: RankTest, points: list[Point], evidence: Evidence, others: list[Point]
) -> list[Group]:
    """Every pair of levels of `over` is a group: it holds where both kinds order it alike."""
    ours = {point.factors.get(test.over): point for point in select(points, test.of)}
    by_setting: dict[tuple[tuple[str, Level], ...], dict[Level | None, Point]] = {}
    for point in select(others or points, test.to):
        rest = tuple((n, v) for n, v in point.factors.items() if n in SETTINGS)
        by_setting.setdefault(rest, {})[point.factors.get(test.over)] = point
    groups = []
    for rest, theirs in by_setting.items():
        name = ", ".join(str(setting) for _, setting in rest)
        for a, b in combinations([key for key in ours if key in theirs], 2):
            effect, reference = contrast(ours[a], ours[b]), contrast(theirs[a], theirs[b])
            if effect is None or reference is None:
                continue
            signs = [_sign(effect, evidence), _sign(reference, evidence)]
            if test.opposite:
                signs[1] = -signs[1]
            if 0 in signs:
                said = HOLDS if evidence.exact else OPEN  # a tie counts for the claim
            else:
                said = HOLDS if signs[0] == signs[1] else FAILS
            text = f"{effect.text} against {reference.text}"
            label = f"{name}: {a} / {b}".removeprefix(": ")
            groups.append(Group(label, said, text, min(effect.n, reference.n)))
    return groups


def _sign(effect: Contrast, evidence: Evidence) -> int:
    """1 or -1 where a contrast is shown to lie on that side of equality, else 0."""
    up = evidence.above(effect, effect.neutral)
    return 1 if up else -1 if evidence.below(effect, effect.neutral) else 0


ON_ONE_METRIC: dict[str, Callable[..., list[Group]]] = {
    "value": value,
    "trend": trend,
    "ends": ends,
    "extreme": extreme,
    "order": order,
    "spread": spread,
    "mean": mean,
    "gain": gain,
}
ON_TWO_METRICS: dict[str, Callable[..., list[Group]]] = {"ratio": ratio, "rank": rank}


def _along(points: list[Point], factor: str) -> list[Point]:
    """The figures that have a factor of numbers, in its order."""
    there = [point for point in points if factor in point.factors]
    return sorted(there, key=lambda point: float(point.factors[factor]))


def _at(point: Point, factor: str) -> str:
    return show(point.factors[factor])


def _named(points: Sequence[Point], where: Where) -> list[tuple[str, Point]]:
    """Label each figure by its levels of the wanted factors, and by those others in which figures
    with equal labels differ; hardware has its own name."""
    labels = [_levels(point, where) for point in points]
    named = []
    for label, point in zip(labels, points, strict=True):
        alike = [other for text, other in zip(labels, points, strict=True) if text == label]
        differ = [
            show(level)
            for name, level in point.factors.items()
            if any(other.factors.get(name) != level for other in alike)
        ]
        named.append((f"{label} ({', '.join(differ)})" if differ else label, point))
    return named


def _levels(point: Point, where: Where) -> str:
    kinds = HARDWARE if "hardware" in point.factors else ()
    names = dict.fromkeys("hardware" if name in kinds else name for name in where)
    return " ".join(show(point.factors[name]) for name in names if name in point.factors)


def _ends(points: Sequence[Point], along: str) -> str:
    first, last = (show(point.factors[along]) for point in (points[0], points[-1]))
    return f"{words(along)} {last} / {first}"
