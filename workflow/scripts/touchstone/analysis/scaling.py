"""How training speed grows with the replicas: speed-up and efficiency."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal

from touchstone.analysis.findings_model import Scaling
from touchstone.analysis.ratio import estimate
from touchstone.plan.model import settings
from touchstone.results.planned import FACTORS
from touchstone.results.study import Cell, Study
from touchstone.results.tables import counted
from touchstone.safe_text import csv_of
from touchstone.statistics.intervals import TOO_FEW, Ratio, paired_ratio

FREE = settings(lambda traits: traits.scales)
"""The factors in which a cell of several replicas may differ from its baseline."""
COLUMNS = (
    *FACTORS,
    *("scaling", "nodes", "replicas", "resources", "cell", "reference_cell"),
    *("throughput", "reference_throughput", "n", "speedup", "low", "high"),
    *("efficiency", "efficiency_low", "efficiency_high", "verdict", "indicative"),
    *("reason", "flags", "reference_flags"),
)


@dataclass(frozen=True)
class Scaled:
    """A cell of several replicas, and its baseline: the cell that trains the same with one.

    `resources` are its devices, or on the CPU its threads, as a multiple of the baseline's: the
    speed-up if the exchange of gradients cost nothing.
    """

    cell: Cell
    baseline: Cell
    resources: int

    @property
    def nodes(self) -> int:
        return _count(self.cell, "nodes")

    @property
    def replicas(self) -> int:
        """Those of a node."""
        return _count(self.cell, "replicas")

    @property
    def world_size(self) -> int:
        """The replicas of all nodes."""
        return _world_size(self.cell)

    @property
    def kind(self) -> Literal["strong", "weak"]:
        """`strong`: the batch of all replicas stays the same; `weak`: that of each does."""
        return "weak" if self.cell.plan.factors["batch_split"] == "per_replica" else "strong"

    @cached_property
    def speedup(self) -> Ratio | None:
        """Throughput / that of the baseline, within blocks; None where no block has both."""
        return paired_ratio(self.cell.by_block("throughput"), self.baseline.by_block("throughput"))

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the speed-up."""
        return self.speedup.interval() if self.speedup else None

    @property
    def efficiency(self) -> float | None:
        """Speed-up / resources."""
        return self.speedup.value / self.resources if self.speedup else None

    @property
    def efficiency_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the efficiency."""
        if self.interval is None:
            return None
        low, high = self.interval
        return low / self.resources, high / self.resources

    @property
    def verdict(self) -> str:
        """`faster` or `slower` than the baseline, or that nothing was shown."""
        return self.speedup.verdict() if self.speedup else TOO_FEW

    @property
    def reason(self) -> str:
        """Why there is no speed-up."""
        if self.speedup:
            return ""
        outcomes = {cell.plan.name: cell.words("throughput") for cell in (self.cell, self.baseline)}
        failed = "; ".join(
            f"{name}: {', '.join(words)}" for name, words in outcomes.items() if words
        )
        return failed or "no block has both"


def has_replicas(study: Study) -> bool:
    """Whether a cell of the study is trained by several replicas."""
    return any(_world_size(cell) > 1 for cell in study.cells)


def scaled(study: Study) -> list[Scaled]:
    """The cells of several replicas with their baselines, in order of the plan.

    All settings but the numbers of nodes and replicas are the same; on the CPU the threads of a
    node, or those of a replica.
    """
    baselines: dict[tuple[str, ...], list[Cell]] = {}
    for cell in study.cells:
        if _world_size(cell) == 1:
            baselines.setdefault(_fixed_factors(cell), []).append(cell)
    return [
        Scaled(cell, baseline, resources)
        for cell in study.cells
        if _world_size(cell) > 1
        for baseline in baselines.get(_fixed_factors(cell), [])
        if (resources := _resources(cell, baseline))
    ]


def _count(cell: Cell, factor: str) -> int:
    return int(cell.plan.factors.get(factor) or 1)


def _world_size(cell: Cell) -> int:
    return _count(cell, "nodes") * _count(cell, "replicas")


def _fixed_factors(cell: Cell) -> tuple[str, ...]:
    return tuple(value for name, value in cell.plan.factors.items() if name not in FREE)


def _resources(cell: Cell, baseline: Cell) -> int | None:
    """The cell's resources as a multiple of the baseline's; None where that is no whole number."""
    ours, theirs = (one.plan.factors.get("threads", "") for one in (cell, baseline))
    if cell.facet[2] == "gpu":
        return _world_size(cell) if ours == theirs else None
    if ours == theirs:
        return _count(cell, "nodes")
    each = ours and theirs and int(ours) == int(theirs) * _count(cell, "replicas")
    return _world_size(cell) if each else None


def table(rows: Iterable[Scaled]) -> str:
    """The rows as CSV."""
    lines: list[Sequence[object]] = [COLUMNS]
    for row in rows:
        cells, ratio = (row.cell, row.baseline), row.speedup
        speedup = (ratio.value if ratio else None, *(row.interval or (None, None)))
        efficiency = (row.efficiency, *(row.efficiency_interval or (None, None)))
        lines.append(
            [
                *(row.cell.plan.factors[name] for name in FACTORS),
                *(row.kind, row.nodes, row.replicas, row.resources),
                *(cell.plan.name for cell in cells),
                *(_text(_median_throughput(cell)) for cell in cells),
                *(ratio.n if ratio else 0, *map(_text, speedup), *map(_text, efficiency)),
                *(row.verdict, "yes" if ratio is None or ratio.indicative else "no", row.reason),
                *(counted(cell.flags) for cell in cells),
            ]
        )
    return csv_of(lines)


def _median_throughput(cell: Cell) -> float | None:
    """The median throughput of a cell (images/s), if it has one."""
    values = cell.values("throughput")
    return median(values) if values else None


def _text(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def summary(scaled_cell: Scaled) -> Scaling:
    """A cell of several replicas as the findings have it."""
    low, high = scaled_cell.efficiency_interval or (None, None)
    return Scaling(
        cell=scaled_cell.cell.plan.name,
        baseline=scaled_cell.baseline.plan.name,
        kind=scaled_cell.kind,
        nodes=scaled_cell.nodes,
        replicas=scaled_cell.replicas,
        resources=scaled_cell.resources,
        speedup=estimate(scaled_cell.speedup),
        efficiency=scaled_cell.efficiency,
        efficiency_low=low,
        efficiency_high=high,
        reason=scaled_cell.reason or None,
        flags=Counter([*scaled_cell.cell.flags, *scaled_cell.baseline.flags]),
    )
