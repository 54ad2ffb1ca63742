"""What sets of trials show, in which the settings of a run with the mode `best` took turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from touchstone.measure.trials import Search, Settings, first_step_time
from touchstone.results.interleaved import ADAPTIVE, LEAST_QUIET, speeds_of
from touchstone.schema.interleaved import MeasuredSet, Round, least_latency
from touchstone.schema.spec import Trial
from touchstone.schema.status import OK
from touchstone.statistics.groups import Group, compare_groups
from touchstone.statistics.intervals import Ratio


def counting(set_: MeasuredSet, least: float) -> Callable[[Round], bool]:
    """Which rounds of a set count: quiet ones with near cores, or all quiet ones where fewer than
    three are so; none where fewer than three are quiet. A ratio beside other programs says nothing
    of one without. Of a set with fewer rounds all must be quiet.

    Args:
        least: the least core latency of all sets, ns.
    """
    enough = min(LEAST_QUIET, len(set_.rounds))
    rules: list[Callable[[Round], bool]] = [
        lambda round_: round_.quiet and round_.near(least),
        lambda round_: round_.quiet,
    ]
    return next(
        (rule for rule in rules if sum(map(rule, set_.rounds)) >= enough), lambda round_: False
    )


def counted(
    sets: Sequence[MeasuredSet], *names: str
) -> list[tuple[MeasuredSet, Callable[[Round], bool]]]:
    """The sets that count and have all these settings, each with the rule for its rounds."""
    least = least_latency(part for set_ in sets for part in set_.slices)
    with_all = [set_ for set_ in sets if {*names} <= {*set_.turns[0].cells}]
    rules = [(set_, counting(set_, least)) for set_ in with_all]
    return [(set_, rule) for set_, rule in rules if any(map(rule, set_.rounds))]


class Compared(NamedTuple):
    """The ratio of two settings, from so many `sets`: of a single one from its rounds."""

    ratio: Ratio
    sets: int


class TurnsJudge:
    """Judges settings by the sets in which they took turns."""

    def leader(self, sets: Sequence[MeasuredSet], leader: str) -> str:
        """The fastest of those that the rounds show to be faster than the `leader`, or itself."""
        model = _by_round(counted(sets))
        faster = [
            cell
            for cell in model.ranked
            if (ratio := model.ratio(cell, leader)) and _is_above_one(ratio, ratio.interval())
        ]
        return faster[0] if faster else leader

    def sets(self, sets: Sequence[MeasuredSet], cell: str, other: str) -> int:
        """How many count that have both."""
        return len(counted(sets, cell, other))

    def is_faster(self, sets: Sequence[MeasuredSet], cell: str, other: str) -> bool:
        """Whether the interval of their ratio, over two sets or more, lies above 1."""
        compared = compare(sets, cell, other)
        interval = compared.ratio.interval() if compared and compared.sets > 1 else None
        return interval is not None and interval[0] > 1


def _is_above_one(ratio: Ratio, interval: tuple[float, float] | None) -> bool:
    """Of a single round, which has no interval, the ratio itself counts."""
    return interval[0] > 1 if interval else ratio.value > 1


def _by_round(sets: Sequence[tuple[MeasuredSet, Callable[[Round], bool]]]) -> Group:
    """A model of the speeds in the rounds that count."""
    speeds: dict[str, dict[int, float]] = {}
    rounds = (round_ for set_, rule in sets for round_ in filter(rule, set_.rounds))
    for number, round_ in enumerate(rounds):
        for part in round_.slices:
            speeds.setdefault(part.cell, {})[number] = part.speed
    (model,) = compare_groups([speeds])
    return model


def compare(sets: Sequence[MeasuredSet], name: str, other: str) -> Compared | None:
    """Speed of one / that of the other; None where no set with both counts.

    The interval is wider by as much as that of turns whose width ends the sets, for these end
    when one is shown to be faster.
    """
    with_both = counted(sets, name, other)
    if not with_both:
        return None
    if len(with_both) == 1:
        ratio = _by_round(with_both).ratio(name, other)
        return ratio and Compared(ratio, 1)
    speeds = {set_.number: speeds_of(set_, other, rule) for set_, rule in with_both}
    by_cell = {cell: {n: rates[cell] for n, rates in speeds.items()} for cell in (name, other)}
    (model,) = compare_groups([by_cell])
    ratio = model._replace(variance=ADAPTIVE * model.variance).ratio(name, other)
    return ratio and Compared(ratio, len(with_both))


def trials_of(search: Search, choice: Settings, run: Path) -> list[Trial]:
    """What the record of a run says of all settings that its `search` tried, in their order."""
    reference = search.reference
    return [_trial(search, name, reference, choice, run) for name in search.tried]


def _trial(search: Search, name: str, reference: str | None, choice: Settings, run: Path) -> Trial:
    settings, failed = search.tried[name], search.failed.get(name)
    passed = search.has_passed(name)
    other = passed and reference is not None and name != reference
    compared = compare(search.sets, name, reference) if other and reference else None
    low, high = (compared and compared.ratio.interval()) or (None, None)
    return Trial(
        *settings,
        status=failed.status if failed else OK,
        reason=failed.reason if failed else None,
        throughput=_throughput(search.sets, name) if passed else None,
        first_step_time=first_step_time(run / name / "events.jsonl"),
        folder=name,
        ratio=compared.ratio.value if compared else 1.0 if name == reference else None,
        low=low,
        high=high,
        sets=len(counted(search.sets, name, reference)) if passed and reference else None,
        chosen=settings == choice,
    )


def _throughput(sets: Sequence[MeasuredSet], name: str) -> float:
    """The median speed of its slices, images/s: of the rounds that count, if there are any."""
    rounds = [round_ for set_, rule in counted(sets, name) for round_ in filter(rule, set_.rounds)]
    rounds = rounds or [round_ for set_ in sets for round_ in set_.rounds]
    return median(part.speed for round_ in rounds for part in round_.slices if part.cell == name)
