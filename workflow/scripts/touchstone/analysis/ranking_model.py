"""Which configuration is fastest: the parts `answer` and `comparisons` of the findings."""

from typing import Literal

from touchstone.analysis.part import Part, RatioEstimate, Workload


class ComparedCell(Part):
    """A cell in a comparison."""

    cell: str
    """Name of the cell."""
    speed: float | None
    """Geometric mean of its throughputs, images/s, corrected for blocks that it lacks; null without
    a throughput. Where the cells were measured in turn, the ratios are from there, and only the
    mean over all cells is that of the runs."""
    runs: list[float]
    """Throughputs of the runs that have one, images/s, in order of repeats."""
    low: float | None
    """The leader's speed / upper end of the interval of its ratio to this cell, images/s; null for
    the leader, and without an interval."""
    high: float | None
    """The same with the lower end; below the leader's speed if the leader is shown to be faster."""
    equal_computation: str
    """`reference`, `equal`, `differs` or `not shown`, by certificate; `outputs equal` for
    inference whose outputs were compared with those of the training run."""

    @property
    def n(self) -> int:
        """Runs that have a throughput."""
        return len(self.runs)


class InTurn(Part):
    """How cells were measured in turn, whose ratios a comparison has (docs/interleaving.md)."""

    sets: int
    """Sets of fresh processes that count."""
    rounds: int
    """Rounds of all sets that count."""
    all_rounds: int
    """Rounds that were measured; in the others other programs used the cores, or the hypervisor
    had moved the cores apart."""
    set_aside: int
    """Slices that were repeated, for the same reason."""
    disturbed: int
    """Rounds that count although other programs used the cores, since too few others were quiet."""
    apart: int
    """Rounds that count although the cores were apart, since too few others were quiet."""
    moved: int
    """Slices, also repeated ones, in which the cores were apart: right before or after it, a signal
    between neighbours took over 70 ns more than in the slice with the shortest time."""
    busy: list[str]
    """Cells whose processes used more than 0.05 cores while they waited for their turn."""
    paired: str
    """Why pairs took turns, not all cells together; empty where all did."""


class ComparedPair(Part):
    """Two cells of a comparison."""

    faster: str
    """The cell with the larger speed."""
    slower: str
    """The other cell."""
    ratio: RatioEstimate | None
    """Speed of the faster / that of the slower, whose interval holds together with those of all
    pairs of the comparison; null where no chain of common blocks links the two."""
    runs_ratio: RatioEstimate | None
    """The same ratio from the long runs, where `ratio` is from turns; else null."""
    remarks: list[str]
    """What makes the ratio more than one of frameworks: `different_machine`, `different_era`."""

    @property
    def runs_disagree(self) -> bool:
        """Whether the interval of the long runs and that of the turns have nothing in common."""
        one, other = self.ratio, self.runs_ratio
        if one is None or one.low is None or one.high is None:
            return False
        if other is None or other.low is None or other.high is None:
            return False
        return other.low > one.high or other.high < one.low


Level = Literal["high", "medium", "low"]
Reason = Literal["one run", "disturbed", "long runs", "interval", "few runs"]
Unit = Literal["repeats", "sets"]


class Trust(Part):
    """How far to trust a comparison, and the main reason."""

    level: Level
    """`low`: one run of a cell, more than a third of the runs disturbed, long runs whose intervals
    have nothing in common with those of the turns, or an interval that reaches 1.5 times its ratio;
    `medium`: fewer than six runs of a cell, a tenth disturbed, or 1.1 times; else `high`."""
    reason: Reason | None
    """The first of these that gives the level; null for `high`."""
    n: int
    """The fewest runs of a cell; where cells were measured in turn, the sets."""
    unit: Unit
    """What `n` counts."""
    runs: int
    """Runs of all its cells; where they were measured in turn, rounds that count."""
    disturbed: int
    """Those that something else disturbed."""
    reach: float | None
    """The largest upper end / ratio of the leader's intervals; null without an interval."""


class NextStep(Part):
    """What would probably settle a comparison in which the leader was not shown to be fastest."""

    unit: Unit
    """What there should be more of."""
    repeats: int | None
    """Repeats, or sets, with which a lead as large as the measured one is shown in 4 of 5 studies;
    null where 100 are too few. With one run, 3: the least that say anything about the noise."""
    minutes: float | None
    """Time that all runs of the study take beyond those that there are; null without repeats."""
    decides: bool
    """Whether the estimate has the measured noise; false with one run."""


class ComparisonSummary(Part):
    """Cells that differ only in `compared`, by throughput."""

    workload: Workload
    """What the cells do."""
    network: str
    """Network of the cells."""
    dataset: str
    """Data set of the cells."""
    compared: list[str]
    """The factors in which the cells differ: framework and mode, or where no two cells of the study
    differ only in these, others (docs/statistics.md)."""
    device: str | None
    """Device of the cells; null where they differ in it."""
    batch_size: int | None
    """Batch size of the cells; null where they differ in it."""
    setting: str
    """Other factors that distinguish this comparison from the others; empty where none does."""
    cells: list[ComparedCell]
    """All cells: the fastest first, last those that have no throughput."""
    pairs: list[ComparedPair]
    """All pairs of cells that have a speed, in the same order: first the leader's."""
    winner: str | None
    """The cell whose intervals against all others are above 1; null where there is none."""
    rivals: list[str]
    """The cells that the leader was not shown to be faster than."""
    alike: bool
    """Whether there are rivals, and all their intervals are within 2 % of 1."""
    n: int
    """The fewest runs of a cell that has a speed; where they were measured in turn, the sets."""
    in_turn: InTurn | None
    """How the cells were measured in turn, if the ratios are from there; null: from the runs."""
    level: float
    """Confidence with which the intervals of all pairs hold together."""
    trust: Trust
    """How far to trust it."""
    next_step: NextStep | None
    """What would probably settle it; null where there is a winner, or the rivals are alike."""

    @property
    def leader(self) -> str:
        """The cell with the largest speed."""
        return self.cells[0].cell

    @property
    def leads(self) -> list[ComparedPair]:
        """The leader against each other cell, the next fastest first."""
        return [pair for pair in self.pairs if pair.faster == self.leader]


class AccuracyGap(Part):
    """How far apart the median test accuracies of compared cells are."""

    largest: float
    """Largest difference within a comparison, as a share."""
    batch_size: int | None
    """The batch size of that comparison; null where its cells differ in it."""
    comparisons: int
    """Comparisons in which two cells or more have an accuracy."""


class Answer(Part):
    """How far to trust the ranking that `comparisons` has, and what else the first lines say."""

    trust: Trust | None
    """The lowest of the comparisons; null where nothing can be compared."""
    next_step: NextStep | None
    """The smallest that settles an open comparison; null where none is open."""
    flags: list[str]
    """The flags of the cells that were compared, and the remarks on their ratios."""
    cells_with_throughput: int
    """Cells that train and have a throughput."""
    accuracy_gap: AccuracyGap | None
    """Null where no two comparable cells have an accuracy."""
    training_runs: int
    """Runs of the cells that train."""
    failed_training_runs: dict[str, int]
    """Those of them that are not ok, by outcome."""
