"""What two installations that were measured in turn show, configuration by configuration."""

from collections.abc import Sequence
from typing import NamedTuple

from touchstone.results.interleaved import Measured, compare_turns, measured
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.intervals import Ratio


class Judged(NamedTuple):
    """A configuration's line of text, and its verdict: `slower`, `faster`, `no difference shown`
    or `not compared`."""

    text: str
    verdict: str


def judge(compared: Sequence[Interleaved]) -> list[Judged]:
    """Judge the throughput of `new` / that of `old`, for each configuration.

    The intervals of all configurations hold together with 95 %.
    """
    found = [None if one.excluded else measured(one) for one in compared]
    models = iter(compare_turns([one for one in found if one]))
    return [
        _judged(one.group, turns, next(models).ratio("new", "old")) if turns else _left_out(one)
        for one, turns in zip(compared, found, strict=True)
    ]


def _left_out(one: Interleaved) -> Judged:
    why = "; ".join(f"{side}: {reason}" for side, reason in one.excluded.items())
    return Judged(f"{one.group}: not compared: {why or 'no set was measured'}", "not compared")


def _judged(name: str, turns: Measured, ratio: Ratio | None) -> Judged:
    ends = ratio.interval() if ratio else None
    assert ratio and ends, "three sets or more have an interval"
    low, high = ends
    verdict = "slower" if high < 1 else "faster" if low > 1 else "no difference shown"
    trust = ""
    if turns.disturbed:
        used = f"other programs used the cores in {turns.disturbed} of these"
        trust = f"; {used}, so trust this less"
    elif turns.apart:
        trust = f"; the hypervisor had moved the cores apart in {turns.apart} of these"
    basis = f"{turns.sets} sets, {turns.rounds} of {turns.all_rounds} rounds{trust}"
    return Judged(
        f"{name}: new / old {ratio.value:.3f} [{low:.3f}, {high:.3f}], {verdict} ({basis})", verdict
    )
