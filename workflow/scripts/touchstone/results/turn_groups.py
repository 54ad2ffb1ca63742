"""The groups of cells that a study measures in turn."""

from touchstone.plan.model import Cell
from touchstone.plan.read import canonical, digest
from touchstone.plan.study import Plan
from touchstone.results.planned import PlannedCell, comparable


def groups(plan: Plan) -> dict[str, list[str]]:
    """By name, the cells that the report compares and that can take turns, in order of the plan.

    The name says what the cells have in common, so that one more cell does not change it. Cells of
    several replicas do not take turns: their processes start one another.
    """
    if plan.study.interleave is None:
        return {}
    planned = [
        PlannedCell.of(name, cell) for name, cell in plan.cells.items() if cell.world_size == 1
    ]
    by_name = {}
    for group in comparable(planned):
        names = [cell.name for cell in group]
        by_name[_name([plan.cells[name] for name in names])] = names
    return by_name


def _name(cells: list[Cell]) -> str:
    dumps = [cell.model_dump() for cell in cells]
    common = {key: value for key, value in dumps[0].items() if all(d[key] == value for d in dumps)}
    words = [str(common[key]) for key in ("network", "dataset", "device") if key in common]
    if "batch_size" in common:
        words.append(f"b{common['batch_size']}")
    return "-".join([*words, digest(canonical(common))[:8]])
