"""How training speed grows with the replicas: speed-up and efficiency (docs/parallel.md)."""

from collections import Counter

from touchstone.analysis.findings_model import Scaling
from touchstone.analysis.ratio import estimate
from touchstone.plan.model import settings
from touchstone.results.study import Cell, Study
from touchstone.statistics.intervals import paired_ratio

MAY_DIFFER_FROM_BASELINE = settings(lambda traits: traits.scales)
"""The factors in which a cell of several replicas may differ from its baseline."""


def has_replicas(study: Study) -> bool:
    """Whether a cell of the study is trained by several replicas."""
    return any(cell.plan.settings.world_size > 1 for cell in study.cells)


def scalings(study: Study) -> list[Scaling]:
    """The cells of several replicas with their baselines, in order of the plan.

    All settings but the numbers of nodes and replicas are the same; on the CPU the threads of a
    node, or those of a replica.
    """
    baselines: dict[tuple[str, ...], list[Cell]] = {}
    for cell in study.cells:
        if cell.plan.settings.world_size == 1:
            baselines.setdefault(_fixed_factors(cell), []).append(cell)
    return [
        _scaling(cell, baseline, resources)
        for cell in study.cells
        if cell.plan.settings.world_size > 1
        for baseline in baselines.get(_fixed_factors(cell), [])
        if (resources := _resources(cell, baseline))
    ]


def _scaling(cell: Cell, baseline: Cell, resources: int) -> Scaling:
    speedup = estimate(paired_ratio(cell.by_block("throughput"), baseline.by_block("throughput")))
    ends = (speedup.low, speedup.high) if speedup else (None, None)
    low, high = (None if end is None else end / resources for end in ends)
    return Scaling(
        cell=cell.plan.name,
        baseline=baseline.plan.name,
        kind="weak" if cell.plan.settings.batch_split == "per_replica" else "strong",
        nodes=cell.plan.settings.nodes,
        replicas=cell.plan.settings.replicas,
        resources=resources,
        speedup=speedup,
        efficiency=speedup.value / resources if speedup else None,
        efficiency_low=low,
        efficiency_high=high,
        reason=None if speedup else _why_none(cell, baseline),
        flags=Counter([*cell.flags, *baseline.flags]),
    )


def _why_none(*cells: Cell) -> str:
    """Why cells have no ratio of throughputs."""
    failed = {cell.plan.name: cell.words("throughput") for cell in cells}
    reasons = [f"{name}: {', '.join(words)}" for name, words in failed.items() if words]
    return "; ".join(reasons) or "no block has both"


def _fixed_factors(cell: Cell) -> tuple[str, ...]:
    return tuple(
        value for name, value in cell.plan.factors.items() if name not in MAY_DIFFER_FROM_BASELINE
    )


def _resources(cell: Cell, baseline: Cell) -> int | None:
    """The cell's resources as a multiple of the baseline's; None where that is no whole number."""
    settings = cell.plan.settings
    ours, theirs = settings.threads, baseline.plan.settings.threads
    if settings.device == "gpu":
        return settings.world_size if ours == theirs else None
    if ours == theirs:
        return settings.nodes
    proportional = ours and theirs and ours == theirs * settings.replicas
    return settings.world_size if proportional else None
