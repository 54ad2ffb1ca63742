"""Why the numbers of a study should not be trusted: one run of each cell, disturbed runs, and
cores that were moved."""

from collections import Counter
from typing import Literal

from touchstone.analysis.disturbed import FLAG, METRIC, MOST_DISTURBED, Disturbed, disturbed
from touchstone.analysis.part import FindingsPart
from touchstone.results.cores import CORES_APART
from touchstone.results.study import Study

DISTURBING = frozenset({FLAG, "throttled", "drifting"})
"""The flags of runs whose speed is not that of an undisturbed machine."""


class Doubt(FindingsPart):
    """A reason that belongs above the answer; `disturbed` of the findings is another one."""

    cause: Literal["one run", "flags", "cores apart"]
    """`one run`: every cell ran once, so nothing is known of the noise. `flags`: more than a third
    of the runs have a flag that says that something else changed their speed. `cores apart`: before
    or after a run its cores were further apart than in the machine's quickest reading."""
    flags: dict[str, int]
    """Runs by flag; empty for other causes."""
    runs: int
    """Runs that it applies to."""
    total: int
    """All runs."""
    beside: bool = False
    """Whether the answer does not rest on these runs."""


def disturbed_runs(study: Study) -> Disturbed | None:
    """Whether other programs disturbed more than a third of a study's runs."""
    return disturbed((run.flags, run.values[METRIC]) for run in study.runs)


def doubts(study: Study, in_turn: bool = False) -> list[Doubt]:
    """The reasons; `noisy_machine` is left out where `disturbed_runs` says it.

    `in_turn`: all comparisons of the study rest on turns, which have sets of their own and leave
    out what moved the cores of runs.
    """
    total = len(study.runs)
    counted = DISTURBING - {FLAG} if disturbed_runs(study) else DISTURBING
    flagged = [flags for run in study.runs if (flags := counted & set(run.flags))]
    reasons = []
    if len(flagged) > MOST_DISTURBED * total:
        counts = Counter(flag for flags in flagged for flag in flags)
        by_flag = {flag: counts[flag] for flag in sorted(counts)}
        reasons.append(Doubt(cause="flags", flags=by_flag, runs=len(flagged), total=total))
    if total and all(len(cell.runs) == 1 for cell in study.cells):
        reasons.append(Doubt(cause="one run", flags={}, runs=total, total=total, beside=in_turn))
    if apart := sum(CORES_APART in run.flags for run in study.runs):
        doubt = Doubt(cause="cores apart", flags={}, runs=apart, total=total, beside=in_turn)
        reasons.append(doubt)
    return reasons
