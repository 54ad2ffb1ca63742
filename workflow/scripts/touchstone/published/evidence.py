"""When a comparison of figures is shown: published ones as they are, measured ones by intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose

from touchstone.published.contrast import Contrast
from touchstone.statistics.intervals import LEVEL

HOLDS, FAILS, OPEN = "holds", "fails", "cannot tell"
"""What a comparison says of one group of figures."""


@dataclass(frozen=True)
class Group:
    """What a comparison says of one group of figures."""

    label: str
    outcome: str
    text: str
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What it takes to hold, and to fail.

    `exact` takes every figure as it is, as published ones without repeats must be; equal figures
    then count for the claim. Otherwise intervals decide: of the confidence `holds` for a comparison
    that holds, of `fails` for one that fails. Where one of several contrasts is enough, `of` is
    their number, and each gets its part of the error (Bonferroni).
    """

    exact: bool
    holds: float = LEVEL
    fails: float = LEVEL

    def at_least(self, effect: Contrast, bound: float, of: int = 1) -> bool:
        """Whether a contrast is shown to reach a bound."""
        return self._beyond(effect, bound, 0, self.holds, of) or self._is_at(effect, bound)

    def at_most(self, effect: Contrast, bound: float, of: int = 1) -> bool:
        """Whether a contrast is shown not to exceed a bound."""
        return self._beyond(effect, bound, 1, self.holds, of) or self._is_at(effect, bound)

    def below(self, effect: Contrast, bound: float, of: int = 1) -> bool:
        """Whether a contrast is shown to miss a bound that it should reach."""
        return self._beyond(effect, bound, 1, self.fails, of) and not self._is_at(effect, bound)

    def above(self, effect: Contrast, bound: float, of: int = 1) -> bool:
        """Whether a contrast is shown to exceed a bound that it should not."""
        return self._beyond(effect, bound, 0, self.fails, of) and not self._is_at(effect, bound)

    def _beyond(self, effect: Contrast, bound: float, end: int, confidence: float, of: int) -> bool:
        """Whether all of an interval is above a bound (its lower end, 0), or below it (1)."""
        ends = (effect.value,) * 2 if self.exact else effect.interval(1 - (1 - confidence) / of)
        return ends is not None and (ends[1] < bound if end else ends[0] > bound)

    def _is_at(self, effect: Contrast, bound: float) -> bool:
        """Whether figures taken as they are differ by rounding in the last digits only."""
        return self.exact and isclose(effect.value, bound, rel_tol=1e-9, abs_tol=1e-12)

    def between(self, effect: Contrast, least: float | None, most: float | None) -> str:
        """The outcome of a contrast that should lie between two bounds, or beyond one."""
        if least is not None and self.below(effect, least):
            return FAILS
        if most is not None and self.above(effect, most):
            return FAILS
        inside = (least is None or self.at_least(effect, least)) and (
            most is None or self.at_most(effect, most)
        )
        return HOLDS if inside else OPEN


def outcome(holds: bool, fails: bool) -> str:
    """The word for what was shown; nothing, where neither was."""
    return FAILS if fails else HOLDS if holds else OPEN


def group(label: str, said: str, effect: Contrast) -> Group:
    """A group whose number is a contrast, with its 95 % interval."""
    low, high = effect.interval() or (None, None)
    return Group(label, said, effect.text, effect.n, effect.value, low, high)
