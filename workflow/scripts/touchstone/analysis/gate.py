"""All configurations of two sides judged together: the gate, and its exit status.

docs/statistics.md says how often it errs, and what it finds.
"""

from collections.abc import Iterable, Sequence
from math import exp, sqrt
from statistics import fmean
from typing import NamedTuple

from touchstone.analysis.compare_results import NOT_COMPARABLE, ONLY_NEW, Change
from touchstone.results.metrics import SPEEDS, directions
from touchstone.statistics.intervals import SESSION_SD, Ratio, critical
from touchstone.statistics.sittings import common_shift, holm, without_shift

PASSED, SLOWER, NOT_COMPARED, CANNOT_TELL = range(4)
"""The exit status."""


class Gate(NamedTuple):
    """All configurations judged together.

    Attributes:
        metric: a speed or a time.
        session_sd: that the ratios allow for; 0 of sides that were measured in turn.
        tolerance: the largest slowdown that passes, as a share; None: what is not shown passes.
        shift: the ratio of the sittings that most cells share; None for too few cells.
        shift_verdict: its verdict; empty without a shift.
    """

    changes: list[Change]
    metric: str
    session_sd: float
    tolerance: float | None
    shift: Ratio | None = None
    shift_verdict: str = ""

    @property
    def judged(self) -> list[Change]:
        """Those that have a ratio."""
        return [change for change in self.changes if change.ratio]

    @property
    def slower(self) -> list[Change]:
        """Those that are shown to be slower, all judged together, by more than is tolerated."""
        return [
            c for c in self.judged if c.verdict == "slower" and c.certain and self.beyond(c.whole)
        ]

    @property
    def undecided(self) -> list[Change]:
        """Those of which a slowdown beyond the tolerance is not excluded."""
        return [change for change in self.judged if self.beyond(change.whole)]

    @property
    def not_compared(self) -> list[Change]:
        """Those of the old side that cannot be compared. One that only the new side has has nothing
        to be compared with."""
        return [c for c in self.changes if c.verdict == NOT_COMPARABLE and c.why != ONLY_NEW]

    def beyond(self, ratio: Ratio | None) -> bool:
        """Whether the interval of a ratio holds a slowdown that is not tolerated."""
        return self.tolerance is None or self.slowdown(ratio) > self.tolerance

    def slowdown(self, ratio: Ratio | None) -> float:
        """The largest slowdown in the interval of a ratio, as a share of the old speed or time."""
        low, high = (ratio.interval() if ratio else None) or (0.0, float("inf"))
        return max(1 - low if self.metric in SPEEDS else high - 1, 0.0)

    @property
    def worst(self) -> Change | None:
        """The one with the largest slowdown that is not excluded."""
        return max(self.judged, key=lambda change: self.slowdown(change.whole), default=None)

    @property
    def status(self) -> int:
        """The exit status: `SLOWER` outweighs `NOT_COMPARED`, and that `CANNOT_TELL`.

        A slowdown that is shown, and of which more than the tolerance is excluded, passes.
        """
        if self.slower or (self.shift_verdict == "slower" and self.beyond(self.shift)):
            return SLOWER
        if self.not_compared or not self.judged:
            return NOT_COMPARED
        return CANNOT_TELL if self.tolerance is not None and self.undecided else PASSED


def judged_together(
    changes: Sequence[Change],
    metric: str,
    session_sd: float = SESSION_SD,
    tolerance: float | None = None,
) -> Gate:
    """The changes of two sittings without the shift that most of them share, and p-values of all
    cells together.

    The shift is judged by its own interval, the cells by Holm's correction, so each calls an
    unchanged side slower in at most 2.5 % of comparisons.
    """
    ratios = [change.ratio for change in changes if change.ratio]
    shift = common_shift(ratios, session_sd, _shared_variance(changes, session_sd))
    together = _corrected(changes, without_shift(ratios), metric)
    verdict = shift.verdict(directions(metric)) if shift else ""
    return Gate(together, metric, session_sd, tolerance, shift, verdict)


def _shared_variance(changes: Iterable[Change], session_sd: float) -> float:
    """The variance of the mean change that cells which took turns have in common: in a set, all of
    them are as fast as the machine is then. The noise of each is taken for shared."""
    judged = [(change.together, change.ratio) for change in changes if change.ratio]
    groups: dict[tuple[str, ...], list[float]] = {}
    for together, ratio in judged:
        if together:
            own = (ratio.error or 0.0) ** 2 - 2 * session_sd**2
            groups.setdefault(together, []).append(max(own, 0.0))
    return sum((len(own) / len(judged)) ** 2 * fmean(own) for own in groups.values())


def judged_in_turn(changes: Sequence[Change], tolerance: float | None = None) -> Gate:
    """The changes between sides that were measured in turn: they share no sitting's shift."""
    ratios = [change.ratio for change in changes if change.ratio]
    together = _corrected(changes, ratios, "throughput")
    return Gate(together, "throughput", 0.0, tolerance)


def _corrected(changes: Iterable[Change], ratios: Sequence[Ratio], metric: str) -> list[Change]:
    """The changes with these ratios, which those that have one get in order."""
    adjusted = holm([1.0 if (p := ratio.p_value) is None else p for ratio in ratios])
    follow = iter(zip(ratios, adjusted, strict=True))
    together = []
    for change in changes:
        if change.ratio:
            ratio, p = next(follow)
            verdict = ratio.verdict(directions(metric))
            change = change._replace(ratio=ratio, verdict=verdict, p_holm=p, whole=change.ratio)
        together.append(change)
    return together


def least_slowdown(session_sd: float) -> float:
    """The smallest slowdown that two sittings can exclude if they measure equal speeds, however
    quiet the runs: what the sittings themselves may differ by."""
    return 1 - exp(-critical(float("inf")) * sqrt(2) * session_sd)
