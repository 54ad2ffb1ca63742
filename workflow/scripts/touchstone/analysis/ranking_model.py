"""Which configuration is fastest: the parts `answer` and `comparisons` of the findings."""

from typing import Literal

from touchstone.analysis.part import FindingsPart, RatioEstimate
from touchstone.plan.setting import Kind

CHARTED = 8
"""Cells of a comparison that the page's chart has at most."""


class ComparedCell(FindingsPart):
    """A cell in a comparison."""

    cell: str
    """Name of the cell."""
    speed: float | None
    """Geometric mean of `values`, corrected for blocks that it lacks; null without a value. The
    quotient of two speeds is the ratio of the two cells."""
    values: list[float]
    """What was measured: its speed in each set that counts where the cells took turns, else the
    throughput of each run that has one (calls/s of an operation)."""
    runs: list[float]
    """The same of its runs, whatever the comparison rests on, in order of repeats."""
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
        """Values that its speed is the mean of."""
        return len(self.values)


class InTurn(FindingsPart):
    """How cells were measured in turn, whose ratios a comparison has (docs/measuring.md)."""

    sets: int
    """Sets of fresh processes that count."""
    all_sets: int
    """Sets that were measured; the others have too few rounds that count."""
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
    asked_rounds: int
    """Rounds that a set was to have."""
    paired: str
    """Why pairs took turns, not all cells together; empty where all did."""


class ComparedPair(FindingsPart):
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
    equal_within: float | None
    """The largest difference, as a share, where the interval of the ratio is within 5 % of 1, which
    shows that the two are equal to within it; else null."""
    not_excluded: float | None
    """The largest difference, as a share, that the interval does not exclude; null without one."""
    remarks: list[str]
    """What makes the ratio more than one of frameworks: `different_machine`, `different_era`."""

    @property
    def runs_disagree(self) -> bool:
        """Whether the interval of the long runs and that of the turns have nothing in common."""
        turns, runs = self.ratio, self.runs_ratio
        if turns is None or turns.low is None or turns.high is None:
            return False
        if runs is None or runs.low is None or runs.high is None:
            return False
        return runs.low > turns.high or runs.high < turns.low

    @property
    def runs_turn_round(self) -> bool:
        """Whether the long runs order the two cells the other way."""
        if self.ratio is None or self.runs_ratio is None:
            return False
        return self.runs_ratio.value < 1 < self.ratio.value

    @property
    def runs_differ(self) -> bool:
        """Whether the long runs order the two cells the other way, or have an interval that
        excludes the ratio."""
        if self.ratio is None or self.runs_ratio is None:
            return False
        ratio, runs = self.ratio.value, self.runs_ratio
        if self.runs_turn_round:
            return True
        return runs.low is not None and runs.high is not None and not runs.low <= ratio <= runs.high


class MetricOfCell(FindingsPart):
    """A metric of a cell in a comparison."""

    cell: str
    """Name of the cell."""
    value: float
    """Geometric mean of `values`, corrected for blocks that it lacks; of a metric with the unit 1
    the arithmetic mean."""
    values: list[float]
    """The value of each run that has one."""


class MetricPair(FindingsPart):
    """Two cells of a comparison by a metric."""

    cell: str
    """One cell."""
    reference: str
    """The other cell."""
    value: float
    """The cell / the reference; of a metric with the unit 1 the cell - the reference."""
    low: float | None
    """Lower end of its interval, which holds together with those of all pairs of the comparison by
    this metric; null with fewer than two blocks."""
    high: float | None
    """Upper end of it."""


class ComparedMetric(FindingsPart):
    """A metric other than the speed of the fastest cells of a comparison, from their runs."""

    metric: str
    """Its name."""
    cells: list[MetricOfCell]
    """The cells that have a value, the best first."""
    pairs: list[MetricPair]
    """All pairs of them; `results/comparisons.csv` has the same ratios."""


Level = Literal["high", "medium", "low"]
Reason = Literal["one run", "disturbed", "long runs", "interval", "few runs"]
Unit = Literal["repeats", "sets"]


class Trust(FindingsPart):
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


class NextStep(FindingsPart):
    """What settles a comparison in which the leader is not shown to be faster than each other cell,
    or equal to it."""

    unit: Unit
    """What there should be more of."""
    repeats: int | None
    """Repeats, or sets, that settle it in 4 of 5 studies whatever lead and noise are, within 80 %
    intervals of theirs; null where 100 are too few. With one run, 3: the least that say anything
    about the noise."""
    minutes: float | None
    """Time that all runs of the study take beyond those that there are; null without repeats."""
    edit: str
    """What to write into the study, as `repeats: 8`; empty without repeats."""
    decides: bool
    """Whether the number rests on the measured noise; false with one run."""


class FactorLevel(FindingsPart):
    """A value of a factor."""

    value: str
    """As `results/plan.tsv` spells it."""
    version: str | None
    """Of the framework, where the factor is its environment; else null."""
    ratio: RatioEstimate | None
    """Speed at this level / at the first one, all else the same: the geometric mean over all pairs
    of cells that differ in this factor only, and of the ends of their intervals, which hold
    together. Null for the first level, and where no pair has a ratio."""
    least: float | None
    """The smallest ratio of such a pair."""
    most: float | None
    """The largest one."""


class FactorEffect(FindingsPart):
    """What a factor of a comparison changes."""

    factor: str
    """Its name."""
    ordered: bool
    """Whether its values have an order: numbers, and releases of one framework."""
    levels: list[FactorLevel]
    """Its values, the smallest first; without an order, first that of the slowest cell."""

    @property
    def highest(self) -> FactorLevel:
        """The level with the highest speed."""
        return max(self.levels, key=lambda level: level.ratio.value if level.ratio else 1.0)


class ComparisonSummary(FindingsPart):
    """Cells that differ only in `compared`, by throughput."""

    workload: Kind
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
    equal: list[str]
    """Those of them that it is equal to: the interval of the ratio is within 5 % of 1."""
    effects: list[FactorEffect]
    """What each factor changes, where the cells differ in others than framework and mode; of the
    environment, where its values are releases of one framework."""
    too_noisy: str
    """Why there is no answer: an interval of the leader reaches further than a factor of 1.5 beyond
    its ratio. Empty where there is an answer."""
    n: int
    """The fewest runs of a cell that has a speed; where they were measured in turn, the sets."""
    in_turn: InTurn | None
    """How the cells were measured in turn, if the speeds are from there; null: from the runs."""
    noisy_turns: bool
    """Whether the cells were measured in turn too, with intervals too wide for an answer, which the
    runs have."""
    level: float
    """Confidence with which the intervals of all pairs hold together."""
    trust: Trust
    """How far to trust it."""
    next_step: NextStep | None
    """What settles it; null where the leader is faster than each other cell, or equal to it."""
    metrics: list[ComparedMetric]
    """What else can be compared of its fastest cells, 8 at most: accuracy, memory, energy, ..."""

    @property
    def leader(self) -> str:
        """The cell with the largest speed."""
        return self.cells[0].cell

    @property
    def leads(self) -> list[ComparedPair]:
        """The leader against each other cell, the next fastest first."""
        return [pair for pair in self.pairs if pair.faster == self.leader]


class Curve(FindingsPart):
    """How the speed of a configuration changes with a number, by its runs, where each of its cells
    is in another comparison."""

    workload: Kind
    """What the cells do."""
    cells: list[str]
    """The cells, which differ in the factor only, the fastest first."""
    effect: FactorEffect
    """What it changes."""
    too_noisy: bool
    """Whether an interval of the fastest reaches further than a factor of 1.5 beyond its ratio."""


class AccuracyGap(FindingsPart):
    """How far apart the median test accuracies of compared cells are."""

    largest: float
    """Largest difference within a comparison, as a share."""
    lower: str
    """The cell with the lower accuracy."""
    higher: str
    """The cell with the higher one."""
    comparisons: int
    """Comparisons in which two cells or more have an accuracy."""


class NotCompared(FindingsPart):
    """Cells that no comparison has, for one reason."""

    cells: list[str]
    """Their names, in order of the plan."""
    why: str
    """Why they are not compared."""


class Answer(FindingsPart):
    """How far to trust the ranking that `comparisons` has, and what else the first lines say."""

    trust: Trust | None
    """The lowest of the comparisons; null where nothing can be compared."""
    next_step: NextStep | None
    """The smallest that settles an open comparison; null where none is open."""
    not_compared: list[NotCompared]
    """Every cell that is in no comparison, or has no speed there."""
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
