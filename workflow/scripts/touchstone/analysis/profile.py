"""Where the time of training steps goes: layers of all frameworks side by side."""

from collections.abc import Iterator, Mapping, Sequence

from touchstone.analysis.profile_model import LayerProfile, LayerRow, LayerSeconds, ProfiledCell
from touchstone.results.planned import COMPARED, FACTORS
from touchstone.results.study import Cell, Study
from touchstone.safe_text import csv_of
from touchstone.schema.profile import LayerTime, Profile
from touchstone.schema.status import OK

OTHER = "(other)"
"""The row of the table for what is no layer's."""
COLUMNS = (
    *FACTORS,
    *("cell", "layer", "op", "forward_s", "backward_s", "total_s", "share"),
    *("step_s", "profiled_step_s", "status", "reason"),
)


def layer_profiles(study: Study, profiles: Mapping[str, Profile]) -> list[LayerProfile]:
    """The profiles of a study's cells in groups whose cells differ only in framework,
    environment, style or mode, in order of the plan."""
    groups: dict[tuple[str, ...], list[Profile]] = {}
    for cell in study.trained.cells:
        if found := profiles.get(cell.plan.name):
            groups.setdefault(_common(cell), []).append(found)
    return [
        LayerProfile(cells=list(map(_cell, group)), rows=_rows(group)) for group in groups.values()
    ]


def _common(cell: Cell) -> tuple[str, ...]:
    return tuple(value for name, value in cell.plan.factors.items() if name not in COMPARED)


def _cell(found: Profile) -> ProfiledCell:
    ok = found.status == OK
    return ProfiledCell(
        cell=found.cell,
        status=found.status,
        reason=found.reason,
        profiler=found.profiler,
        step=found.step if ok else None,
        other=found.other if ok else None,
        other_share=found.other / found.profiled_step if ok else None,
        profiled_step=found.profiled_step if ok else None,
        ratio=found.profiled_step / found.step if ok else None,
    )


def _rows(group: Sequence[Profile]) -> list[LayerRow]:
    """The layers of all profiles; those that are computed together follow the first of them."""
    ops: dict[str, str] = {name: op for found in group for name, op in found.ops.items()}
    place = {name: number for number, name in enumerate(ops)}
    times = {
        (found.cell, tuple(one.layers)): _seconds(one, found)
        for found in group
        for one in found.layers
    }
    every = sorted(
        {layers for _, layers in times},
        key=lambda layers: (place[layers[0]], len(layers), [place[name] for name in layers]),
    )
    return [
        LayerRow(
            layers=list(layers),
            ops=[ops[name] for name in layers],
            seconds={cell: one for (cell, own), one in times.items() if own == layers},
        )
        for layers in every
    ]


def _seconds(one: LayerTime, found: Profile) -> LayerSeconds:
    share = one.total / found.profiled_step
    return LayerSeconds(forward=one.forward, backward=one.backward, share=share)


def table(study: Study, profiles: Mapping[str, Profile]) -> str:
    """`profile.csv`: a row for every layer of every cell, and one for what is no layer's; a cell
    without numbers has one row with the reason."""
    rows: list[Sequence[object]] = [COLUMNS]
    for cell in study.trained.cells:
        if found := profiles.get(cell.plan.name):
            factors = [cell.plan.factors[name] for name in FACTORS]
            rows += [[*factors, found.cell, *row] for row in _table_rows(found)]
    return csv_of(rows)


def _table_rows(found: Profile) -> Iterator[list[object]]:
    if found.status != OK:
        yield [None] * 8 + [found.status, found.reason]
        return
    ends = [found.step, found.profiled_step, found.status, None]
    for one in found.layers:
        ops = " + ".join(found.ops[name] for name in one.layers)
        times = [one.forward, one.backward, one.total, one.total / found.profiled_step]
        yield [" + ".join(one.layers), ops, *times, *ends]
    yield [OTHER, None, None, None, found.other, found.other / found.profiled_step, *ends]
