"""What cells that were measured in turn show: their speeds, set by set (docs/measuring.md)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from touchstone.results.files import InputError, parse_json, read_text
from touchstone.schema.interleaved import (
    FORMAT,
    Interleaved,
    MeasuredSet,
    Round,
    Turns,
    least_latency,
)
from touchstone.schema.values import WrongValue, from_json
from touchstone.statistics.groups import Group, Values, compare_groups

LEAST_QUIET = 3
"""Quiet rounds of a set, and sets that have so many, without which other rounds count too."""
BUSY = 0.05
"""Cores that a process uses while it waits, from which it disturbs the others."""
ADAPTIVE = 1.2
"""Multiplies the variance where the sets ended as soon as intervals were narrow: they end early
where the noise is too small by chance (simulated in docs/statistics.md)."""
TOO_WIDE = 1.5
"""Upper end of an interval / its ratio from which a comparison has no answer."""
REMEDY = "Delete it and run the workflow again"


class Measured(NamedTuple):
    """What the sets of a comparison show.

    Attributes:
        cells: those that took turns, in order of the plan.
        speeds: of each cell, by set, examples/s (`speeds_of`).
        sets, rounds: that count.
        all_sets, all_rounds: that were measured.
        set_aside: slices that were repeated.
        disturbed: rounds that count although other programs used the cores, as too few others were
            quiet.
        apart: rounds that count although the cores were apart, as too few others were quiet.
        moved: slices in which the cores were apart, of all that were measured.
        seconds: that a set took, on average.
        busy: cells whose processes used the machine while they waited.
        paired: why there were pairs instead of all cells together; empty where there were not.
        asked_rounds: that a set was to have.
        excluded: by cell, why it took no turn.
        adaptive: whether the width of the intervals ended the sets.
    """

    cells: list[str]
    speeds: dict[str, dict[int, float]]
    sets: int
    rounds: int
    all_sets: int
    all_rounds: int
    set_aside: int
    disturbed: int
    apart: int
    moved: int
    seconds: float
    busy: list[str]
    paired: str
    asked_rounds: int
    excluded: dict[str, str]
    adaptive: bool


def read_interleaved(paths: Iterable[Path]) -> list[Interleaved]:
    """The groups that were measured in turn.

    Raises:
        InputError: a file is missing or damaged.
    """
    found = []
    for path in paths:
        try:
            value = parse_json(read_text(path, REMEDY))
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                raise WrongValue(f"it is no object of format {FORMAT}")
            found.append(_checked(from_json(Interleaved, value)))
        except ValueError as fault:
            raise InputError(path, f"not what turns leave ({fault})", REMEDY) from None
    return found


def _checked(found: Interleaved) -> Interleaved:
    """Raise WrongValue where the sets are not of the cells, or a slice has no speed."""
    for one in found.sets:
        for turns in one.turns:
            for each in turns.rounds:
                names = [part.cell for part in each.slices]
                if sorted(names) != sorted(turns.cells):
                    raise WrongValue(f"set {one.number}: a round of {', '.join(names)}")
                if min(min(part.seconds, part.examples) for part in each.slices) <= 0:
                    raise WrongValue(f"set {one.number}: a slice without time or examples")
        if {cell for turns in one.turns for cell in turns.cells} != set(found.cells):
            raise WrongValue(f"set {one.number}: its cells are not those of the file")
    return found


def measured(found: Interleaved) -> Measured | None:
    """What the sets of a group show; None where there are none."""
    if not found.sets:
        return None
    counting = _counting(found.sets)
    rounds = [each for one in found.sets for each in one.rounds]
    used = counting.rounds
    busy = [
        cell
        for cell in found.cells
        if fmean(one.waiting[cell].cores for one in found.sets if cell in one.waiting) > BUSY
    ]
    return Measured(
        cells=found.cells,
        speeds=_speeds(found.cells, counting),
        sets=len(counting.sets),
        rounds=len(used),
        all_sets=len(found.sets),
        all_rounds=len(rounds),
        set_aside=sum(len(one.set_aside) for one in found.sets),
        disturbed=sum(not each.quiet for each in used),
        apart=counting.apart,
        moved=sum(not part.near(counting.least) for one in found.sets for part in one.slices),
        seconds=fmean(one.seconds for one in found.sets),
        busy=busy,
        paired=found.paired,
        asked_rounds=found.rounds,
        excluded=found.excluded,
        adaptive=found.precision is not None,
    )


def speeds_by_set(cells: Sequence[str], sets: Sequence[MeasuredSet]) -> dict[str, dict[int, float]]:
    """Of each cell, by set that counts, its speed, examples/s (`speeds_of`)."""
    return _speeds(cells, _counting(sets))


def only_near(sets: Sequence[MeasuredSet]) -> bool:
    """Whether the cores were near in all rounds that count."""
    return not _counting(sets).apart


def _speeds(cells: Sequence[str], counting: "Counting") -> dict[str, dict[int, float]]:
    speeds: dict[str, dict[int, float]] = {cell: {} for cell in cells}
    for one in counting.sets:
        for cell, speed in speeds_of(one, cells[0], counting.counts).items():
            speeds[cell][one.number] = speed
    return speeds


class Counting(NamedTuple):
    """The sets that count, which of their rounds do, and the least core latency of all rounds."""

    sets: Sequence[MeasuredSet]
    counts: Callable[[Round], bool]
    least: float

    @property
    def rounds(self) -> list[Round]:
        """Those that count."""
        return [each for one in self.sets for each in one.rounds if self.counts(each)]

    @property
    def apart(self) -> int:
        """In how many of these the cores were apart."""
        return sum(not each.near(self.least) for each in self.rounds)


def _counting(sets: Sequence[MeasuredSet]) -> Counting:
    """Which rounds count. That depends on other programs and on the cores, never on a speed.

    A set counts with its quiet rounds in which the cores were near, if it has `LEAST_QUIET`. If
    fewer than half of the sets have so many, or fewer than `LEAST_QUIET`, all quiet rounds count;
    and if fewer than `LEAST_QUIET` sets have so many of those, all rounds of all sets.
    """
    least = least_latency(part for one in sets for part in one.slices)
    rules: list[tuple[Callable[[Round], bool], float]] = [
        (lambda each: each.quiet and each.near(least), max(LEAST_QUIET, len(sets) / 2)),
        (lambda each: each.quiet, LEAST_QUIET),
    ]
    for rule, least_sets in rules:
        enough = [
            one for one in sets
            if min(sum(map(rule, turns.rounds)) for turns in one.turns) >= LEAST_QUIET
        ]  # fmt: skip
        if len(enough) >= least_sets:
            return Counting(enough, rule, least)
    return Counting(sets, lambda each: True, least)


def speeds_of(one: MeasuredSet, first: str, counts: Callable[[Round], bool]) -> dict[str, float]:
    """The speed of each cell in a set, examples/s.

    The ratio of two speeds is from the medians over the rounds that count of each cell's speed /
    that of its round, which rounds in which a cell was slowed down hardly move
    (docs/measuring.md). The level is that at which the speeds are nearest, by least squares of
    logarithms, to the medians of each cell's slices: speeds that the cells had.
    """
    logs = {first: 0.0}
    slices: dict[str, list[float]] = {}
    for turns in one.turns:
        typical = _typical_logs(turns, counts)
        logs |= {cell: typical[cell] - typical[first] for cell in turns.cells}
        for part in (part for each in filter(counts, turns.rounds) for part in each.slices):
            slices.setdefault(part.cell, []).append(log(part.speed))
    level = fmean(median(slices[cell]) - value for cell, value in logs.items())
    return {cell: exp(level + value) for cell, value in logs.items()}


def _typical_logs(turns: Turns, counts: Callable[[Round], bool]) -> dict[str, float]:
    """Of each cell the logarithm of its speed / the geometric mean of its round, the median over
    the rounds that count."""
    logs: dict[str, list[float]] = {cell: [] for cell in turns.cells}
    for each in filter(counts, turns.rounds):
        own = {part.cell: log(part.speed) for part in each.slices}
        level = fmean(own.values())
        for cell, value in own.items():
            logs[cell].append(value - level)
    return {cell: median(values) for cell, values in logs.items()}


def compare_with_turns(groups: Sequence[Values], turns: Sequence[Measured | None]) -> list[Group]:
    """A model of each group of cells: of its turns where there are some, else of its runs.

    The noise of turns and that of runs are moderated apart. The intervals of all groups hold
    together, as those of `compare_groups`.

    Args:
        groups: throughputs of runs, by cell and block.
        turns: of the same groups.
    """
    values = [one.speeds if one else runs for runs, one in zip(groups, turns, strict=True)]
    found: dict[int, Group] = {}
    for in_turn in (True, False):
        places = [place for place, one in enumerate(turns) if bool(one) == in_turn]
        models = compare_groups([values[place] for place in places])
        for place, model in zip(places, models, strict=True):
            one = turns[place]
            found[place] = _widened(model) if one and one.adaptive else model
    total = sum(bool(model.freedom) for model in found.values())
    return [found[place]._replace(groups=total) for place in range(len(groups))]


def answering(groups: Sequence[Values], turns: Sequence[Measured | None]) -> list[Measured | None]:
    """The turns that answer: not those whose intervals reach further than a factor of `TOO_WIDE`
    where the intervals of the runs do not.

    Args:
        groups: throughputs of runs, by cell and block.
        turns: of the same groups.
    """
    if not any(turns):
        return list(turns)
    of_runs, of_turns = compare_groups(groups), compare_with_turns(groups, turns)
    return [
        None if one and is_too_wide(model) and not is_too_wide(runs, one.cells) else one
        for one, runs, model in zip(turns, of_runs, of_turns, strict=True)
    ]


def is_too_wide(model: Group, cells: Collection[str] = ()) -> bool:
    """Whether an interval of the fastest cell against another one reaches further beyond its ratio
    than a factor of `TOO_WIDE`, or there is none.

    Args:
        cells: that must all have an interval; by default those of the model.
    """
    if not model.ranked:
        return True
    reach_of_leader = reach_of(model, [(model.ranked[0], cell) for cell in model.ranked[1:]])
    lacking = set(cells) - set(model.ranked)
    return bool(lacking) or reach_of_leader is None or reach_of_leader > TOO_WIDE


def reach_of(model: Group, pairs: Iterable[tuple[str, str]]) -> float | None:
    """The largest upper end / ratio of the intervals of some pairs; None where one has none."""
    reaches = []
    for pair in pairs:
        ratio = model.ratio(*pair)
        ends = ratio.interval() if ratio else None
        if ratio is None or ends is None:
            return None
        reaches.append(ends[1] / ratio.value)
    return max(reaches, default=None)


def compare_turns(turns: Sequence[Measured]) -> list[Group]:
    """A model of the speeds of each group; their intervals hold together."""
    models = compare_groups([one.speeds for one in turns])
    return [_widened(m) if one.adaptive else m for m, one in zip(models, turns, strict=True)]


def _widened(model: Group) -> Group:
    return model._replace(variance=ADAPTIVE * model.variance)


def turns_of(groups: Sequence[Values], interleaved: Iterable[Interleaved]) -> list[Measured | None]:
    """For each group the turns of its cells, or None.

    All cells that have a value must have taken part. Others may have: other programs may have
    slowed down all runs of a cell until they were ended.
    """
    known = [one for one in map(measured, interleaved) if one]

    def turns(group: Values) -> Measured | None:
        valued = {cell for cell, values in group.items() if values}
        fitting = (one for one in known if valued <= set(one.cells) <= group.keys())
        return next(fitting, None)

    return list(map(turns, groups))


def reach(speeds: Values) -> float | None:
    """The largest upper end / ratio of the intervals of all pairs, where their width ends the
    sets; None with one set.

    Args:
        speeds: of each cell, by set.
    """
    (model,) = map(_widened, compare_groups([speeds]))
    return reach_of(model, combinations(speeds, 2))
