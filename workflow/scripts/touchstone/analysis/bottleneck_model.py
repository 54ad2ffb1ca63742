"""What limits a cell's speed: the part `bottlenecks` of the findings."""

from touchstone.analysis.part import FindingsPart, RatioEstimate


class BottleneckSign(FindingsPart):
    """A number that says what limits a cell, from the repeats of the cell."""

    kind: str
    """What was measured: `reading`, `CPU time of reading`, `PCIe link`, `batch size`, `measured
    peak`, `idle GPU`, `busy cores` or `context switches`."""
    unit: str
    """Unit of the numbers."""
    value: float
    """The estimate."""
    low: float | None
    """Lower end of its 95 % interval; null with fewer than two blocks."""
    high: float | None
    """Upper end of the interval."""
    n: int
    """Blocks that it rests on."""
    limit: float
    """The threshold of docs/bottleneck.md."""
    points_to: list[str]
    """The verdicts that it supports; empty where the interval contains the threshold, and where the
    number is on the side of it that says nothing."""
    text: str
    """The number in words."""


class Bottleneck(FindingsPart):
    """What limits the training speed of a cell (docs/bottleneck.md)."""

    cell: str
    """Name of the cell."""
    verdict: str
    """`input-bound`, `copy-bound`, `launch-bound`, `compute-bound` or `cannot tell`."""
    why: str
    """The evidence that decided, or why there is no verdict."""
    evidence: list[BottleneckSign]
    """All evidence that there is. A verdict needs two kinds that agree, and none that disagrees."""
    resident_cell: str | None
    """The cell that differs by its input only and reads nothing while it trains."""
    throughput: RatioEstimate | None
    """Throughput / that of `resident_cell`."""
    input_share: float | None
    """What reading adds to the time of a step, % of that time; negative where the cell that reads
    was the faster one."""
    copy_share: float | None
    """PCIe traffic to the GPU, % of what its link carries."""
    launch_share: float | None
    """The part of a step's time that does not depend on the batch size, %; negative where a larger
    batch is slower per example. Null without a batch size four times as large or small."""
    gpu_idle: float | None
    """Time in which the GPU runs no kernel, %."""
    bottleneck: float | None
    """The larger of `input_share` and `gpu_idle`, at least 0, %."""
    peak_flop_rate: float | None
    """The best matrix product of this study in the same place, GFLOP/s."""
    share_of_peak: float | None
    """Floating-point rate of the cell / that peak, %."""
    share_of_peak_missing: str | None
    """Why there is no share of the peak."""
