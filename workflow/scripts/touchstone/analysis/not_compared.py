"""The cells that no comparison has, or that have no speed there, and why."""

from collections.abc import Iterable, Mapping

from touchstone.analysis.findings_model import CellSummary
from touchstone.analysis.ranking_model import ComparisonSummary, NotCompared
from touchstone.results.metrics import words
from touchstone.results.study import Study


def not_compared(
    study: Study, comparisons: Iterable[ComparisonSummary], cells: Mapping[str, CellSummary]
) -> list[NotCompared]:
    """Every cell without a place in an answer, by reason; none where a study has a single cell."""
    compared = {cell.cell: cell.speed for comparison in comparisons for cell in comparison.cells}
    if len(cells) < 2:
        return []
    by_reason: dict[str, list[str]] = {}
    partners = {cell.plan.name for group in study.comparable() for cell in group}
    for name, cell in cells.items():
        if compared.get(name) is None:
            why = _without_speed(cell) or (
                "no other configuration that does the same work has a speed"
                if name in partners
                else _without_partner(cell, cells.values())
            )
            by_reason.setdefault(why, []).append(name)
    return [NotCompared(cells=names, why=why) for why, names in by_reason.items()]


def _without_speed(cell: CellSummary) -> str:
    """Why a cell has no speed; empty where it has one."""
    if "step_rate" in cell.metrics:
        return ""
    failed = {status: n for status, n in cell.outcomes.items() if status != "ok"}
    return f"without a speed: {', '.join(f'{n} {status}' for status, n in failed.items())}"


def _without_partner(cell: CellSummary, cells: Iterable[CellSummary]) -> str:
    """In what a cell differs from the one that is most like it."""
    others = [other for other in cells if other is not cell and other.workload == cell.workload]
    if not others:
        return f"the only configuration of {cell.workload}"
    nearest = min((_differing(cell, other) for other in others), key=len)
    named = " and ".join(words(name) for name in nearest) or "nothing that a comparison knows"
    return f"the configuration most like it differs in {named}"


def _differing(cell: CellSummary, other: CellSummary) -> list[str]:
    return [name for name, value in cell.factors.items() if other.factors.get(name) != value]
