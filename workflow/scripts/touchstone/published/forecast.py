"""Which claims of a study a machine can decide, known from the plan before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.setting import OPERATION
from touchstone.plan.study import Plan, whole_cells
from touchstone.published.claims import NOT_COMPARABLE, NOT_MEASURED, STAND_IN, Judge
from touchstone.published.dossier import PARAMETERS, Dossier, read_dossier
from touchstone.published.entries import changes
from touchstone.published.evidence import Group
from touchstone.published.points import (
    OPERATION_METRICS,
    SPEED,
    InterleavedSpeeds,
    Point,
    factors_of,
    sums,
    totals,
)
from touchstone.results.metrics import CENSORED, METRICS
from touchstone.results.turn_groups import groups

Without = Callable[[str, int], str | None]
"""Why nothing can run on so many devices of a kind: `measure.skip.no_device`."""
OF_PREDICTION = ("throughput", "total_inference_time", "cpu_utilization", "host_memory")
"""The metrics that claims are about and that a cell which predicts has."""


class Forecast(NamedTuple):
    """How many of a study's claims this machine can decide.

    Claims that are `judged` have figures; those that are `decided` have figures with an interval,
    or counted ones. `stand_ins` are those of these that a CPU decides in place of a GPU.
    `shortened` claims are not among them: the scale of the study changes what they need.
    """

    claims: int
    judged: int
    decided: int
    stand_ins: int
    shortened: int

    @property
    def text(self) -> str:
        """The line that is printed before anything runs."""
        decided = self.decided or "none"
        text = f"Of the study's {self.claims} claims this machine can decide {decided}"
        if self.stand_ins:
            text += f", {self.stand_ins} of them by a {STAND_IN} (a CPU in place of a GPU)"
        if undecided := self.judged - self.decided:
            text += (
                f"; {undecided} have figures without an interval, as each configuration runs once"
            )
        if self.shortened:
            text += f"; {self.shortened} more need the scale 'paper'"
        return f"{text}."


def forecast(
    dossier: Dossier,
    cells: Mapping[str, Cell],
    wholes: Mapping[str, Cell],
    no_device: Without,
    repeats: int,
    turns: Mapping[str, int] = MappingProxyType({}),
) -> Forecast:
    """Judge the claims by figures of which only the settings are known.

    Args:
        cells: those that will run, by name.
        wholes: by the same names, what they are in the whole study.
        no_device: why nothing can run on so many devices of a kind here; None if it can.
        repeats: how often each cell will run.
        turns: by name of a cell that is measured in turn, the number of its group.
    """
    points = []
    # Two blocks have an interval.
    blocks = dict.fromkeys((1, 2) if repeats > 1 else (1,), 1.0)
    changed = {}
    for name, whole in wholes.items():
        if frameworks.unsupported(cells[name]) or no_device(whole.device, whole.replicas):
            continue
        changed[name] = changes([(whole, cells[name])])
        points += [
            Point(
                metric, "", factors_of(whole), blocks, cell=name, exact=metric == PARAMETERS,
                in_turn=InterleavedSpeeds(turns[name], {1: 1.0, 2: 1.0}, 1.0)
                if metric == SPEED and name in turns else None,
            )
            for metric in _metrics(whole, dossier.claimed | {"step_rate"})
        ]  # fmt: skip
    points += totals([point for point in points if point.metric == "step_rate"], dossier.totals)
    points += sums(points, dossier.sums)
    judge = Judge(points, exact=False, changed=changed)
    judgements = [judge.judge(claim) for claim in dossier.claims]
    judged = [j for j in judgements if j.verdict not in (NOT_MEASURED, NOT_COMPARABLE)]
    decided = [j for j in judged if any(map(_has_interval, j.groups))]
    return Forecast(
        len(judgements),
        len(judged),
        len(decided),
        sum(j.stand_in for j in decided),
        sum(
            judgement.verdict == NOT_COMPARABLE and not claim.not_comparable
            for claim, judgement in zip(dossier.claims, judgements, strict=True)
        ),
    )


def forecast_of(plan: Plan, config: dict[str, Any], root: Path, no_device: Without) -> str:
    """The line for a planned study; empty if it has no claims.

    Args:
        plan: of the configuration `config`.
        root: of the project, which has `config/claims`.

    Raises:
        DossierError: the study's file of claims has faults.
    """
    path = root / f"config/claims/{plan.study.study}.yaml"
    if not path.exists():
        return ""
    dossier = read_dossier(path)
    if not dossier.claims:
        return ""
    wholes = whole_cells(plan, config, root)
    grouped = enumerate(groups(plan).values())
    turns = {name: number for number, names in grouped for name in names}
    return forecast(dossier, plan.cells, wholes, no_device, plan.study.repeats, turns).text


def _has_interval(group: Group) -> bool:
    """Whether what is found in a group can decide anything."""
    return group.n > 1 or group.low is not None


def _metrics(cell: Cell, wanted: set[str]) -> Iterator[str]:
    """The metrics among those wanted that a run of a cell has."""
    for metric in sorted(wanted & {*METRICS, PARAMETERS}):
        if metric == PARAMETERS:
            there = cell.kind != OPERATION
        elif cell.kind == OPERATION:
            there = metric in OPERATION_METRICS
        elif cell.workload == "inference":
            there = metric in OF_PREDICTION
        elif metric in CENSORED:
            there = cell.target_accuracy is not None
        elif metric == "training_accuracy":
            there = cell.training_accuracy
        else:
            there = metric != "total_inference_time"
        if there and (cell.device == "gpu" or not metric.startswith("gpu_")):
            yield metric
