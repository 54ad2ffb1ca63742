"""Which framework is fastest: cells side by side."""

from dataclasses import dataclass
from functools import cached_property
from statistics import median

from touchstone.analysis.part import Workload
from touchstone.analysis.ranking_model import ComparedCell, ComparisonSummary
from touchstone.analysis.ratio import estimate
from touchstone.results.certificates import Certificates, proof
from touchstone.results.study import FACET, Cell, Series, Study
from touchstone.results.tables import COMPARED, remarks
from touchstone.statistics.intervals import LEVEL, Ratio, paired_ratio


@dataclass(frozen=True)
class Comparison:
    """The throughputs of comparable cells on one network, data set, device and batch size.

    `cells` are those with numbers, in order of the plan, `without` those that have none. `setting`
    names the other factors that distinguish this comparison from others of the study. The
    first cell is the reference, chosen before the data are seen: one chosen as the fastest
    would owe its place partly to its luckiest runs.
    """

    facet: tuple[str, str, str]
    batch_size: int
    setting: str
    cells: list[Cell]
    without: list[Cell]

    @property
    def reference(self) -> Cell:
        return self.cells[0]

    @cached_property
    def fastest(self) -> Cell:
        """The cell with the largest median."""
        return max(self.cells, key=_median)

    @property
    def level(self) -> float:
        """Confidence of each interval, such that all of a cell's together have 95 %.

        Bonferroni over the others: whichever cell is truly the fastest, a false winner needs
        its own interval or one of a rival against it to fail.
        """
        return 1 - (1 - LEVEL) / (len(self.cells) - 1)

    def ratio(self, cell: Cell, reference: Cell) -> Ratio | None:
        """Throughput of one cell / that of another, within blocks."""
        return paired_ratio(cell.by_block("throughput"), reference.by_block("throughput"))

    @cached_property
    def against(self) -> list[tuple[Cell, Ratio | None]]:
        """The fastest against each other cell, the next fastest first."""
        others = sorted((c for c in self.cells if c is not self.fastest), key=_median, reverse=True)
        return [(cell, self.ratio(self.fastest, cell)) for cell in others]

    @property
    def n(self) -> int:
        """Blocks of the comparison of the fastest that has fewest."""
        return min(ratio.n if ratio else 0 for _, ratio in self.against)

    @property
    def testable(self) -> bool:
        """Whether every interval of the fastest can be had."""
        return self.n > 1

    @cached_property
    def rivals(self) -> list[Cell]:
        """The cells that the fastest was not shown to be faster than."""
        return [
            cell
            for cell, ratio in self.against
            if ratio is None or ratio.verdict("throughput", self.level) != "faster"
        ]

    @cached_property
    def winner(self) -> Series | None:
        """The fastest, where it was shown to be faster than all others together."""
        return self.fastest.series if self.testable and not self.rivals else None


def _median(cell: Cell) -> float:
    return median(cell.values("throughput"))


def compare(study: Study) -> list[Comparison]:
    """The comparisons by throughput that have two cells or more with numbers."""
    groups = [
        group
        for group in study.comparable()
        if sum(bool(cell.values("throughput")) for cell in group) > 1
    ]
    shown_anyway = (*COMPARED, *FACET, "batch_size")
    varying = [
        name
        for name in (study.cells[0].plan.factors if groups else ())
        if name not in shown_anyway and len({group[0].plan.factors[name] for group in groups}) > 1
    ]
    comparisons = []
    for group in groups:
        factors = group[0].plan.factors
        setting = ", ".join(f"{n.replace('_', ' ')} {factors[n] or '–'}" for n in varying)
        found = [cell for cell in group if cell.values("throughput")]
        without = [cell for cell in group if not cell.values("throughput")]
        place = (group[0].facet, group[0].batch_size, setting)
        comparisons.append(Comparison(*place, found, without))
    order = {facet: i for i, facet in enumerate(dict.fromkeys(c.facet for c in study.cells))}
    return sorted(comparisons, key=lambda c: (order[c.facet], c.batch_size, c.setting))


def summary(
    comparison: Comparison, workload: Workload, certificates: Certificates
) -> ComparisonSummary:
    """A comparison as the findings have it."""
    network, dataset, device = comparison.facet
    next_fastest, lead = comparison.against[0]
    return ComparisonSummary(
        workload=workload,
        network=network,
        dataset=dataset,
        device=device,
        batch_size=comparison.batch_size,
        setting=comparison.setting,
        reference=comparison.reference.plan.name,
        leader=comparison.fastest.plan.name,
        next=next_fastest.plan.name,
        lead=estimate(lead),
        rivals=[cell.plan.name for cell in comparison.rivals],
        rankable=comparison.testable,
        n=comparison.n,
        level=comparison.level,
        cells=[
            _compared(comparison, cell, certificates)
            for cell in (*comparison.cells, *comparison.without)
        ],
    )


def _compared(comparison: Comparison, cell: Cell, certificates: Certificates) -> ComparedCell:
    reference = comparison.reference
    is_reference = cell is reference
    return ComparedCell(
        cell=cell.plan.name,
        ratio=None if is_reference else estimate(comparison.ratio(cell, reference)),
        fastest=comparison.winner == cell.series,
        equal_computation=_equal_computation(cell, certificates),
        remarks=remarks(
            [run.provenance for run in cell.runs], [run.provenance for run in reference.runs]
        ),
    )


def _equal_computation(cell: Cell, certificates: Certificates) -> str:
    """What is known of equal computation; outputs of inference are compared with the training's."""
    factors = cell.plan.factors
    found = proof(certificates, cell.facet[0], cell.series.framework, factors["precision"])
    return found.verdict if found.shown or not cell.values("deviation") else "outputs equal"
