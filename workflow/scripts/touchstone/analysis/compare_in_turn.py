"""What two installations that were measured in turn show, configuration by configuration."""

from collections.abc import Sequence
from typing import NamedTuple

from touchstone.results.interleaved import Measured, compare_turns, measured
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.intervals import Ratio


class Compared(NamedTuple):
    """A configuration, the turns of its two sides (`old` first), or why there are none."""

    name: str
    turns: Interleaved
    why: str


class Judged(NamedTuple):
    """A configuration's line of text, and its verdict: `slower`, `faster`, `no difference shown`
    or `not compared`."""

    text: str
    verdict: str


def judge(compared: Sequence[Compared]) -> list[Judged]:
    """Judge the throughput of `new` / that of `old`.

    The intervals of all configurations hold together with 95 %.
    """
    found = [None if one.why else measured(one.turns) for one in compared]
    models = iter(compare_turns([one for one in found if one]))
    return [
        _judged(one.name, turns, next(models).ratio("new", "old"))
        if turns
        else Judged(f"{one.name}: not compared: {one.why or 'no set was measured'}", "not compared")
        for one, turns in zip(compared, found, strict=True)
    ]


def _judged(name: str, turns: Measured, ratio: Ratio | None) -> Judged:
    ends = ratio.interval() if ratio else None
    assert ratio and ends, "three sets or more have an interval"
    low, high = ends
    verdict = "slower" if high < 1 else "faster" if low > 1 else "no difference shown"
    trust = "; other programs disturbed them, so trust this less" if turns.disturbed else ""
    basis = f"{turns.sets} sets, {turns.rounds} of {turns.all_rounds} rounds{trust}"
    return Judged(
        f"{name}: new / old {ratio.value:.3f} [{low:.3f}, {high:.3f}], {verdict} ({basis})", verdict
    )
