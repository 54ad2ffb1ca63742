"""What cells that were measured in turn show: their speeds, set by set (docs/interleaving.md)."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import exp, fsum, log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from touchstone.results.files import InputError, parse_json, read_text
from touchstone.schema.interleaved import FORMAT, Interleaved, MeasuredSet, Turns
from touchstone.schema.values import WrongValue, from_json
from touchstone.statistics.groups import Group, Values, compare_groups

LEAST_QUIET = 3
"""Quiet rounds of a set, and sets that have so many, without which all rounds count."""
BUSY = 0.05
"""Cores that a process uses while it waits, from which it disturbs the others."""
ADAPTIVE = 1.2
"""Multiplies the variance where the sets ended as soon as intervals were narrow: they end early
where the noise is too small by chance (simulated in docs/statistics.md)."""
REMEDY = "Delete it and run the workflow again"


class Measured(NamedTuple):
    """What the sets of a comparison show.

    Attributes:
        cells: those that took turns, in order of the plan.
        ratios: of each cell, by set, its speed / that of the first cell.
        sets, rounds: that count.
        all_rounds: that were measured.
        disturbed: whether too few rounds were quiet, so that all count.
        seconds: that a set took, on average.
        busy: cells whose processes used the machine while they waited.
        paired: why there were pairs instead of all cells together; empty where there were not.
        excluded: by cell, why it took no turn.
        adaptive: whether the width of the intervals ended the sets.
    """

    cells: list[str]
    ratios: dict[str, dict[int, float]]
    sets: int
    rounds: int
    all_rounds: int
    disturbed: bool
    seconds: float
    busy: list[str]
    paired: str
    excluded: dict[str, str]
    adaptive: bool

    def speeds(self, runs: Values) -> Values:
        """The ratios as speeds at the level of the `runs`: the geometric mean over the cells is
        that of the medians of their runs, which one disturbed run does not lower."""
        level = exp(
            fmean(
                log(median(runs[cell].values())) - fmean(map(log, self.ratios[cell].values()))
                for cell in self.cells
            )
        )
        return {c: {s: level * r for s, r in self.ratios[c].items()} for c in self.cells}


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
    counting, disturbed = _counting(found.sets)
    rounds = [each for one in found.sets for turns in one.turns for each in turns.rounds]
    used = [each for one in counting for turns in one.turns for each in turns.rounds]
    busy = [
        cell
        for cell in found.cells
        if fmean(one.waiting[cell].cores for one in found.sets if cell in one.waiting) > BUSY
    ]
    return Measured(
        cells=found.cells,
        ratios=ratios_by_set(found.cells, found.sets),
        sets=len(counting),
        rounds=len(used) if disturbed else sum(each.quiet for each in used),
        all_rounds=len(rounds),
        disturbed=disturbed,
        seconds=fmean(one.seconds for one in found.sets),
        busy=busy,
        paired=found.paired,
        excluded=found.excluded,
        adaptive=found.precision is not None,
    )


def ratios_by_set(cells: Sequence[str], sets: Sequence[MeasuredSet]) -> dict[str, dict[int, float]]:
    """Of each cell, by set that counts, its speed / that of the first cell."""
    counting, disturbed = _counting(sets)
    ratios: dict[str, dict[int, float]] = {cell: {} for cell in cells}
    for one in counting:
        for cell, ratio in ratios_of(one, cells[0], disturbed).items():
            ratios[cell][one.number] = ratio
    return ratios


def _counting(sets: Sequence[MeasuredSet]) -> tuple[list[MeasuredSet], bool]:
    """The sets that count, and whether all of their rounds do.

    A set counts with its quiet rounds if it has `LEAST_QUIET`. If fewer sets than that have so
    many, all rounds of all sets count. Which rounds count depends on what other programs used,
    never on a speed.
    """
    quiet = [one for one in sets if _quiet_rounds(one) >= LEAST_QUIET]
    disturbed = len(quiet) < LEAST_QUIET
    return (list(sets) if disturbed else quiet), disturbed


def _quiet_rounds(one: MeasuredSet) -> int:
    return min(sum(each.quiet for each in turns.rounds) for turns in one.turns)


def ratios_of(one: MeasuredSet, first: str, all_rounds: bool) -> dict[str, float]:
    """The speed of each cell / that of the first, of a set: the geometric mean over its rounds."""
    found = {first: 1.0}
    for turns in one.turns:
        for cell in turns.cells:
            if cell != first:
                found[cell] = exp(_mean_log_ratio(turns, cell, first, all_rounds))
    return found


def _mean_log_ratio(turns: Turns, cell: str, first: str, all_rounds: bool) -> float:
    logs = []
    for each in turns.rounds:
        if each.quiet or all_rounds:
            speeds = {part.cell: part.speed for part in each.slices}
            logs.append(log(speeds[cell] / speeds[first]))
    return fsum(logs) / len(logs)


def compare_with_turns(groups: Sequence[Values], turns: Sequence[Measured | None]) -> list[Group]:
    """A model of each group of cells: of its turns where there are some, else of its runs.

    The noise of turns and that of runs are moderated apart. The intervals of all groups hold
    together, as those of `compare_groups`.

    Args:
        groups: throughputs of runs, by cell and block.
        turns: of the same groups.
    """
    values = [one.speeds(runs) if one else runs for runs, one in zip(groups, turns, strict=True)]
    found: dict[int, Group] = {}
    for in_turn in (True, False):
        places = [place for place, one in enumerate(turns) if bool(one) == in_turn]
        models = compare_groups([values[place] for place in places])
        for place, model in zip(places, models, strict=True):
            one = turns[place]
            found[place] = _widened(model) if one and one.adaptive else model
    total = sum(bool(model.freedom) for model in found.values())
    return [found[place]._replace(groups=total) for place in range(len(groups))]


def compare_turns(turns: Sequence[Measured]) -> list[Group]:
    """A model of the ratios of each group; their intervals hold together."""
    models = compare_groups([one.ratios for one in turns])
    return [_widened(m) if one.adaptive else m for m, one in zip(models, turns, strict=True)]


def _widened(model: Group) -> Group:
    return model._replace(variance=ADAPTIVE * model.variance)


def turns_of(groups: Sequence[Values], interleaved: Iterable[Interleaved]) -> list[Measured | None]:
    """For each group the turns of exactly those of its cells that have a value, or None."""
    known = {frozenset(one.cells): one for one in map(measured, interleaved) if one}
    return [known.get(frozenset(cell for cell, v in group.items() if v)) for group in groups]


def reach(ratios: Values) -> float | None:
    """The largest upper end / ratio of the intervals of all pairs, where their width ends the
    sets; None with one set.

    Args:
        ratios: of each cell, by set.
    """
    (model,) = map(_widened, compare_groups([ratios]))
    reaches = []
    for pair in combinations(ratios, 2):
        ratio = model.ratio(*pair)
        ends = ratio.interval() if ratio else None
        if ratio is None or ends is None:
            return None
        reaches.append(ends[1] / ratio.value)
    return max(reaches)
