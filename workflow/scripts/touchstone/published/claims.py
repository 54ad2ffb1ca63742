"""Judge claims by figures: measured ones with intervals, published ones as they are.

Every test looks at groups of figures. In each it holds, fails, or cannot tell; docs/studies.md
says when, and how groups make a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from touchstone.published.claim_model import (
    MOST,
    SOME,
    Claim,
    Level,
    Test,
    Where,
    compares,
    on_cpu,
    wheres,
)
from touchstone.published.comparisons import ON_ONE_METRIC, ON_TWO_METRICS, relative, select
from touchstone.published.evidence import FAILS, HOLDS, OPEN, Evidence, Group
from touchstone.published.points import Level as Given
from touchstone.published.points import Point, matches
from touchstone.published.table import number, show
from touchstone.report.text import listing
from touchstone.results.metrics import words
from touchstone.statistics.intervals import LEVEL

REPRODUCED, CONTRADICTED = "reproduced", "contradicted"
UNDECIDED, NOT_COMPARABLE, NOT_MEASURED = "cannot tell", "not comparable", "not measured"
STAND_IN = "stand-in"
"""The mark of a claim that was measured on a GPU and is judged by a CPU's figures here."""
BY_MAGNITUDE = "order of magnitude"
"""The mark of a claim about a number of one machine, which another has at most roughly."""
ACROSS_MACHINES = ("machine", "generation")
"""A comparison of levels of one of these has figures of several machines in one group."""
VERDICTS = (REPRODUCED, CONTRADICTED, UNDECIDED, NOT_COMPARABLE, NOT_MEASURED)


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim.

    `why` says so in words, `missing` why some of its tests have no figures, `groups` what each
    group of each test said, and `counts` in how many of its groups each test holds: `22 of 28`.
    A `stand_in` is judged by a CPU's figures in a GPU's place, a `magnitude` by the order of it.
    """

    verdict: str
    why: str
    groups: list[Group] = field(default_factory=list)
    missing: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    stand_in: bool = False
    magnitude: bool = False

    @property
    def n(self) -> int | None:
        """Blocks of the group that has fewest."""
        return min((group.n for group in self.groups), default=None)

    @property
    def count(self) -> str:
        """The counts of its tests, which are not added; empty without groups."""
        return listing(self.counts) if self.counts else ""

    @property
    def marks(self) -> list[str]:
        """What sets the way in which the claim was judged apart."""
        marks = {STAND_IN: self.stand_in, BY_MAGNITUDE: self.magnitude}
        return [mark for mark, has in marks.items() if has]

    @property
    def by_intervals(self) -> bool:
        """Whether an interval said something of it, which may be wrong by chance; what is counted
        has none."""
        return any(group.n > 1 for group in self.groups)


@dataclass(frozen=True)
class _Part:
    """What one test of a claim found."""

    verdict: str
    why: str
    groups: list[Group]


class Judge:
    """Judges claims by one set of figures.

    Args:
        points: the figures.
        exact: take every figure as it is, as published ones without repeats must be.
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
        """The verdict on a claim; a CPU's figures stand in only where no GPU has any."""
        if claim.untested:
            return Judgement(NOT_MEASURED, claim.untested)
        judgement = self._judged(claim, claim.tests)
        if judgement.verdict != NOT_MEASURED or not claim.stand_in or self.exact:
            return judgement
        tests: list[Test] = []
        for test in map(on_cpu, claim.tests):
            tests += [] if test in tests else [test]  # both memories are the host's there
        instead = self._judged(claim, tests)
        if instead.verdict != NOT_MEASURED:
            return replace(instead, stand_in=True)
        return replace(judgement, why=f"{judgement.why}; by a {STAND_IN}: {instead.why}")

    def _judged(self, claim: Claim, tests: Sequence[Test]) -> Judgement:
        """The verdict by the tests that have figures."""
        groups_of = [self._groups(test, Evidence(self.exact)) for test in tests]
        with_figures = sum(map(bool, groups_of))
        parts = [
            self._test(test, len(groups), with_figures)
            for test, groups in zip(tests, groups_of, strict=True)
        ]
        missing = tuple(dict.fromkeys(part.why for part in parts if part.verdict == NOT_MEASURED))
        judged = [part for part in parts if part.verdict != NOT_MEASURED]
        if not judged:
            return Judgement(NOT_MEASURED, "; ".join(missing), missing=missing)
        several = len({test.metric for test in tests}) > 1
        groups = [
            _of_metric(group, test.metric) if several else group
            for test, part in zip(tests, parts, strict=True)
            for group in part.groups
        ]
        why = "; ".join(dict.fromkeys(part.why for part in judged))
        if missing:
            why += f"; not judged: {'; '.join(missing)}"
        used = {
            cell
            for test in tests
            for metric in filter(None, (test.metric, getattr(test, "other", None)))
            for point in self._needed(test, metric)
            if point.values and point.cell
            for cell in point.cell.split("; ")  # a sum names its parts
        }
        counts = tuple(_count(part.groups) for part in parts if part.groups)
        judgement = Judgement("", why, groups, missing, counts, magnitude=self._roughly(tests))
        if claim.not_comparable and not self.exact:
            why = f"{claim.not_comparable}; {why}"
            return replace(judgement, verdict=NOT_COMPARABLE, why=why, magnitude=False)
        changes = [self.changed.get(cell, {}) for cell in sorted(used)]
        hindered = dict.fromkeys(
            change[name] for name in claim.needs for change in changes if name in change
        )
        if hindered:
            why = f"{'; '.join(hindered)}; {why}"
            return replace(judgement, verdict=NOT_COMPARABLE, why=why)
        verdicts = [part.verdict for part in judged]
        for verdict in (CONTRADICTED, UNDECIDED):
            if verdict in verdicts:
                return replace(judgement, verdict=verdict)
        return replace(judgement, verdict=REPRODUCED)

    def _roughly(self, tests: Sequence[Test]) -> bool:
        """Whether figures of one machine are compared with a number of another."""
        return not self.exact and any(
            point.values and not point.exact
            for test in tests
            if getattr(test, "number", None)
            for point in self._needed(test, test.metric)
        )

    def _needed(self, test: Test, metric: str) -> list[Point]:
        """The figures of a metric that a test asks for; a measured one is in no table."""
        return [
            point
            for point in self.points
            if point.metric == metric
            and matches(point.factors, _for(point, test.where))
            and not any(matches(point.factors, _for(point, where)) for where in test.without)
        ]

    def _test(self, test: Test, groups: int, tests: int) -> _Part:
        """What one test finds in so many groups, one of so many tests that have figures."""
        name = words(test.metric)
        if not groups:
            points = self._needed(test, test.metric)
            with_values = [point for point in points if point.values]
            return _Part(NOT_MEASURED, f"{name}: {_why_none(test, points, with_values)}", [])
        judged = self._groups(test, self._evidence(test, groups, tests))
        holds, fails = (sum(g.outcome == word for g in judged) for word in (HOLDS, FAILS))
        verdict = _verdict(test.share, len(judged), holds, fails)
        return _Part(verdict, f"{name}: {self._counted(judged, verdict == UNDECIDED)}", judged)

    def _evidence(self, test: Test, groups: int, tests: int) -> Evidence:
        """What it takes in each of so many groups of one of so many tests.

        Where one group decides a verdict, it may err by chance only with 5 % / their number
        (Bonferroni): one that fails contradicts most claims, and one that holds is enough for
        `some`. Where all of them must agree, each may err with 5 %. One test that fails
        contradicts its claim, so each may err only with its part of the 5 %.
        """
        error = 1 - LEVEL
        if test.share == SOME:
            return Evidence(self.exact, holds=1 - error / groups, fails=1 - error / tests)
        return Evidence(self.exact, fails=1 - error / (groups * tests))

    def _counted(self, groups: Sequence[Group], undecided: bool) -> str:
        counts = {word: sum(g.outcome == word for g in groups) for word in (HOLDS, FAILS, OPEN)}
        said = ", ".join(f"{word} in {count}" for word, count in counts.items() if count)
        values = [group.value for group in groups if group.value is not None]
        ends = dict.fromkeys(number(end) for end in (min(values), max(values))) if values else {}
        spread = f", value{'s' if len(ends) > 1 else ''} {' to '.join(ends)}" if ends else ""
        text = f"{said} of {len(groups)}{spread}"
        if not self.exact and all(group.n == 1 and group.low is None for group in groups):
            text += " (one run a cell: no interval)"
        elif not self.exact and undecided:
            text += " (intervals too wide)"
        return text

    def _groups(self, test: Test, evidence: Evidence) -> list[Group]:
        points = [point for point in self._needed(test, test.metric) if point.values]
        others: list[Point] = []
        if other := getattr(test, "other", None):
            others = [point for point in self._needed(test, other) if point.values]
        if test.relative:
            points = relative(points, test.relative)
        groups: list[Group] = []
        across = any(compares(test, factor) for factor in ACROSS_MACHINES)
        by = test.by if across else [*test.by, "machine"]
        for levels, group in _by(points, by).items():
            label = ", ".join(
                f"{words(name)} {show(level)}" if isinstance(level, float) else level
                for name, level in zip(by, levels, strict=True)
                if level is not None
            )
            if test.kind in ON_TWO_METRICS:
                theirs = _by(others, by).get(levels, []) if others else []
                if others and not theirs:
                    continue
                said = ON_TWO_METRICS[test.kind](test, group, evidence, theirs)
            else:
                said = ON_ONE_METRIC[test.kind](test, group, evidence)
            groups += [replace(result, label=_joined(label, result.label)) for result in said]
        return groups


def _by(
    points: Iterable[Point], factors: Sequence[str]
) -> dict[tuple[Given | None, ...], list[Point]]:
    """Figures by their levels of some factors."""
    by_levels: dict[tuple[Given | None, ...], list[Point]] = {}
    for point in points:
        by_levels.setdefault(tuple(point.factors.get(name) for name in factors), []).append(point)
    return by_levels


def _for(point: Point, where: Where) -> Where:
    """What is asked of a figure: only a published one is in a table of the source."""
    if point.row is not None:
        return where
    return {name: levels for name, levels in where.items() if name != "table"}


def _verdict(share: float | str, groups: int, holds: int, fails: int) -> str:
    """The verdict of a test that holds, and fails, in so many of its groups."""
    if share == MOST:
        needed = groups // 2 + 1
    elif share == SOME:
        needed = 1
    else:
        needed = next(n for n in range(groups + 1) if n >= float(share) * groups - 1e-9)
    if fails > groups - needed:
        return CONTRADICTED
    return REPRODUCED if holds >= needed else UNDECIDED


def _count(groups: Sequence[Group]) -> str:
    """In how many of its groups a test holds."""
    return f"{sum(group.outcome == HOLDS for group in groups)} of {len(groups)}"


def _joined(label: str, inner: str) -> str:
    return f"{label}: {inner}" if label and inner else label or inner


def _of_metric(group: Group, metric: str) -> Group:
    """A group of a claim whose tests are of several metrics."""
    return replace(group, label=f"{words(metric)}, {group.label}")


def _why_none(test: Test, points: Sequence[Point], with_values: Sequence[Point]) -> str:
    """Why a test has no group: no such figures, none with a value, or a side that is missing."""
    if not points:
        return _none_at("no figure", test.where) if test.where else "no such figure"
    if not with_values:
        return "; ".join(dict.fromkeys(p.reason for p in points if p.reason)) or "no value"
    sides = [side for side in wheres(test) if side != test.where]
    if getattr(test, "other", None):
        sides = sides[:-1]  # the last one is of another metric
    for side in sides:
        if not select(with_values, side):
            return _none_at("no figure", side)
    for name in ("across", "along", "over", "factor"):
        if hasattr(test, name):
            factor = getattr(test, name)
            levels = {p.factors[factor] for p in with_values if factor in p.factors}
            there = ", ".join(sorted(map(show, levels))) or "none"
            return f"too few levels of {words(factor)} to compare: {there}"
    return "no figures that differ in nothing else"


def _none_at(text: str, where: Where) -> str:
    parts = [f"{words(name)} {_listed(level)}" for name, level in where.items() if name != "table"]
    return f"{text} with {', '.join(parts)}" if parts else text


def _listed(levels: Level | list[Level]) -> str:
    return " or ".join(map(str, levels)) if isinstance(levels, list) else str(levels)
