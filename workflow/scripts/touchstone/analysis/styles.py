"""What tuned code gains over plain code, from the comparisons that have both (docs/styles.md)."""

from collections.abc import Iterable, Mapping

from touchstone.analysis.findings_model import CellSummary, StyleGap
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import ComparisonSummary
from touchstone.schema.spec import PLAIN

OPPOSITE = {"faster": "slower", "slower": "faster"}


def gaps(
    comparisons: Iterable[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> list[StyleGap]:
    """For every cell in the style `plain`, the fastest `tuned` one of its framework in the same
    environment that it is compared with; none where there is no such cell."""
    return [
        StyleGap(plain=plain, tuned=tuned, ratio=_ratio(comparison, tuned, plain))
        for comparison in comparisons
        if comparison.workload == "training"
        for plain, tuned in _pairs([one.cell for one in comparison.cells], cells)
    ]


def _pairs(fastest_first: list[str], cells: Mapping[str, CellSummary]) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for name in fastest_first:
        cell = cells[name]
        if cell.factors["style"] != PLAIN:
            continue
        for other in map(cells.__getitem__, fastest_first):
            same = (other.framework, other.factors["environment"]) == (
                cell.framework,
                cell.factors["environment"],
            )
            if same and other.factors["style"] != PLAIN:
                found.setdefault(name, other.name)
    return list(found.items())


def _ratio(comparison: ComparisonSummary, ours: str, theirs: str) -> RatioEstimate | None:
    """The ratio of two cells of a comparison: ours / theirs."""
    for pair in comparison.pairs:
        if (pair.faster, pair.slower) == (ours, theirs):
            return pair.ratio
        if (pair.faster, pair.slower) == (theirs, ours):
            return _inverse(pair.ratio)
    return None


def _inverse(ratio: RatioEstimate | None) -> RatioEstimate | None:
    if ratio is None:
        return None
    return ratio.model_copy(
        update={
            "value": 1 / ratio.value,
            "low": None if ratio.high is None else 1 / ratio.high,
            "high": None if ratio.low is None else 1 / ratio.low,
            "verdict": OPPOSITE.get(ratio.verdict, ratio.verdict),
        }
    )
