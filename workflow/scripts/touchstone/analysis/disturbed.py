"""Whether other programs disturbed a study, on its page and in the terminal."""

from collections.abc import Iterable, Sequence
from statistics import median

from touchstone.analysis.again import DISTURBED, Kept
from touchstone.analysis.part import FindingsPart

FLAG, METRIC = "noisy_machine", "other_cpu_utilization"
MOST_DISTURBED = 1 / 3
"""Share of a study's runs that may be disturbed without a warning above all else."""
REMEDY = "End those programs and repeat these runs:"


class Disturbed(FindingsPart):
    """A study of which other programs disturbed more than a third of the runs."""

    runs: int
    """Runs with the flag `noisy_machine`."""
    total: int
    """All runs."""
    share: float
    """Median of what other programs used of the machine's CPU time in these runs, %."""
    ratios_hold: bool = False
    """Whether all comparisons of speed were measured in turn, in rounds without other programs."""

    @property
    def fault(self) -> str:
        """What is wrong with the numbers, as a sentence without its full stop."""
        doubt = (
            "The numbers of the runs are disturbed, the compared speeds are not"
            if self.ratios_hold
            else "Do not trust these numbers"
        )
        return (
            f"{doubt}: other programs used the CPU during {self.runs} of {self.total} runs"
            f" ({self.share:.0f} % of the machine at the median)"
            + ", but not during the rounds that the compared speeds are from"
            * self.ratios_hold
        )

    def line(self, kept: Kept) -> str:
        """The same for the terminal, and what to do about it in the study that is `kept`."""
        return f"{self.fault}. {REMEDY} {kept.again(DISTURBED)}"


def disturbed(runs: Iterable[tuple[Sequence[str], float | None]]) -> Disturbed | None:
    """Whether more than `MOST_DISTURBED` of the runs were; a run is its flags and its `METRIC`."""
    all_runs = list(runs)
    shares = [share for flags, share in all_runs if FLAG in flags and share is not None]
    if len(shares) <= MOST_DISTURBED * len(all_runs):
        return None
    return Disturbed(runs=len(shares), total=len(all_runs), share=median(shares))
