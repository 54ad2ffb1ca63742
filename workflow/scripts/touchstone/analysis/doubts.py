"""Why the numbers of a study should not be trusted: one run of each cell, disturbed runs, and
cores that were moved."""

from collections import Counter
from typing import Literal

from touchstone.analysis.disturbed import FLAG, METRIC, MOST, Disturbed, disturbed
from touchstone.analysis.part import Part
from touchstone.results.study import Study
from touchstone.schema.interleaved import cores_apart

DISTURBING = frozenset({FLAG, "throttled", "drifting"})
"""The flags of runs whose speed is not that of an undisturbed machine."""


class Doubt(Part):
    """A reason that belongs above the answer; `disturbed` of the findings is another one."""

    cause: Literal["one run", "flags", "cores apart"]
    """`one run`: every cell ran once, so nothing is known of the noise. `flags`: more than a third
    of the runs have a flag that says that something else changed their speed. `cores apart`: before
    or after a run its cores were further apart than in the machine's best run."""
    flags: dict[str, int]
    """Runs by flag; empty for other causes."""
    runs: int
    """Runs that it applies to."""
    total: int
    """All runs."""


def disturbed_runs(study: Study) -> Disturbed | None:
    """Whether other programs disturbed more than a third of a study's runs."""
    return disturbed((run.flags, run.values[METRIC]) for run in study.runs)


def doubts(study: Study) -> list[Doubt]:
    """The reasons; `noisy_machine` is left out where `disturbed_runs` says it."""
    total = len(study.runs)
    counted = DISTURBING - {FLAG} if disturbed_runs(study) else DISTURBING
    flagged = [flags for run in study.runs if (flags := counted & set(run.flags))]
    found = []
    if len(flagged) > MOST * total:
        counts = Counter(flag for flags in flagged for flag in flags)
        by_flag = {flag: counts[flag] for flag in sorted(counts)}
        found.append(Doubt(cause="flags", flags=by_flag, runs=len(flagged), total=total))
    if total and all(len(cell.runs) == 1 for cell in study.cells):
        found.append(Doubt(cause="one run", flags={}, runs=total, total=total))
    if apart := _runs_apart(study):
        found.append(Doubt(cause="cores apart", flags={}, runs=apart, total=total))
    return found


def _runs_apart(study: Study) -> int:
    """Runs whose core latency is that of cores apart, against the least of their machine's runs
    with as many threads."""
    known: dict[tuple[str, int], list[float]] = {}
    for run in study.runs:
        if (latency := run.values["core_latency"]) is not None:
            place = run.provenance["machine"]["hostname"], run.provenance["environment"]["threads"]
            known.setdefault(place, []).append(latency)
    return sum(
        cores_apart(one, min(latencies)) for latencies in known.values() for one in latencies
    )
