"""How training speed grows with the replicas: a table and a figure of speed-up and efficiency."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from touchstone.results.study import Cell, Study
from touchstone.results.tables import FACTORS, counted
from touchstone.statistics.intervals import TOO_FEW, Ratio, paired_ratio

FREE = ("nodes", "replicas", "batch_split", "threads")
"""The factors in which a cell of several replicas may differ from the one that trains alone."""
STRONG, WEAK = "strong", "weak"
COLUMNS = (
    *FACTORS,
    *("scaling", "nodes", "replicas", "resources", "cell", "reference_cell"),
    *("throughput", "reference_throughput", "n", "speedup", "low", "high"),
    *("efficiency", "efficiency_low", "efficiency_high", "verdict", "indicative"),
    *("reason", "flags", "reference_flags"),
)


@dataclass(frozen=True)
class Scaled:
    """A cell of several replicas, and the cell that trains the same alone.

    `resources` is how many times the devices, or on the CPU the threads, of the one alone it has:
    the speed-up that nothing lost in exchanging gradients would leave.
    """

    cell: Cell
    alone: Cell
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
    def kind(self) -> str:
        """`strong`: the batch of all replicas stays the same; `weak`: that of each does."""
        return WEAK if self.cell.plan.factors["batch_split"] == "per_replica" else STRONG

    @cached_property
    def speedup(self) -> Ratio | None:
        """Throughput / that of the one alone, within blocks; None where no block has both."""
        return paired_ratio(self.cell.by_block("throughput"), self.alone.by_block("throughput"))

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
        """`faster`, `slower` than the one alone, or that nothing was shown."""
        return self.speedup.verdict("throughput") if self.speedup else TOO_FEW

    @property
    def reason(self) -> str:
        """Why there is no speed-up."""
        if self.speedup:
            return ""
        words = {cell.plan.name: cell.words("throughput") for cell in (self.cell, self.alone)}
        told = "; ".join(f"{name}: {', '.join(word)}" for name, word in words.items() if word)
        return told or "no block has both"


def has_replicas(study: Study) -> bool:
    """Whether a cell of the study is trained by several replicas."""
    return any(_world_size(cell) > 1 for cell in study.cells)


def scaled(study: Study) -> list[Scaled]:
    """The cells of several replicas beside those that train the same alone, in order of the plan.

    All settings but the numbers of nodes and replicas are the same; on the CPU the threads of a
    node, or those of a replica.
    """
    alone: dict[tuple[str, ...], list[Cell]] = {}
    for cell in study.cells:
        if _world_size(cell) == 1:
            alone.setdefault(_rest(cell), []).append(cell)
    return [
        Scaled(cell, one, resources)
        for cell in study.cells
        if _world_size(cell) > 1
        for one in alone.get(_rest(cell), [])
        if (resources := _resources(cell, one))
    ]


def _count(cell: Cell, factor: str) -> int:
    return int(cell.plan.factors.get(factor) or 1)


def _world_size(cell: Cell) -> int:
    return _count(cell, "nodes") * _count(cell, "replicas")


def _rest(cell: Cell) -> tuple[str, ...]:
    return tuple(value for name, value in cell.plan.factors.items() if name not in FREE)


def _resources(cell: Cell, alone: Cell) -> int | None:
    """How many times the resources of `alone` the cell has; None where that is no whole share."""
    ours, theirs = (one.plan.factors.get("threads", "") for one in (cell, alone))
    if cell.facet[2] == "gpu":
        return _world_size(cell) if ours == theirs else None
    if ours == theirs:
        return _count(cell, "nodes")
    each = ours and theirs and int(ours) == int(theirs) * _count(cell, "replicas")
    return _world_size(cell) if each else None


def table(rows: Iterable[Scaled]) -> str:
    """The rows as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells, ratio = (row.cell, row.alone), row.speedup
        speedup = (ratio.value if ratio else None, *(row.interval or (None, None)))
        efficiency = (row.efficiency, *(row.efficiency_interval or (None, None)))
        writer.writerow(
            [
                *(row.cell.plan.factors[name] for name in FACTORS),
                *(row.kind, row.nodes, row.replicas, row.resources),
                *(cell.plan.name for cell in cells),
                *(_text(middle(cell)) for cell in cells),
                *(ratio.n if ratio else 0, *map(_text, speedup), *map(_text, efficiency)),
                *(row.verdict, "yes" if ratio is None or ratio.indicative else "no", row.reason),
                *(counted(cell.flags) for cell in cells),
            ]
        )
    return text.getvalue()


def middle(cell: Cell) -> float | None:
    """The median throughput of a cell (images/s), if it has one."""
    values = cell.values("throughput")
    return median(values) if values else None


def _text(value: float | None) -> str:
    return "" if value is None else repr(float(value))
