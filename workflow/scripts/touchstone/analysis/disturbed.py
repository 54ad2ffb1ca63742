"""Whether other programs disturbed a study, on its page and in the terminal."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from touchstone.analysis.part import Part

FLAG, METRIC = "noisy_machine", "other_cpu_utilization"
MOST = 1 / 3
"""Share of a study's runs that may be disturbed without a warning above all else."""
REPEAT = (
    ".venv/bin/snakemake --cores all --configfile results/config.resolved.yaml --forcerun train"
)
"""The command that repeats all runs of the study; a finished run is not repeated otherwise."""


class Disturbed(Part):
    """A study of which other programs disturbed more than a third of the runs."""

    runs: int
    """Runs with the flag `noisy_machine`."""
    total: int
    """All runs."""
    share: float
    """Median of what other programs used of the machine's CPU time in these runs, %."""

    @property
    def fault(self) -> str:
        """What is wrong with the numbers, as a sentence without its full stop."""
        return (
            f"Do not trust these numbers: other programs used the CPU during {self.runs} of "
            f"{self.total} runs ({self.share:.0f} % of the machine at the median)"
        )

    @property
    def line(self) -> str:
        """The same for the terminal, and what to do."""
        return f"{self.fault}. End those programs and repeat the runs: {REPEAT}"


def disturbed(runs: Iterable[tuple[Sequence[str], float | None]]) -> Disturbed | None:
    """Whether more than `MOST` of the runs were disturbed; a run is its flags and its `METRIC`."""
    known = list(runs)
    shares = [share for flags, share in known if FLAG in flags and share is not None]
    if len(shares) <= MOST * len(known):
        return None
    return Disturbed(runs=len(shares), total=len(known), share=median(shares))


def of_table(measurements: Path) -> Disturbed | None:
    """The same from a study's measurements.csv; None where there is no such file."""
    if not measurements.exists():
        return None
    with open(measurements, newline="", encoding="utf-8") as file:
        head = next(file)
        # Most rows are of other metrics.
        rows = csv.DictReader([head, *(line for line in file if METRIC in line)])
        return disturbed(
            (row["flags"].split(", "), float(row["value"]) if row["value"] else None)
            for row in rows
            if row["metric"] == METRIC
        )
