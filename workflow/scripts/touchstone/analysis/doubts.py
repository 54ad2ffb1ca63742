"""Why the numbers of a study should not be trusted: one run of each cell, disturbed runs."""

from collections import Counter
from typing import Literal

from touchstone.analysis.disturbed import FLAG, MOST
from touchstone.analysis.part import Part
from touchstone.results.study import Study

DISTURBING = frozenset({FLAG, "throttled", "drifting"})
"""The flags of runs whose speed is not that of an undisturbed machine."""


class Doubt(Part):
    """A reason that belongs above the answer; `disturbed` of the findings is another one."""

    cause: Literal["one run", "flag"]
    """`one run`: every cell ran once, so nothing is known of the noise. `flag`: more than a third
    of the runs have it."""
    flag: str | None
    """The flag; null for `one run`."""
    runs: int
    """Runs that it applies to."""
    total: int
    """All runs."""


def doubts(study: Study) -> list[Doubt]:
    """The reasons; `noisy_machine` is left out, which `disturbed` has with what others used."""
    total = len(study.runs)
    counts = Counter(flag for run in study.runs for flag in set(run.flags))
    found = [
        Doubt(cause="flag", flag=flag, runs=counts[flag], total=total)
        for flag in sorted(DISTURBING - {FLAG})
        if counts[flag] > MOST * total
    ]
    if total and all(len(cell.runs) == 1 for cell in study.cells):
        found.append(Doubt(cause="one run", flag=None, runs=total, total=total))
    return found
