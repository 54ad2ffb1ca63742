"""What the parts of the findings have in common: the base class, ratios, units of speeds."""

from pydantic import BaseModel, ConfigDict

from touchstone.plan.setting import INFERENCE, OPERATION, PROGRAM, TRAINING, Kind

UNIT_OF: dict[Kind, str] = {
    TRAINING: "images/s", INFERENCE: "images/s", OPERATION: "calls/s", PROGRAM: "examples/s",
}  # fmt: skip
"""The unit of `SPEED_OF` in sentences."""


class FindingsPart(BaseModel):
    """A part of the findings: immutable, and without NaN and infinity.

    The docstring of a field is its description in docs/contracts.md. An unknown key, a missing
    key and a number that is not finite raise `pydantic.ValidationError`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class RatioEstimate(FindingsPart):
    """A ratio of two cells, from the blocks that they ran in (docs/statistics.md)."""

    n: int
    """Values of the cell that has fewer."""
    value: float
    """The ratio."""
    low: float | None
    """Lower end of its 95 % interval; null with fewer than two blocks."""
    high: float | None
    """Upper end of the interval."""
    verdict: str
    """`faster` or `slower` where the interval excludes 1, else `cannot tell`; `too few runs`
    without an interval."""
    indicative: bool
    """Whether there are so few blocks that the interval rests on assumptions about the noise."""
    detectable: float | None
    """The smallest change, as a share, that this noise would show in 4 of 5 studies; null without
    an interval."""
    detectable_low: float | None
    """Lower end of the 95 % interval of `detectable`: few runs say little about the noise."""
    detectable_high: float | None
    """Upper end of it."""
