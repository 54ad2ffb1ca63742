"""Which searches for the largest batch a study asks for, and the specs of their probes."""

from pathlib import Path

from touchstone.plan import frameworks, programs
from touchstone.plan.model import SETTINGS, Cell
from touchstone.plan.names import BEST
from touchstone.plan.parts import Program
from touchstone.plan.read import NAMED, OMITTED_FROM_NAMES, digest
from touchstone.plan.setting import OWN, PROGRAM, TRAINING
from touchstone.plan.spec import make_spec, training_examples
from touchstone.plan.study import Plan
from touchstone.plan.table import texts
from touchstone.schema.spec import UNTIL_END, ProgramSpec, TrainingSpec

STEPS = 6
"""Training steps of a probe: the first, and some in chunks as in a run."""
SHARED = {name: traits.probe for name, traits in SETTINGS.items() if traits.probe is not OWN}
"""Settings that do not change how much memory a step takes, as probes have them: cells that
differ in nothing else share a search. The rate is small, so that no probe diverges."""
MOST = 1 << 20
"""The largest batch that a program is asked for."""


def searches(plan: Plan) -> dict[str, Cell]:
    """By name, a cell with the settings of each search that the study asks for.

    Cells of the mode `best` have none: which mode they train in is known in their runs only.
    Operations, inference, cells of several replicas and unsupported ones have none either, nor
    programs that do not get their batch size or run to their end.
    """
    if not plan.study.find_max_batch:
        return {}
    cells = (
        cell
        for cell in plan.cells.values()
        if cell.mode != BEST
        and cell.world_size == 1
        and (cell.kind == TRAINING or _is_told(plan.program(cell)))
        and not frameworks.unsupported(cell)
    )
    return {_name(cell): cell for cell in (c.model_copy(update=SHARED) for c in cells)}


def _is_told(program: Program | None) -> bool:
    """Whether a program has its batch size as an argument, and is ended when it is measured."""
    return (
        program is not None
        and "batch_size" in programs.named(program)
        and program.until != UNTIL_END
    )


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
    return {key: text for key, text in texts(cell).items() if key not in SHARED}


def bound(cell: Cell, root: Path) -> tuple[int, str]:
    """The largest batch size that a search tries, and what it is in words."""
    if cell.kind == PROGRAM:
        return MOST, "where the search ends"
    return training_examples(cell, root), "the number of training examples"


def probe_spec(
    cell: Cell, batch_size: int, memory_mib: float | None, root: Path, program: Program | None
) -> TrainingSpec | ProgramSpec:
    """The spec of a few steps with `batch_size` under a limit of host memory (MiB)."""
    spec = make_spec(cell.model_copy(update={"batch_size": batch_size}), 1, root, program)
    limits = spec.limits._replace(memory_mib=memory_mib)
    if isinstance(spec, ProgramSpec):
        return spec._replace(limits=limits)
    assert isinstance(spec, TrainingSpec)
    return spec._replace(phases=spec.phases._replace(probe_steps=STEPS), limits=limits)
