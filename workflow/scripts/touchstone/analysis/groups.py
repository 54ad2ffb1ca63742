"""Cells of a study that differ in some factors only."""

from collections.abc import Iterable

from touchstone.results.study import Cell


def differing_by(cells: Iterable[Cell], *names: str) -> list[list[Cell]]:
    """Groups of two cells or more with the same factors but for `names`, in order of the plan."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        rest = (value for name, value in cell.plan.factors.items() if name not in names)
        groups.setdefault(tuple(rest), []).append(cell)
    return [group for group in groups.values() if len(group) > 1]
