"""Which framework is fastest: the parts `answer` and `comparisons` of the findings."""

from touchstone.analysis.part import Part, RatioEstimate, Workload


class ComparedCell(Part):
    """A cell in a comparison."""

    cell: str
    """Name of the cell."""
    ratio: RatioEstimate | None
    """Throughput / throughput of the reference; null where no block has both, and for the
    reference."""
    fastest: bool
    """Whether it was shown to be faster than all other cells of the comparison."""
    equal_computation: str
    """`reference`, `equal`, `differs` or `not shown`, by certificate; `outputs equal` for
    inference whose outputs were compared with those of the training run."""
    remarks: list[str]
    """What makes the ratio more than one of frameworks: `different_machine`, `different_era`."""


class ComparisonSummary(Part):
    """Cells that differ in framework or mode only, by throughput."""

    workload: Workload
    """What the cells do."""
    network: str
    """Network of the cells."""
    dataset: str
    """Data set of the cells."""
    device: str
    """Device of the cells."""
    batch_size: int
    """Batch size of the cells."""
    setting: str
    """Other factors that distinguish this comparison from the others; empty where none does."""
    reference: str
    """The cell that was planned first: the base of the ratios."""
    leader: str
    """The cell with the largest median throughput."""
    next: str
    """The cell with the second largest."""
    lead: RatioEstimate | None
    """Throughput of the leader / that of the next; null where no block has both."""
    rivals: list[str]
    """The cells that the leader was not shown to be faster than."""
    rankable: bool
    """Whether every cell has two blocks or more in common with the leader."""
    n: int
    """The fewest blocks that a cell has in common with the leader."""
    level: float
    """Confidence of each interval by which the leader is judged; together they have 95 %."""
    cells: list[ComparedCell]
    """All cells in order of the plan; first those that have a throughput."""

    @property
    def winner(self) -> str | None:
        """The leader, where it was shown to be the fastest."""
        return self.leader if self.rankable and not self.rivals else None


class SameOutcome(Part):
    """Comparisons on one network, data set and device that have the same outcome."""

    comparisons: list[int]
    """Their positions in `comparisons` of the findings, from 0."""
    winner: str | None
    """Label of the fastest; null where none was shown to be the fastest."""
    rankable: bool
    """Whether there are enough runs to rank."""
    lowest_lead: float | None
    """The smallest of the ratios of the winner to the next cell; null without a winner."""
    highest_lead: float | None
    """The largest of these ratios."""


class PlaceAnswer(Part):
    """What is fastest on one network, data set and device."""

    network: str
    """The network."""
    dataset: str
    """The data set."""
    device: str
    """The device."""
    outcomes: list[SameOutcome]
    """The outcomes of its comparisons: first winners, last those of too few runs."""


class Confidence(Part):
    """How far the ranking can be trusted."""

    rankings: int
    """Comparisons that had enough runs."""
    n: int
    """The fewest blocks of these comparisons."""
    indicative: bool
    """Whether these are so few that the intervals rest on assumptions about the noise."""
    level: float
    """Confidence of one ranking, as a share."""
    expected_false: float
    """Rankings x (1 - level): how many may be false."""
    flags: list[str]
    """The flags of the cells that were compared, and the remarks on their ratios."""


class AccuracyGap(Part):
    """How far apart the median test accuracies of compared cells are."""

    largest: float
    """Largest difference within a comparison, as a share."""
    batch_size: int
    """The batch size of that comparison."""
    comparisons: int
    """Comparisons in which two cells or more have an accuracy."""


class Answer(Part):
    """Which framework is fastest, and how far to trust that."""

    places: list[PlaceAnswer]
    """One answer for each network, data set and device; empty where nothing can be compared."""
    cells_with_throughput: int
    """Cells that train and have a throughput."""
    confidence: Confidence | None
    """Null where no comparison has enough runs."""
    accuracy_gap: AccuracyGap | None
    """Null where no two comparable cells have an accuracy."""
    training_runs: int
    """Runs of the cells that train."""
    failed_training_runs: dict[str, int]
    """Those of them that are not ok, by outcome."""
