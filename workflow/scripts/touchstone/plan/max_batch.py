"""Which searches for the largest batch a study asks for, and the specs of their probes."""

from pathlib import Path

from touchstone.plan import frameworks
from touchstone.plan.model import SETTINGS, Cell
from touchstone.plan.names import BEST
from touchstone.plan.read import NAMED, OMITTED_FROM_NAMES, digest
from touchstone.plan.setting import OWN, TRAINING
from touchstone.plan.spec import make_spec
from touchstone.plan.study import Plan
from touchstone.schema.spec import TrainingSpec

STEPS = 6
"""Training steps of a probe: the first, and some in chunks as in a run."""
SHARED = {name: traits.probe for name, traits in SETTINGS.items() if traits.probe is not OWN}
"""Settings that do not change how much memory a step takes, as probes have them: cells that
differ in nothing else share a search. The rate is small, so that no probe diverges."""


def searches(plan: Plan) -> dict[str, Cell]:
    """By name, a cell with the settings of each search that the study asks for.

    Cells of the mode `best` have none: which mode they train in is known in their runs only.
    Operations, inference, cells of several replicas and unsupported ones have none either.
    """
    if not plan.study.find_max_batch:
        return {}
    cells = (
        cell
        for cell in plan.cells.values()
        if cell.mode != BEST
        and cell.world_size == 1
        and cell.kind == TRAINING
        and not frameworks.unsupported(cell)
    )
    found = (cell.model_copy(update=SHARED) for cell in cells)
    return {_name(cell): cell for cell in found}


def _name(cell: Cell) -> str:
    """What a cell's name spells out but what searches share, and a hash of all other settings."""
    values = cell.model_dump(exclude={*SHARED, "nodes"})  # which is 1
    for key, usual in OMITTED_FROM_NAMES:
        if values[key] == usual:
            del values[key]
    slug = [str(values.pop(key)) for key in NAMED if key in values]
    return "-".join([*slug, digest(values)[:8]])


def as_planned(cell: Cell) -> dict[str, str]:
    """The settings that the cells of a search share, as plan.tsv spells them."""
    values = {key: value for key, value in cell.model_dump().items() if key not in SHARED}
    return {key: "" if value is None else str(value) for key, value in values.items()}


def probe_spec(cell: Cell, batch_size: int, memory_mib: float | None, root: Path) -> TrainingSpec:
    """The spec of a few steps with `batch_size` under a limit of host memory (MiB)."""
    spec = make_spec(cell.model_copy(update={"batch_size": batch_size}), 1, root)
    assert isinstance(spec, TrainingSpec)
    return spec._replace(
        phases=spec.phases._replace(probe_steps=STEPS),
        limits=spec.limits._replace(memory_mib=memory_mib),
    )
