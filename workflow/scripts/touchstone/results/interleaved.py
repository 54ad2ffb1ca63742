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
    groups = []
    for path in paths:
        try:
            value = parse_json(read_text(path, REMEDY))
            if not isinstance(value, dict) or value.get("format") != FORMAT:
                raise WrongValue(f"it is no object of format {FORMAT}")
            groups.append(_checked(from_json(Interleaved, value)))
        except ValueError as fault:
            raise InputError(path, f"not what turns leave ({fault})", REMEDY) from None
    return groups


def _checked(group: Interleaved) -> Interleaved:
    """Raise WrongValue where the sets are not of the cells, or a slice has no speed."""
    for set_ in group.sets:
        for turns in set_.turns:
            for round_ in turns.rounds:
                names = [part.cell for part in round_.slices]
                if sorted(names) != sorted(turns.cells):
                    raise WrongValue(f"set {set_.number}: a round of {', '.join(names)}")
                if min(min(part.seconds, part.examples) for part in round_.slices) <= 0:
                    raise WrongValue(f"set {set_.number}: a slice without time or examples")
        if {cell for turns in set_.turns for cell in turns.cells} != set(group.cells):
            raise WrongValue(f"set {set_.number}: its cells are not those of the file")
    return group


def measured(group: Interleaved) -> Measured | None:
    """What the sets of a group show; None where there are none."""
    if not group.sets:
        return None
    counting = _counting(group.sets)
    rounds = [round_ for set_ in group.sets for round_ in set_.rounds]
    used = counting.rounds
    busy = [
        cell
        for cell in group.cells
        if fmean(set_.waiting[cell].cores for set_ in group.sets if cell in set_.waiting) > BUSY
    ]
    return Measured(
        cells=group.cells,
        speeds=_speeds(group.cells, counting),
        sets=len(counting.sets),
        rounds=len(used),
        all_sets=len(group.sets),
        all_rounds=len(rounds),
        set_aside=sum(len(set_.set_aside) for set_ in group.sets),
        disturbed=sum(not round_.quiet for round_ in used),
        apart=counting.apart,
        moved=sum(not part.near(counting.least) for set_ in group.sets for part in set_.slices),
        seconds=fmean(set_.seconds for set_ in group.sets),
        busy=busy,
        paired=group.paired,
        asked_rounds=group.rounds,
        excluded=group.excluded,
        adaptive=group.precision is not None,
    )


def speeds_by_set(cells: Sequence[str], sets: Sequence[MeasuredSet]) -> dict[str, dict[int, float]]:
    """Of each cell, by set that counts, its speed, examples/s (`speeds_of`)."""
    return _speeds(cells, _counting(sets))


def only_near(sets: Sequence[MeasuredSet]) -> bool:
    """Whether the cores were near in all rounds that count."""
    return not _counting(sets).apart


def _speeds(cells: Sequence[str], counting: "Counting") -> dict[str, dict[int, float]]:
    speeds: dict[str, dict[int, float]] = {cell: {} for cell in cells}
    for set_ in counting.sets:
        for cell, speed in speeds_of(set_, cells[0], counting.counts).items():
            speeds[cell][set_.number] = speed
    return speeds


class Counting(NamedTuple):
    """The sets that count, which of their rounds do, and the least core latency of all rounds."""

    sets: Sequence[MeasuredSet]
    counts: Callable[[Round], bool]
    least: float

    @property
    def rounds(self) -> list[Round]:
        """Those that count."""
        return [round_ for set_ in self.sets for round_ in set_.rounds if self.counts(round_)]

    @property
    def apart(self) -> int:
        """In how many of these the cores were apart."""
        return sum(not round_.near(self.least) for round_ in self.rounds)


def _counting(sets: Sequence[MeasuredSet]) -> Counting:
    """Which rounds count. That depends on other programs and on the cores, never on a speed.

    A set counts with its quiet rounds in which the cores were near, if it has `LEAST_QUIET`. If
    fewer than half of the sets have so many, or fewer than `LEAST_QUIET`, all quiet rounds count;
    and if fewer than `LEAST_QUIET` sets have so many of those, all rounds of all sets.
    """
    least = least_latency(part for set_ in sets for part in set_.slices)
    rules: list[tuple[Callable[[Round], bool], float]] = [
        (lambda round_: round_.quiet and round_.near(least), max(LEAST_QUIET, len(sets) / 2)),
        (lambda round_: round_.quiet, LEAST_QUIET),
    ]
    for rule, least_sets in rules:
        enough = [
            set_ for set_ in sets
            if min(sum(map(rule, turns.rounds)) for turns in set_.turns) >= LEAST_QUIET
        ]  # fmt: skip
        if len(enough) >= least_sets:
            return Counting(enough, rule, least)
    return Counting(sets, lambda round_: True, least)


def speeds_of(set_: MeasuredSet, first: str, counts: Callable[[Round], bool]) -> dict[str, float]:
    """The speed of each cell in a set, examples/s.

    The ratio of two speeds is from the medians over the rounds that count of each cell's speed /
    that of its round, which rounds in which a cell was slowed down hardly move
    (docs/measuring.md). The level is that at which the speeds are nearest, by least squares of
    logarithms, to the medians of each cell's slices: speeds that the cells had.
    """
    logs = {first: 0.0}
    slices: dict[str, list[float]] = {}
    for turns in set_.turns:
        typical = _typical_logs(turns, counts)
        logs |= {cell: typical[cell] - typical[first] for cell in turns.cells}
        for part in (part for round_ in filter(counts, turns.rounds) for part in round_.slices):
            slices.setdefault(part.cell, []).append(log(part.speed))
    level = fmean(median(slices[cell]) - value for cell, value in logs.items())
    return {cell: exp(level + value) for cell, value in logs.items()}


def _typical_logs(turns: Turns, counts: Callable[[Round], bool]) -> dict[str, float]:
    """Of each cell the logarithm of its speed / the geometric mean of its round, the median over
    the rounds that count."""
    logs: dict[str, list[float]] = {cell: [] for cell in turns.cells}
    for round_ in filter(counts, turns.rounds):
        own = {part.cell: log(part.speed) for part in round_.slices}
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
    values = [result.speeds if result else runs for runs, result in zip(groups, turns, strict=True)]
    by_place: dict[int, Group] = {}
    for in_turn in (True, False):
        places = [place for place, result in enumerate(turns) if bool(result) == in_turn]
        models = compare_groups([values[place] for place in places])
        for place, model in zip(places, models, strict=True):
            result = turns[place]
            by_place[place] = _widened(model) if result and result.adaptive else model
    total = sum(bool(model.freedom) for model in by_place.values())
    return [by_place[place]._replace(groups=total) for place in range(len(groups))]


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
        None if result and is_too_wide(model) and not is_too_wide(runs, result.cells) else result
        for result, runs, model in zip(turns, of_runs, of_turns, strict=True)
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
    models = compare_groups([result.speeds for result in turns])
    return [_widened(m) if result.adaptive else m for m, result in zip(models, turns, strict=True)]


def _widened(model: Group) -> Group:
    return model._replace(variance=ADAPTIVE * model.variance)


def turns_of(groups: Sequence[Values], interleaved: Iterable[Interleaved]) -> list[Measured | None]:
    """For each group the turns of its cells, or None.

    All cells that have a value must have taken part. Others may have: other programs may have
    slowed down all runs of a cell until they were ended.
    """
    results = [result for result in map(measured, interleaved) if result]

    def turns(group: Values) -> Measured | None:
        valued = {cell for cell, values in group.items() if values}
        fitting = (result for result in results if valued <= set(result.cells) <= group.keys())
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
