"""A ratio as the findings have it."""

from touchstone.analysis.part import RatioEstimate
from touchstone.statistics.intervals import UNDECIDED, Ratio


def estimate(ratio: Ratio | None) -> RatioEstimate | None:
    """A ratio of throughputs with its 95 % interval and its verdict."""
    if ratio is None:
        return None
    low, high = ratio.interval() or (None, None)
    least, most = ratio.detectable_limits or (None, None)
    return RatioEstimate(
        n=ratio.n,
        value=ratio.value,
        low=low,
        high=high,
        verdict=ratio.verdict(undecided=UNDECIDED),
        indicative=ratio.indicative,
        detectable=ratio.detectable,
        detectable_low=least,
        detectable_high=most,
    )
