"""The columns of the tables of the planned records, and the words in their cells."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from touchstone.measure import trials
from touchstone.results.cores import CORES_APART
from touchstone.results.planned import (
    COMPARED,
    FACTORS,
)
from touchstone.schema.spec import Trial
from touchstone.schema.values import from_json

MEASUREMENTS = (
    *FACTORS,
    *("cell", "repeat", "status", "trained_mode", "best_chose"),
    *("metric", "unit", "value", "censored_at", "flags", "reason"),
)
SUMMARY = (
    *FACTORS,
    *("cell", "metric", "unit", "status", "n", "median", "mean", "min", "max", "sd", "cv", "flags"),
    *("censored", "trained_modes", "best_chose"),
)
COMPARISONS = (
    *(name for name in FACTORS if name not in COMPARED),
    *COMPARED,
    *(f"reference_{name}" for name in COMPARED),
    *("cell", "reference_cell"),
    *("metric", "unit", "n", "ratio", "low", "high", "detectable", "detectable_low"),
    *("detectable_high", "verdict", "indicative", "remarks", "flags", "reference_flags", "basis"),
)
PARITY_NOT_SHOWN = "parity_not_shown"
DIFFERENT_ERA = "different_era"
STUDY_FLAGS = {
    PARITY_NOT_SHOWN: "No certificate says that this framework computes this network as the"
    " reference does; there is none in a precision of products with fewer bits than fp32.",
    "different_machine": "The two cells of a comparison did not run on the same machines: their"
    " ratio is also one of machines.",
    DIFFERENT_ERA: "The framework was released more than five years before another one of the"
    " study, or the two cells of a comparison use CUDA libraries of different major versions: their"
    " ratio is also one of eras.",
    CORES_APART: "Before or after the run, a signal between neighbouring cores took over 70 ns more"
    " than in the machine's quickest reading: the hypervisor had moved the cores apart.",
}
"""What the study adds to the flags of records: the second to comparisons, the third to runs and
comparisons, the others to runs."""
OF_CELLS = (PARITY_NOT_SHOWN, DIFFERENT_ERA)
"""Those that all runs of a cell have, or none."""
ERA = 60
"""Months between the releases of two frameworks, beyond which they are of different eras."""


def counted(words: Iterable[str], order: Iterable[str] = ()) -> str:
    """Words with their counts, `ok 2, timeout 1`, in the given order, then alphabetical."""
    counts = Counter(words)
    first = [word for word in order if word in counts]
    rest = sorted(counts.keys() - set(first))
    return ", ".join(f"{word} {counts[word]}" for word in first + rest)


def remarks(ours: Iterable[dict[str, Any]], theirs: Iterable[dict[str, Any]]) -> list[str]:
    """What two cells' provenances differ in that makes their ratio more than one of frameworks."""
    sides = [list(ours), list(theirs)]
    machines = [[run["machine"] for run in side] for side in sides]
    eras = [{_cuda(run["software"]) for run in side} - {None} for side in sides]
    apart = any(machine not in machines[0] for machine in machines[1]) or any(
        machine not in machines[1] for machine in machines[0]
    )
    return ["different_machine"] * apart + [DIFFERENT_ERA] * (
        bool(eras[0] and eras[1]) and eras[0] != eras[1]
    )


def of_older_eras(released: dict[str, str | None]) -> set[str]:
    """The frameworks whose release lies more than `ERA` months before another's.

    `released` has by framework its month, `YYYY-MM`, or None where that is not known.
    """
    months = {
        framework: 12 * int(month[:4]) + int(month[5:])
        for framework, month in released.items()
        if month
    }
    latest = max(months.values(), default=0)
    return {framework for framework, month in months.items() if latest - month > ERA}


def _cuda(software: dict[str, Any]) -> str | None:
    """The major version of the CUDA libraries, where the framework tells it."""
    match = re.match(r"\d+", str(software.get("cuda") or ""))
    return match[0] if match else None


def trained_mode(provenance: dict[str, Any]) -> str:
    """The mode that was read back from the framework, empty where the run did not come to that."""
    return str(provenance["settings"].get("effective", {}).get("mode", ""))


def trials_of(provenance: dict[str, Any]) -> list[Trial]:
    """The trials of a run, in their order; none unless its cell has the mode `best`."""
    return [from_json(Trial, trial) for trial in provenance.get("trials", [])]


def tried(trial: Trial, first: Trial) -> str:
    """What a trial tried, `static, 1 thread`: threads and waiting where they are not those of the
    run's `first` one, which are the cell's own."""
    words, threads = [trial.mode], trial.threads
    if threads != first.threads:
        words.append(f"{threads} thread{'' if threads == 1 else 's'}")
    if trial.wait_policy != first.wait_policy:
        words.append(f"{trial.wait_policy} waiting")
    return ", ".join(words)


def chosen(provenance: dict[str, Any]) -> str:
    """What a run of the mode `best` chose; empty where no trial passed, and in another mode."""
    all_trials = trials_of(provenance)
    best = trials.chosen(all_trials)
    return tried(best, all_trials[0]) if best else ""


def counted_choices(provenances: Iterable[dict[str, Any]]) -> str:
    """What runs chose, with the number of runs: `hybrid (2); static, 1 thread (1)`."""
    counts = Counter(filter(None, map(chosen, provenances)))
    return "; ".join(f"{choice} ({counts[choice]})" for choice in sorted(counts))
