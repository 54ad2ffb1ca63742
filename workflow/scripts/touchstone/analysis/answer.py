"""How far the ranking of a study can be trusted, and what would settle it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from touchstone.analysis.findings_model import CellSummary
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    Answer,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.results.study import Study

LEVELS = ("low", "medium", "high")


def answer(
    study: Study, comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> Answer:
    """The answer of a study.

    Args:
        study: its cells that train.
        comparisons: of its cells that train, and of those that predict.
        cells: all cells of the comparisons, by name.
    """
    return Answer(
        trust=_lowest(comparisons),
        next_step=_nearest(comparisons),
        flags=_flags(comparisons, cells),
        cells_with_throughput=sum(bool(cell.values("throughput")) for cell in study.cells),
        accuracy_gap=_accuracy_gap(study),
        training_runs=len(study.runs),
        failed_training_runs=Counter(run.status for run in study.runs if run.status != "ok"),
    )


def _lowest(comparisons: Sequence[ComparisonSummary]) -> Trust | None:
    found = (comparison.trust for comparison in comparisons)
    return min(found, key=lambda t: (LEVELS.index(t.level), -(t.reach or 0)), default=None)


def _nearest(comparisons: Sequence[ComparisonSummary]) -> NextStep | None:
    steps = [comparison.next_step for comparison in comparisons if comparison.next_step]
    return min(steps, key=lambda step: (step.repeats is None, step.repeats), default=None)


def _flags(comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]) -> list[str]:
    found = {remark for one in comparisons for pair in one.pairs for remark in pair.remarks}
    for compared in (cell for comparison in comparisons for cell in comparison.cells):
        if compared.speed is not None:
            found |= cells[compared.cell].flags.keys()
    return sorted(found)


def _accuracy_gap(study: Study) -> AccuracyGap | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for cells in study.comparable():
        medians = [median(v) for cell in cells if (v := cell.values("test_accuracy"))]
        if len(medians) > 1:
            sizes = {cell.batch_size for cell in cells}
            gaps.append((max(medians) - min(medians), sizes.pop() if len(sizes) == 1 else None))
    if not gaps:
        return None
    largest, batch_size = max(gaps, key=lambda gap: (gap[0], gap[1] or 0))
    return AccuracyGap(largest=largest, batch_size=batch_size, comparisons=len(gaps))
