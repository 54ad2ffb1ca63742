"""Where the time of training steps goes: layers of all frameworks side by side."""

from collections.abc import Mapping, Sequence

from touchstone.analysis.profile_model import LayerProfile, LayerRow, LayerSeconds, ProfiledCell
from touchstone.results.planned import COMPARED
from touchstone.results.study import Cell, Study
from touchstone.schema.profile import LayerTime, Profile
from touchstone.schema.status import OK


def layer_profiles(study: Study, profiles: Mapping[str, Profile]) -> list[LayerProfile]:
    """The profiles of a study's cells in groups whose cells differ only in framework,
    environment, style or mode, in order of the plan."""
    groups: dict[tuple[str, ...], list[Profile]] = {}
    for cell in study.trained.cells:
        if profile := profiles.get(cell.plan.name):
            groups.setdefault(_common(cell), []).append(profile)
    return [
        LayerProfile(cells=list(map(_cell, group)), rows=_rows(group)) for group in groups.values()
    ]


def _common(cell: Cell) -> tuple[str, ...]:
    return tuple(value for name, value in cell.plan.factors.items() if name not in COMPARED)


def _cell(profile: Profile) -> ProfiledCell:
    ok = profile.status == OK
    return ProfiledCell(
        cell=profile.cell,
        status=profile.status,
        reason=profile.reason,
        profiler=profile.profiler,
        step=profile.step if ok else None,
        other=profile.other if ok else None,
        other_share=profile.other / profile.profiled_step if ok else None,
        profiled_step=profile.profiled_step if ok else None,
        ratio=profile.profiled_step / profile.step if ok else None,
    )


def _rows(group: Sequence[Profile]) -> list[LayerRow]:
    """The layers of all profiles; those that are computed together follow the first of them."""
    ops: dict[str, str] = {name: op for profile in group for name, op in profile.ops.items()}
    place = {name: number for number, name in enumerate(ops)}
    times = {
        (profile.cell, tuple(time.layers)): _seconds(time, profile)
        for profile in group
        for time in profile.layers
    }
    every = sorted(
        {layers for _, layers in times},
        key=lambda layers: (place[layers[0]], len(layers), [place[name] for name in layers]),
    )
    return [
        LayerRow(
            layers=list(layers),
            ops=[ops[name] for name in layers],
            seconds={cell: time for (cell, own), time in times.items() if own == layers},
        )
        for layers in every
    ]


def _seconds(time: LayerTime, profile: Profile) -> LayerSeconds:
    share = time.total / profile.profiled_step
    return LayerSeconds(forward=time.forward, backward=time.backward, share=share)
