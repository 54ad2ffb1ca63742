"""A number that the text of a source says: which figures it is true of.

The tolerance follows from the digits that the author gives and from the word before the number.
Another machine cannot have such a number, so figures of one are judged by its order of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Literal

from touchstone.published.table import half_of_last_digit

Word = Literal["about", "nearly", "over"]
Bounds = tuple[float, float | None]

ABOUT = 0.1
"""What "about" allows at least, as a share."""
MAGNITUDE = sqrt(10)
"""How far a figure of another machine may be from the number, as a ratio: a factor of ten in all,
with the number in its middle."""


def bounds_of(numbers: Sequence[str], word: Word | None) -> Bounds:
    """From which figure to which the number is true, or the range from the first to the last."""
    low, high = numbers[0], numbers[-1]
    if word == "over":
        return float(low), None
    if word is None:  # rounded or cut off
        return float(low) - half_of_last_digit(low), float(high) + 2 * half_of_last_digit(high)
    least = float(low) - _roughly(low)
    return least, float(high) + (_roughly(high) if word == "about" else 0.0)


def order_of_magnitude(bounds: Bounds) -> Bounds:
    """The figures of another machine that are of the same order of magnitude."""
    least, most = bounds
    return least / MAGNITUDE, None if most is None else most * MAGNITUDE


def _roughly(text: str) -> float:
    """How far a figure may be from a number that the text calls only roughly right.

    Zeros at the end of a whole number say nothing of its precision: 2500 has two digits.
    """
    whole = text.rstrip("0") if text.isdigit() else text
    half = half_of_last_digit(whole) * 10.0 ** (len(text) - len(whole))
    return max(half, ABOUT * float(text))
