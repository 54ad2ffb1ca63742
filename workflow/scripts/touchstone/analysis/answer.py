"""How far the ranking of a study can be trusted, and what would settle it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from touchstone.analysis.doubts import DISTURBING
from touchstone.analysis.findings_model import CellSummary
from touchstone.analysis.not_compared import not_compared
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    Answer,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.results.cores import CORES_APART
from touchstone.results.study import Study

LEVELS = ("low", "medium", "high")
RUNS_ONLY = DISTURBING | {CORES_APART}
"""Flags of runs that say nothing of turns."""


def answer(
    study: Study, comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> Answer:
    """The answer of a study.

    Args:
        comparisons: of its cells.
        cells: all of them, by name.
    """
    trained = study.trained
    return Answer(
        trust=_lowest(comparisons),
        next_step=_nearest(comparisons),
        not_compared=not_compared(study, comparisons, cells),
        flags=_flags(comparisons, cells),
        cells_with_throughput=sum(bool(cell.values("throughput")) for cell in trained.cells),
        accuracy_gap=_accuracy_gap(trained),
        training_runs=len(trained.runs),
        failed_training_runs=Counter(run.status for run in trained.runs if run.status != "ok"),
    )


def _lowest(comparisons: Sequence[ComparisonSummary]) -> Trust | None:
    trusts = (comparison.trust for comparison in comparisons)
    return min(trusts, key=lambda t: (LEVELS.index(t.level), -(t.reach or 0)), default=None)


def _nearest(comparisons: Sequence[ComparisonSummary]) -> NextStep | None:
    steps = [comparison.next_step for comparison in comparisons if comparison.next_step]
    return min(steps, key=lambda step: (step.repeats is None, step.repeats), default=None)


def _flags(comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]) -> list[str]:
    flags = {r for comparison in comparisons for pair in comparison.pairs for r in pair.remarks}
    for comparison in comparisons:
        # Of cells that took turns, what disturbed their runs is not in the answer.
        of_runs = RUNS_ONLY if comparison.in_turn else set()
        for compared in comparison.cells:
            if compared.speed is not None:
                flags |= cells[compared.cell].flags.keys() - of_runs
    return sorted(flags)


def _accuracy_gap(study: Study) -> AccuracyGap | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for cells in study.comparable():
        medians = [
            (median(v), cell.plan.name) for cell in cells if (v := cell.values("test_accuracy"))
        ]
        if len(medians) > 1:
            (least, lower), (most, higher) = min(medians), max(medians)
            gaps.append((most - least, lower, higher))
    if not gaps:
        return None
    largest, lower, higher = max(gaps)
    return AccuracyGap(largest=largest, lower=lower, higher=higher, comparisons=len(gaps))
