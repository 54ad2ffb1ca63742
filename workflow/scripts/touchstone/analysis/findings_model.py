"""The findings of a study as data: what `results/findings.json` holds.

The docstrings of the classes and of their fields are the reference in docs/contracts.md.
"""

from functools import cached_property
from typing import Literal, Self

from pydantic import model_validator

from touchstone.analysis.bottleneck_model import Bottleneck
from touchstone.analysis.disturbed import Disturbed
from touchstone.analysis.doubts import Doubt
from touchstone.analysis.part import FindingsPart, RatioEstimate
from touchstone.analysis.profile_model import LayerProfile
from touchstone.analysis.ranking_model import Answer, ComparisonSummary, Curve
from touchstone.analysis.setup_model import Setup
from touchstone.plan.names import stack_of
from touchstone.plan.setting import Kind


class MetricSummary(FindingsPart):
    """The values of one metric over the runs of a cell, in the unit that `units` has for it."""

    n: int
    """Runs that have a value."""
    median: float | None
    """Median. Null for `time_to_accuracy` and `epochs_to_accuracy` where at most half of the runs
    reached the accuracy; runs that did not count as longer than all others."""
    min: float
    """Smallest value."""
    max: float | None
    """Largest value; null where a run ended before it reached the target accuracy."""
    cv: float | None
    """Standard deviation / mean; null with one value, and with a mean that is not above 0."""
    missing: dict[str, int]
    """Runs without a value, counted by their outcome; `no value` is a run that is ok."""


class Reported(FindingsPart):
    """What a program said of itself."""

    step: int
    """How many steps were done."""
    loss: float | None
    """A loss, or null."""
    accuracy: float | None
    """An accuracy, or null."""


class CellSummary(FindingsPart):
    """A cell of the plan with its numbers."""

    name: str
    """Name in `results/plan.tsv`; other parts refer to the cell by it."""
    framework: str
    """The framework."""
    released: str | None
    """Month in which its pinned version was released, `YYYY-MM`; null where that is not known, and
    in another environment."""
    label: str
    """The framework's name, its environment unless that is the pinned one, and what distinguishes
    the cell from the framework's others there."""
    network: str
    """The network, or the operation."""
    dataset: str
    """The data set, or the shape of the operation."""
    device: str
    """`cpu` or `gpu`."""
    batch_size: int
    """Examples of a step: of all replicas together, or of each with `batch_split: per_replica`."""
    workload: Kind
    """What a run of the cell does."""
    factors: dict[str, str]
    """All settings, as `results/plan.tsv` spells them."""
    outcomes: dict[str, int]
    """Runs by outcome."""
    flags: dict[str, int]
    """Runs by flag."""
    best_chose: str
    """What the mode `best` chose, with the number of runs; empty for another mode."""
    metrics: dict[str, MetricSummary]
    """Summaries of the metrics that a run of the cell has a value of."""
    missing_metrics: dict[str, list[str]]
    """By reason, the metrics that a run of the cell has no value of for that reason."""
    phases: dict[str, float]
    """Median seconds of each phase over the runs that are ok."""
    reports: list[Reported]
    """Of a program, what its first run that reports anything said of itself."""
    peak_place: str
    """Device, precision and threads whose measured peak limits the cell."""
    share_of_peak: float | None
    """Rate / peak of `peak_place`, %: of arithmetic, of a copy of memory. Null for inference."""
    share_of_peak_missing: str | None
    """Why a cell that trains has no share of the peak."""
    by_sitting: dict[str, float] = {}
    """Median throughput of the runs of each execution that made some, by when it began, UTC; empty
    where records do not tell."""

    @property
    def facet(self) -> tuple[str, str, str]:
        """Network, data set and device."""
        return self.network, self.dataset, self.device

    @property
    def stack(self) -> str:
        """The framework, in its environment and style."""
        return stack_of(self.factors)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return sum(self.outcomes.values())


class PrecisionGain(FindingsPart):
    """A cell, compared with the one that differs from it by precision only (docs/precision.md)."""

    cell: str
    """Name of the cell."""
    reference: str
    """The cell in fp32, or where there is none, the one that was planned first."""
    throughput: RatioEstimate | None
    """Throughput / that of the reference; null where no block has both."""
    accuracy_change: float | None
    """Mean difference of the test accuracies within blocks, as a share; null where no block has
    both."""
    accuracy_low: float | None
    """Lower end of its 95 % t interval; null with fewer than two blocks."""
    accuracy_high: float | None
    """Upper end of the interval."""
    memory_metric: str | None
    """The metric of memory that both cells have; null where there is none."""
    memory: float | None
    """Its median, MiB."""
    reference_memory: float | None
    """Its median for the reference, MiB."""
    memory_ratio: float | None
    """`memory` / `reference_memory`."""


class StyleGap(FindingsPart):
    """A cell in the style `plain`, compared with the fastest `tuned` one that trains the same
    (docs/styles.md)."""

    plain: str
    """Name of the cell."""
    tuned: str
    """The fastest cell in the style `tuned` that differs from it by style and mode only."""
    ratio: RatioEstimate | None
    """Speed of the tuned cell / that of the plain one, from their comparison; null where no chain
    of common blocks links the two."""


class Scaling(FindingsPart):
    """A cell of several replicas, compared with the cell of one replica (docs/parallel.md)."""

    cell: str
    """Name of the cell."""
    baseline: str
    """The cell that trains the same with one replica."""
    kind: Literal["strong", "weak"]
    """`strong`: the batch of all replicas is the same; `weak`: that of each replica is."""
    nodes: int
    """Nodes."""
    replicas: int
    """Replicas of a node."""
    resources: int
    """Devices, or on the CPU threads, as a multiple of those of the baseline."""
    speedup: RatioEstimate | None
    """Throughput / that of the baseline; null where no block has both."""
    efficiency: float | None
    """Speed-up / resources."""
    efficiency_low: float | None
    """Lower end of its 95 % interval."""
    efficiency_high: float | None
    """Upper end of the interval."""
    reason: str | None
    """Why there is no speed-up."""
    flags: dict[str, int]
    """Runs of both cells by flag."""

    @property
    def world_size(self) -> int:
        """The replicas of all nodes."""
        return self.nodes * self.replicas


class PeakRates(FindingsPart):
    """The best rates that the basic operations of this study reached in one place."""

    place: str
    """Device, precision and threads, where these are not the usual ones."""
    flop_rate: float | None
    """Best median rate of a matrix product, GFLOP/s."""
    memory_rate: float | None
    """Best median rate of a copy of memory, GB/s."""


class TrialSummary(FindingsPart):
    """A trial of some settings by one run of a cell with the mode `best`."""

    repeat: int
    """The run."""
    mode: str
    """Mode that it tried."""
    threads: int | None
    """Threads that it tried; null for all that the run may use."""
    wait_policy: str
    """How idle threads wait."""
    chosen: bool
    """Whether the run trained with these settings."""
    status: str
    """Outcome of the trial."""
    reason: str | None
    """Why it is not ok."""
    throughput: float | None
    """Median speed of its slices, images/s; of a record of an older version the throughput of the
    trial."""
    ratio: float | None
    """Its speed / that of the framework's default, which is the first trial that passed; null where
    that was not measured, as in records of older versions."""
    low: float | None
    """Lower end of the 95 % interval of the ratio."""
    high: float | None
    """Upper end of the interval."""
    sets: int | None
    """Sets of processes that the ratio rests on; with one, the interval is from its rounds."""
    chosen_is_faster_by: float | None
    """Speed of the chosen trial / that of this one."""
    first_step_time: float | None
    """Time of the first step, s."""
    files: str
    """Folder of its spec, events, telemetry and log."""


class Choice(FindingsPart):
    """Settings that runs of a cell with the mode `best` tried (docs/measuring.md)."""

    cell: str
    """Name of the cell."""
    settings: str
    """The mode; threads and waiting where they are not the cell's own."""
    chosen: int
    """Runs that trained with these settings."""
    throughput: float | None
    """Median speed of the trials, images/s."""
    chosen_is_faster_by: float | None
    """Median of the speed of the chosen trial / that of this one."""
    failed: dict[str, int]
    """Trials without a throughput, by outcome."""
    reasons: list[str]
    """The reasons of trials that are not ok."""
    trials: list[TrialSummary]
    """The trials."""


class Failure(FindingsPart):
    """Runs of a cell that are not ok for the same reason."""

    cell: str
    """Name of the cell."""
    status: str
    """The outcome."""
    reason: str | None
    """Why."""
    repeats: list[int]
    """The runs."""
    log_tail: list[str]
    """The last lines of the log of the first of them, for an `error`."""


class DeviationFromReference(FindingsPart):
    """The largest deviation of one kind between a framework and the reference (docs/parity.md)."""

    case: str
    """The computation that was compared: `fp64`, `fp32`, or an optimizer."""
    kind: str
    """The part of it: `forward`, `gradients`, `losses`, `update` and others."""
    value: float
    """The largest relative deviation."""
    tolerance: float
    """The largest that is tolerated."""


class EqualComputation(FindingsPart):
    """Whether a framework computes a network as the reference does."""

    network: str
    """The network."""
    framework: str
    """The framework; `framework@environment` where that is not the pinned one."""
    verdict: str
    """What its certificate says: `reference`, `equal`, `differs` or `not shown`."""
    why: str | None
    """The reason for the verdict."""
    reference: str | None
    """The framework that it was compared with; null without a certificate."""
    deviations: list[DeviationFromReference]
    """All deviations."""
    closest: DeviationFromReference | None
    """The deviation that uses most of its tolerance."""


class KnownDeviation(FindingsPart):
    """A place where a framework cannot do quite what a layer says."""

    framework: str
    """The framework; `framework@environment` where that is not the pinned one."""
    network: str
    """The network."""
    sentence: str
    """What it does instead."""


class LargestBatch(FindingsPart):
    """A search for the largest batch that fits into memory."""

    cell: str
    """The first cell for which the search holds."""
    max_batch_size: int | None
    """Images; null where the search ended without a number."""
    status: str
    """Outcome of the search."""
    reason: str | None
    """Why there is no number, or why it is only a bound."""
    limit: str
    """The limit of memory."""
    probes: int
    """Batch sizes that were tried."""


class Findings(FindingsPart):
    """All that a study shows.

    A number that cannot be had is null; NaN and infinity do not occur.
    """

    format: Literal[2]
    """Version of this file's format."""
    units: dict[str, str]
    """Unit of each metric, `1` for none. `step_time` is 1000 / `step_rate` of each run, ms."""
    answer: Answer
    """Which configuration is fastest."""
    disturbed: Disturbed | None
    """Null where other programs disturbed at most a third of the runs."""
    doubts: list[Doubt]
    """Other reasons not to trust the numbers."""
    outcomes: dict[str, int]
    """Runs by outcome."""
    flags: dict[str, int]
    """Runs by flag; comparisons for `different_machine`, and for `different_era` where no run has
    it."""
    cells: list[CellSummary]
    """Every cell of the study, in order of the plan."""
    metrics_without_values: dict[str, str]
    """Metrics that no training run has a value of, and why."""
    comparisons: list[ComparisonSummary]
    """Cells side by side; training first, then inference."""
    curves: list[Curve]
    """How batch size and threads change the speed of configurations that are compared at each of
    their values."""
    precision: list[PrecisionGain]
    """What precision changes."""
    styles: list[StyleGap]
    """What tuned code gains over plain code."""
    bottlenecks: list[Bottleneck]
    """What limits each cell that trains."""
    scaling: list[Scaling]
    """What several replicas gain."""
    peaks: list[PeakRates]
    """The peaks of the machine, as far as this study has basic operations."""
    choices: list[Choice]
    """What the mode `best` tried and chose."""
    failures: list[Failure]
    """Runs that are not ok."""
    equal_computation: list[EqualComputation]
    """For each network and framework, whether equal computation is proved."""
    known_deviations: list[KnownDeviation]
    """Known deviations of frameworks from the networks."""
    largest_batches: list[LargestBatch]
    """What `find_max_batch` found."""
    profiles: list[LayerProfile]
    """Where the time of training steps goes, as far as the study has `profile`."""
    setup: Setup
    """Machine, software and settings."""

    @model_validator(mode="after")
    def _of_its_cells(self) -> Self:
        for comparison in self.comparisons:
            for cell in comparison.cells:
                if cell.cell not in self.cell:
                    raise ValueError(f"comparisons: no cell is named {cell.cell}")
        return self

    @cached_property
    def cell(self) -> dict[str, CellSummary]:
        """The cells by name."""
        return {cell.name: cell for cell in self.cells}

    def cells_of(self, workload: Kind) -> list[CellSummary]:
        """The cells with one workload, in order of the plan."""
        return [cell for cell in self.cells if cell.workload == workload]
