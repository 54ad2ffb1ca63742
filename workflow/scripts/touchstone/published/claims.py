"""Judge claims by figures: measured ones with intervals, published ones as they stand.

Every test looks at groups of figures. In each it holds, fails, or stays open; docs/studies.md
says when, and how groups make a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, product
from math import log, sqrt
from statistics import fmean, median, stdev

from touchstone.published.contrast import Contrast, contrast
from touchstone.published.dossier import (
    Claim,
    ExtremeTest,
    GainTest,
    RankTest,
    RatioTest,
    SpreadTest,
    Test,
    TrendTest,
    Where,
)
from touchstone.published.points import Level, Point, level, matches
from touchstone.published.table import number, show, words
from touchstone.statistics.intervals import LEVEL

REPRODUCED, CONTRADICTED = "reproduced", "contradicted"
RATIO_ONLY, NOT_COMPARABLE, NOT_MEASURED = "ratio only", "not comparable", "not measured"
VERDICTS = (REPRODUCED, CONTRADICTED, RATIO_ONLY, NOT_COMPARABLE, NOT_MEASURED)
HOLDS, FAILS, OPEN = "holds", "fails", "undecided"


@dataclass(frozen=True)
class Group:
    """What a test says of one group of figures."""

    label: str
    outcome: str
    text: str
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim: in words why, and what every group of every test said."""

    verdict: str
    why: str
    groups: list[Group] = field(default_factory=list)

    @property
    def n(self) -> int | None:
        """Blocks of the group that has fewest."""
        return min((group.n for group in self.groups), default=None)


class Judge:
    """Judges claims by one set of figures.

    Args:
        points: the figures.
        exact: take every figure as it stands, as published ones without repeats must be.
            Otherwise a group is decided by an interval, which needs two blocks.
        changed: by cell, the settings that this scale of the study changes, and how.
    """

    def __init__(
        self,
        points: Iterable[Point],
        *,
        exact: bool,
        changed: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.points = list(points)
        self.exact = exact
        self.changed = changed or {}

    def judge(self, claim: Claim) -> Judgement:
        """The verdict on a claim."""
        if claim.untested:
            return Judgement(NOT_MEASURED, claim.untested)
        parts = [self._test(test) for test in claim.tests]
        groups = [
            _of_metric(group, test.metric) if len({t.metric for t in claim.tests}) > 1 else group
            for test, (_, _, found) in zip(claim.tests, parts, strict=True)
            for group in found
        ]
        verdicts = [verdict for verdict, _, _ in parts]
        why = "; ".join(dict.fromkeys(text for _, text, _ in parts))
        used = {p.cell for test in claim.tests for p in self._asked(test) if p.values}
        changes = [self.changed.get(cell, {}) for cell in sorted(filter(None, used))]
        hindered = dict.fromkeys(
            change[name] for name in claim.needs for change in changes if name in change
        )
        if groups and hindered:
            return Judgement(NOT_COMPARABLE, "; ".join(hindered) + f"; {why}", groups)
        for verdict in (CONTRADICTED, NOT_MEASURED, RATIO_ONLY):
            if verdict in verdicts:
                return Judgement(verdict, why, groups)
        return Judgement(REPRODUCED, why, groups)

    def _asked(self, test: Test) -> list[Point]:
        """The figures that a test asks for; a measured one stands in no table."""
        return [
            point
            for point in self.points
            if point.metric == test.metric
            and matches(
                point.factors,
                {k: v for k, v in test.where.items() if k != "table" or point.row is not None},
            )
        ]

    def _test(self, test: Test) -> tuple[str, str, list[Group]]:
        """The verdict of one test, why, and its groups."""
        points = self._asked(test)
        with_values = [point for point in points if point.values]
        first = self._groups(test, with_values, LEVEL)
        name = words(test.metric)
        if not first:
            return NOT_MEASURED, f"{name}: {_why_none(test, points, with_values)}", []
        # One group that fails contradicts the claim, so each may fail by chance only with
        # 5 % / their number (Bonferroni); for the claim to hold all must, each at 5 %.
        strict = self._groups(test, with_values, 1 - (1 - LEVEL) / len(first))
        groups = [
            late if late.outcome == FAILS else early if early.outcome != FAILS else _open(early)
            for early, late in zip(first, strict, strict=True)
        ]
        counts = {word: sum(g.outcome == word for g in groups) for word in (HOLDS, FAILS, OPEN)}
        told = ", ".join(f"{word} in {count}" for word, count in counts.items() if count)
        values = [group.value for group in groups if group.value is not None]
        ends = dict.fromkeys(number(end) for end in (min(values), max(values))) if values else {}
        spread = f", {' to '.join(ends)}" if ends else ""
        text = f"{name}: {told} of {len(groups)}{spread}"
        if not self.exact and max(group.n for group in groups) == 1:
            text += " (one run a cell: no interval)"
        if counts[FAILS] > (1 - test.share) * len(groups) + 1e-9:
            return CONTRADICTED, text, groups
        if counts[HOLDS] >= test.share * len(groups) - 1e-9:
            return REPRODUCED, text, groups
        return RATIO_ONLY, text, groups

    def _groups(self, test: Test, points: list[Point], confidence: float) -> list[Group]:
        by: dict[tuple[Level | None, ...], list[Point]] = {}
        for point in points:
            by.setdefault(tuple(point.factors.get(name) for name in test.by), []).append(point)
        found: list[Group] = []
        for levels, group in by.items():
            label = ", ".join(
                f"{name.replace('_', ' ')} {show(one)}" if isinstance(one, float) else one
                for name, one in zip(test.by, levels, strict=True)
                if one is not None
            )
            found += _KINDS[test.kind](self, test, label, group, confidence)
        return found

    def _shown(self, one: Contrast, above: bool, bound: float, confidence: float) -> bool:
        """Whether a contrast lies above (or below) a bound beyond doubt."""
        if self.exact:
            return one.value > bound if above else one.value < bound
        interval = one.interval(confidence)
        if interval is None:
            return False
        return interval[0] > bound if above else interval[1] < bound

    def _between(
        self, one: Contrast, least: float | None, most: float | None, confidence: float
    ) -> str:
        inside = [
            self._shown(one, above, bound, confidence) or (self.exact and one.value == bound)
            for above, bound in ((True, least), (False, most))
            if bound is not None
        ]
        outside = [
            self._shown(one, above, bound, confidence)
            for above, bound in ((False, least), (True, most))
            if bound is not None
        ]
        return FAILS if any(outside) else HOLDS if all(inside) else OPEN

    # The kinds of tests

    def _ratio(
        self, test: RatioTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        groups = []
        for one, other in product(_where(points, test.of), _where(points, test.to)):
            found = contrast(one, other)
            if found is None:
                continue
            slack = 1 + test.tolerance
            low, high = test.least, test.most
            if found.is_ratio:
                low = low / slack if low is not None else None
                high = high * slack if high is not None else None
            else:
                low = low - test.tolerance if low is not None else None
                high = high + test.tolerance if high is not None else None
            outcome = self._between(found, low, high, confidence)
            name = f"{label}: {_named(one, test.of)} / {_named(other, test.to)}".removeprefix(": ")
            groups.append(_group(name, outcome, found))
        return groups

    def _trend(
        self, test: TrendTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        points = sorted(
            (point for point in points if test.along in point.factors),
            key=lambda point: float(point.factors[test.along]),
        )
        if len({point.factors[test.along] for point in points}) < 3:
            return []
        if test.expect == "level":
            return self._spread_of(test, label, points, confidence)
        if test.expect == "peaks":
            return self._peak(test, label, points, confidence)
        rises = test.expect == "rises"
        ends = contrast(points[-1], points[0])
        steps = [found for a, b in pairwise(points) if (found := contrast(b, a))]
        if ends is None:
            return []

        def against(one: Contrast, tolerance: float) -> bool:
            if one.is_ratio:
                bound = 1 / (1 + tolerance) if rises else 1 + tolerance
            else:
                bound = -tolerance if rises else tolerance
            return self._shown(one, not rises, bound, confidence)

        if against(ends, 0) or any(against(step, test.tolerance) for step in steps):
            outcome = FAILS
        else:
            outcome = HOLDS if self._shown(ends, rises, ends.neutral, confidence) else OPEN
        return [_group(f"{label}: {_ends(points, test.along)}", outcome, ends)]

    def _peak(
        self, test: TrendTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        inner = max(points[1:-1], key=_middle)
        sides = [found for end in (points[0], points[-1]) if (found := contrast(inner, end))]
        if len(sides) < 2:
            return []
        bounds = [1 + test.tolerance if one.is_ratio else test.tolerance for one in sides]
        if any(self._shown(one, False, one.neutral, confidence) for one in sides):
            outcome = FAILS
        elif all(self._shown(o, True, b, confidence) for o, b in zip(sides, bounds, strict=True)):
            outcome = HOLDS
        else:
            outcome = OPEN
        least = min(sides, key=lambda one: one.value)
        at = f"peak at {test.along.replace('_', ' ')} {show(inner.factors[test.along])}"
        return [_group(f"{label}: {at} against the ends", outcome, least)]

    def _spread(
        self, test: SpreadTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        if len({point.factors.get(test.across) for point in points}) < 2:
            return []
        return self._spread_of(test, label, points, confidence)

    def _spread_of(
        self, test: SpreadTest | TrendTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        high, low = max(points, key=_middle), min(points, key=_middle)
        found = contrast(high, low)
        if found is None:
            return []
        bound = test.tolerance + found.neutral
        return [
            _group(
                f"{label}: largest / smallest",
                self._between(found, None, bound, confidence),
                found,
            )
        ]

    def _extreme(
        self, test: ExtremeTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        wanted = level(test.factor, test.level)
        ours = [point for point in points if point.factors.get(test.factor) == wanted]
        others = [point for point in points if point.factors.get(test.factor) != wanted]
        if len(ours) != 1 or not others:
            return []
        rivals = sorted(others, key=_middle, reverse=True)
        found = [one for rival in rivals if (one := contrast(ours[0], rival))]
        if not found:
            return []
        over_all = all(self._shown(one, True, one.neutral, confidence) for one in found)
        beaten = any(self._shown(one, False, one.neutral, confidence) for one in found)
        if test.expect == "largest":
            outcome = HOLDS if over_all else FAILS if beaten else OPEN
        else:
            outcome = HOLDS if beaten else FAILS if over_all else OPEN
        return [_group(f"{label}: {wanted} / the largest other", outcome, found[0])]

    def _gain(
        self, test: GainTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        groups = []
        for first, second, third in product(*(_where(points, step) for step in test.steps)):
            if any(second.factors.get(name) != third.factors.get(name) for name in test.alike):
                continue
            blocks = first.values.keys() & second.values.keys() & third.values.keys()
            if not blocks or any(p.values[b] <= 0 for p in (first, second, third) for b in blocks):
                continue
            logs = [
                log(third.values[b] * first.values[b] / second.values[b] ** 2)
                for b in sorted(blocks)
            ]
            error = stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else None
            found = Contrast(len(logs), fmean(logs), error, True)
            outcome = self._between(found, None, 1 + test.tolerance, confidence)
            groups.append(_group(f"{label}: second gain / first gain", outcome, found))
        return groups

    def _rank(
        self, test: RankTest, label: str, points: list[Point], confidence: float
    ) -> list[Group]:
        """Every pair of levels of `over` is a group: it holds where both kinds order it alike."""
        metric = test.other or test.metric
        others = [p for p in self.points if p.metric == metric and p.values]
        ones = {p.factors.get(test.over): p for p in _where(points, test.of)}
        groups = []
        by_setting: dict[tuple[tuple[str, Level], ...], dict[Level | None, Point]] = {}
        for point in _where(others, test.to):
            rest = tuple((n, v) for n, v in point.factors.items() if n in ("task", "dataset"))
            by_setting.setdefault(rest, {})[point.factors.get(test.over)] = point
        for rest, theirs in by_setting.items():
            name = ", ".join(str(value) for _, value in rest)
            for a, b in combinations([key for key in ones if key in theirs], 2):
                one, other = contrast(ones[a], ones[b]), contrast(theirs[a], theirs[b])
                if one is None or other is None:
                    continue
                signs = []
                for found in (one, other):
                    up = self._shown(found, True, found.neutral, confidence)
                    down = self._shown(found, False, found.neutral, confidence)
                    signs.append(1 if up else -1 if down else 0)
                if test.opposite:
                    signs[1] = -signs[1]
                outcome = OPEN if 0 in signs else HOLDS if signs[0] == signs[1] else FAILS
                text = f"{one.text} against {other.text}"
                n = min(one.n, other.n)
                groups.append(Group(f"{name}: {a} / {b}".removeprefix(": "), outcome, text, n))
        return groups


_KINDS: dict[str, Callable[..., list[Group]]] = {
    "ratio": Judge._ratio,
    "trend": Judge._trend,
    "extreme": Judge._extreme,
    "spread": Judge._spread,
    "gain": Judge._gain,
    "rank": Judge._rank,
}


def _where(points: Sequence[Point], where: Where) -> list[Point]:
    return [point for point in points if matches(point.factors, where)]


def _middle(point: Point) -> float:
    return median(point.values.values())


def _named(point: Point, where: Where) -> str:
    """What sets a point apart: its levels of the factors asked for; hardware by its own name."""
    kinds = ("device", "devices", "replicas", "gpu") if "hardware" in point.factors else ()
    names = dict.fromkeys("hardware" if name in kinds else name for name in where)
    return " ".join(show(point.factors[name]) for name in names if name in point.factors)


def _ends(points: Sequence[Point], along: str) -> str:
    first, last = (show(point.factors[along]) for point in (points[0], points[-1]))
    return f"{along.replace('_', ' ')} {last} / {first}"


def _group(label: str, outcome: str, found: Contrast) -> Group:
    low, high = found.interval() or (None, None)
    label = label.removeprefix(": ")
    return Group(label, outcome, found.text, found.n, found.value, low, high)


def _open(group: Group) -> Group:
    return replace(group, outcome=OPEN)


def _of_metric(group: Group, metric: str) -> Group:
    """A group of a claim whose tests are of several metrics."""
    return replace(group, label=f"{words(metric)}, {group.label}")


def _why_none(test: Test, points: Sequence[Point], with_values: Sequence[Point]) -> str:
    """Why a test has no group: no such figures, none with a value, or a side that is missing."""
    if not points:
        return "no such figure"
    if not with_values:
        return "; ".join(dict.fromkeys(p.reason for p in points if p.reason)) or "no value"
    sides: list[Where] = [*getattr(test, "steps", [])]
    sides += [getattr(test, name) for name in ("of", "to") if hasattr(test, name)]
    for side in sides:
        if not _where(with_values, side):
            wanted = ", ".join(f"{name} {_listed(one)}" for name, one in side.items())
            return f"no figure with {wanted}"
    for name in ("across", "along", "over", "factor"):
        if hasattr(test, name):
            factor = getattr(test, name)
            levels = {p.factors[factor] for p in with_values if factor in p.factors}
            told = ", ".join(sorted(map(show, levels))) or "none"
            return f"too few levels of {factor.replace('_', ' ')} to compare: {told}"
    return "no figures that differ in nothing else"


def _listed(levels: Level | list[Level] | int | list[str | int | float]) -> str:
    return " or ".join(map(str, levels)) if isinstance(levels, list) else str(levels)
