"""Which framework is fastest in a study, and how far that can be trusted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median

from touchstone.analysis.findings_model import CellSummary
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    Answer,
    ComparisonSummary,
    Confidence,
    PlaceAnswer,
    SameOutcome,
)
from touchstone.results.study import Study
from touchstone.statistics.intervals import INDICATIVE_BELOW, LEVEL


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
        places=_places(comparisons, cells),
        cells_with_throughput=sum(bool(cell.values("throughput")) for cell in study.cells),
        confidence=_confidence(comparisons, cells),
        accuracy_gap=_accuracy_gap(study),
        training_runs=len(study.runs),
        failed_training_runs=Counter(run.status for run in study.runs if run.status != "ok"),
    )


def _places(
    comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> list[PlaceAnswer]:
    numbered = list(enumerate(comparisons))
    groups = groupby(numbered, key=lambda one: (one[1].network, one[1].dataset, one[1].device))
    return [
        PlaceAnswer(
            network=network,
            dataset=dataset,
            device=device,
            outcomes=_outcomes(list(group), comparisons, cells),
        )
        for (network, dataset, device), group in groups
    ]


def _outcomes(
    numbered: Sequence[tuple[int, ComparisonSummary]],
    comparisons: Sequence[ComparisonSummary],
    cells: Mapping[str, CellSummary],
) -> list[SameOutcome]:
    """The comparisons of one place by their outcome: winners first, too few runs last."""
    members: dict[tuple[str | None, bool], list[int]] = {}
    for number, one in sorted(numbered, key=lambda n: (n[1].winner is None, not n[1].rankable)):
        winner = cells[one.winner].label if one.winner else None
        members.setdefault((winner, one.rankable), []).append(number)
    found = []
    for (winner, rankable), numbers in members.items():
        leads = [lead.value for number in numbers if winner and (lead := comparisons[number].lead)]
        found.append(
            SameOutcome(
                comparisons=numbers,
                winner=winner,
                rankable=rankable,
                lowest_lead=min(leads, default=None),
                highest_lead=max(leads, default=None),
            )
        )
    return found


def _confidence(
    comparisons: Sequence[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> Confidence | None:
    ranked = [comparison for comparison in comparisons if comparison.rankable]
    if not ranked:
        return None
    n = min(comparison.n for comparison in ranked)
    flags: set[str] = set()
    for compared in (cell for comparison in ranked for cell in comparison.cells):
        if "throughput" in cells[compared.cell].metrics:
            flags |= cells[compared.cell].flags.keys()
        flags |= set(compared.remarks)
    return Confidence(
        rankings=len(ranked),
        n=n,
        indicative=n < INDICATIVE_BELOW,
        level=LEVEL,
        expected_false=0.05 * len(ranked),
        flags=sorted(flags),
    )


def _accuracy_gap(study: Study) -> AccuracyGap | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for cells in study.comparable():
        medians = [median(v) for cell in cells if (v := cell.values("test_accuracy"))]
        if len(medians) > 1:
            gaps.append((max(medians) - min(medians), cells[0].batch_size))
    if not gaps:
        return None
    largest, batch_size = max(gaps)
    return AccuracyGap(largest=largest, batch_size=batch_size, comparisons=len(gaps))
