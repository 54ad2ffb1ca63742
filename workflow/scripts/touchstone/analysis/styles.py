"""What tuned code gains over plain code, from the comparisons that have both (docs/styles.md)."""

from collections.abc import Iterable, Mapping, Sequence

from touchstone.analysis.cells import summaries
from touchstone.analysis.comparison import comparisons
from touchstone.analysis.findings_model import CellSummary, StyleGap
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import ComparisonSummary
from touchstone.results.study import Study
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.spec import PLAIN

OPPOSITE = {"faster": "slower", "slower": "faster"}


def gaps_of(study: Study, interleaved: Sequence[Interleaved]) -> list[StyleGap]:
    """The gaps of a study, of which `interleaved` is what was measured in turn."""
    cells = {cell.name: cell for cell in summaries(study, {}, {})}
    return gaps(comparisons(study, "training", {}, interleaved), cells)


def gaps(compared: Iterable[ComparisonSummary], cells: Mapping[str, CellSummary]) -> list[StyleGap]:
    """For every cell in the style `plain`, the fastest `tuned` one of its framework in the same
    environment that it is compared with; none where there is no such cell."""
    return [
        StyleGap(plain=plain, tuned=tuned, ratio=_ratio(comparison, tuned, plain))
        for comparison in compared
        if comparison.workload == "training"
        for plain, tuned in _pairs([cell.cell for cell in comparison.cells], cells)
    ]


def _pairs(fastest_first: list[str], cells: Mapping[str, CellSummary]) -> list[tuple[str, str]]:
    """The plain cells of a comparison, each with the fastest tuned one of its framework there."""
    pairs: list[tuple[str, str]] = []
    fastest: dict[tuple[str, str], str] = {}
    for cell in map(cells.__getitem__, fastest_first):
        if cell.factors["style"] != PLAIN:
            fastest.setdefault(_place(cell), cell.name)
    for cell in map(cells.__getitem__, fastest_first):
        if cell.factors["style"] == PLAIN and (tuned := fastest.get(_place(cell))):
            pairs.append((cell.name, tuned))
    return pairs


def _place(cell: CellSummary) -> tuple[str, str]:
    """What a plain cell shares with the tuned one that it is compared with."""
    return cell.framework, cell.factors["environment"]


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
