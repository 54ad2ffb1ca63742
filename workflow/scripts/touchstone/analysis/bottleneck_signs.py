"""The evidence for what limits a cell: each number with its interval, and what it points to.

docs/bottleneck.md has the formulas, and why the thresholds are what they are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from touchstone.analysis.bottleneck_model import BottleneckSign
from touchstone.analysis.findings_model import PeakRates
from touchstone.analysis.peaks import devices_of
from touchstone.results.flags import SWITCH_LIMIT
from touchstone.results.planned import MOST_COMPARED
from touchstone.results.study import Cell
from touchstone.statistics.groups import Group, compare_groups
from touchstone.statistics.intervals import Estimate, Ratio, mean_of, paired_ratio

INPUT_BOUND, COPY_BOUND = "input-bound", "copy-bound"
LAUNCH_BOUND, COMPUTE_BOUND = "launch-bound", "compute-bound"
READING = 10.0
"""Per cent of the time that reading costs where it holds a cell back."""
LINK = 50.0
"""Per cent of the PCIe link that is in use where copying holds back what reading does."""
FIXED = 50.0
"""Per cent of a step's time that is the same for every batch size where launching limits it."""
IDLE = 20.0
"""Per cent of the time in which the GPU runs no kernel where it waits for the host."""
BUSY = 80.0
"""Per cent of the time of its cores that a cell uses where computing limits it."""
NEAR_PEAK = 50.0
"""Per cent of the measured peak that a cell reaches where computing limits it."""
APART = 4
"""How many times as large the larger of two batch sizes is, at least, for the fixed time of a
step: the noise of the share grows as the sizes come together (docs/bottleneck.md)."""


def _sign(
    kind: str,
    estimate: Estimate,
    limit: float,
    text: str,
    above: tuple[str, ...] = (),
    below: tuple[str, ...] = (),
    unit: str = "%",
) -> BottleneckSign:
    """A sign that points to `above` or `below` where its interval is on that side of the limit.

    `{}` in the text is the number with its interval.
    """
    n, value, low, high = estimate
    number = f"{value:,.0f}" + " %" * (unit == "%")
    points: tuple[str, ...] = ()
    if low is not None and high is not None:
        number += f" [{low:,.0f}, {high:,.0f}]"
        points = above if low > limit else below if high < limit else ()
    return BottleneckSign(
        kind=kind, unit=unit, value=value, low=low, high=high, n=n, limit=limit,
        points_to=list(points), text=text.format(number),
    )  # fmt: skip


def _of_values(
    kind: str,
    values: Sequence[float],
    limit: float,
    text: str,
    above: tuple[str, ...],
    below: tuple[str, ...] = (),
    unit: str = "%",
) -> BottleneckSign | None:
    """A sign from one value of each run, or None without a value."""
    estimate = mean_of(values)
    return _sign(kind, estimate, limit, text, above, below, unit) if estimate else None


class Model(NamedTuple):
    """The models of the groups of cells, of one metric: by cell that of its group."""

    metric: str
    groups: dict[str, Group]

    def ratio(self, cell: Cell, other: Cell) -> Ratio | None:
        """Cell / other in the blocks of their group; in a large one, in those of the two only."""
        group = self.groups.get(cell.plan.name)
        if group is None:
            return paired_ratio(cell.by_block(self.metric), other.by_block(self.metric))
        return group.ratio(cell.plan.name, other.plan.name)


def model(groups: Sequence[list[Cell]], metric: str) -> Model:
    """One model of cells and blocks for each group; the noise is that of all groups together.

    A group of more than `MOST_COMPARED` cells has none: its time grows with their cube.
    """
    small = [group for group in groups if len(group) <= MOST_COMPARED]
    fits = compare_groups(
        [{cell.plan.name: cell.by_block(metric) for cell in group} for group in small]
    )
    pairs = zip(small, fits, strict=True)
    return Model(metric, {cell.plan.name: fitted for group, fitted in pairs for cell in group})


class Models(NamedTuple):
    """The models of what cells are compared by, for the evidence.

    `by_batch` and `by_input` are of the throughput; those that differ by input are also compared
    by the CPU time of an example and by the cores in use.
    """

    by_batch: Model
    by_input: Model
    cpu_time: Model
    cores: Model


def models(by_batch: Sequence[list[Cell]], by_input: Sequence[list[Cell]]) -> Models:
    """The models of the cells that differ by batch size, and of those that differ by input."""
    return Models(
        model(by_batch, "throughput"),
        model(by_input, "throughput"),
        model(by_input, "cpu_time_per_1000_images"),
        model(by_input, "cpu_cores"),
    )


def _estimate(ratio: Ratio, ends: Sequence[float], value: float) -> Estimate:
    """What is computed from a ratio, with what is computed from the ends of its interval."""
    return Estimate(ratio.n, value, *(sorted(ends) if ends else (None, None)))


def reading(ratio: Ratio) -> BottleneckSign:
    """What reading costs, from the throughput with reading / that without."""
    ends = [100 * (1 - end) for end in ratio.interval() or ()]
    estimate = _estimate(ratio, ends, 100 * (1 - ratio.value))
    text = "reading costs {} of the time"
    return _sign("reading", estimate, READING, text, (INPUT_BOUND, COPY_BOUND))


def reading_on_cpu(fitted: Models, cell: Cell, resident: Cell) -> BottleneckSign | None:
    """Where the kernel's own clock sees the cost of reading: more CPU time for an example, else
    cores that are in use for less of the time."""
    signs = []
    for metric, text in (
        (fitted.cpu_time, "an example takes {} more CPU time than without reading"),
        (fitted.cores, "the cores are in use for {} less of the time than without reading"),
    ):
        ratio = metric.ratio(cell, resident)
        if ratio is None:
            continue
        sense = 1 if metric is fitted.cpu_time else -1
        ends = [100 * sense * (end - 1) for end in ratio.interval() or ()]
        estimate = _estimate(ratio, ends, 100 * sense * (ratio.value - 1))
        signs.append(_sign("CPU time of reading", estimate, 0.0, text, (INPUT_BOUND,)))
    return next((sign for sign in signs if sign.points_to), signs[0] if signs else None)


def link(cell: Cell) -> BottleneckSign | None:
    """What the device received over PCIe / what its link can carry x 100."""
    links = {
        gpu["pcie_mb_per_s"]
        for run in cell.runs
        for gpu in run.provenance["machine"].get("gpus", [])
        if isinstance(gpu, dict) and "pcie_mb_per_s" in gpu
    }
    if len(links) != 1:
        return None
    rate = links.pop()
    used = [100 * value / rate for value in cell.values("gpu_pcie_rx")]
    return _of_values("PCIe link", used, LINK, "{} of the PCIe link is in use", (COPY_BOUND,))


def by_size(group: Sequence[Cell]) -> list[Cell]:
    """The cells that have a throughput, the smallest batch first."""
    return sorted((cell for cell in group if cell.values("throughput")), key=_batch_size)


def _batch_size(cell: Cell) -> int:
    return cell.batch_size


def fixed_time(fitted: Models, cell: Cell, timed: Sequence[Cell]) -> BottleneckSign | None:
    """The part of a step's time that is the same for every batch size, in per cent.

    With the times t and u of steps of b < c examples, t = f + b s and u = f + c s give
    f / t = (1 - q) c / (c - b) and f / u = (1 / q - 1) b / (c - b), where q is the throughput with
    b examples / that with c. The other size is the next one that is `APART` times as large, or the
    next one as small. None without one, and where no block has both. `timed` are the cells that
    differ by batch size, in the order of `by_size`.
    """
    other = _other_size(cell, timed)
    if other is None or not cell.values("throughput"):
        return None
    small, large = sorted((cell, other), key=_batch_size)
    ratio = fitted.by_batch.ratio(small, large)
    if ratio is None:
        return None
    b, c = small.batch_size, large.batch_size

    def share(q: float) -> float:
        part = (1 - q) * c if cell is small else (1 / q - 1) * b
        return 100 * part / (c - b)

    estimate = _estimate(ratio, [share(end) for end in ratio.interval() or ()], share(ratio.value))
    text = (
        "{} of a step's time is the same for every batch size (a step of"
        f" {c} takes {ratio.value * c / b:.1f} times as long as one of {b})"
    )
    return _sign("batch size", estimate, FIXED, text, (LAUNCH_BOUND,), (COMPUTE_BOUND,))


def _other_size(cell: Cell, timed: Sequence[Cell]) -> Cell | None:
    larger = bisect_left(timed, APART * cell.batch_size, key=_batch_size)
    if larger < len(timed):
        return timed[larger]
    smaller = bisect_right(timed, cell.batch_size // APART, key=_batch_size)
    return timed[smaller - 1] if smaller else None


def near_peak(cell: Cell, peak: PeakRates | None) -> BottleneckSign | None:
    """The arithmetic of the cell / the best matrix product in its place x 100."""
    if peak is None or peak.flop_rate is None:
        return None
    most = peak.flop_rate * devices_of(cell)
    shares = [100 * value / most for value in cell.values("flop_rate")]
    text = "it reaches {} of the measured peak"
    return _of_values("measured peak", shares, NEAR_PEAK, text, (COMPUTE_BOUND,))


def idle_gpu(cell: Cell) -> BottleneckSign | None:
    """The time in which the GPU runs no kernel, %."""
    idle = [100 - value for value in cell.values("gpu_utilization")]
    waits = (INPUT_BOUND, COPY_BOUND, LAUNCH_BOUND)
    text = "the GPU runs no kernel in {} of the time"
    return _of_values("idle GPU", idle, IDLE, text, waits, (COMPUTE_BOUND,))


def busy_cores(cell: Cell) -> BottleneckSign | None:
    """CPU time / time / cores of the run x 100; a single core is busy whatever limits the cell."""
    cores = _cores(cell)
    used = [100 * value / cores for value in cell.values("cpu_cores")] if cores > 1 else []
    text = f"its {cores} cores are busy for {{}} of the time"
    return _of_values("busy cores", used, BUSY, text, (COMPUTE_BOUND,), (LAUNCH_BOUND,))


def switches(cell: Cell) -> BottleneckSign | None:
    """Context switches a second and core: threads that sleep between operations cost time."""
    cores = _cores(cell) or 1
    rates = [value / cores for value in cell.values("context_switch_rate")]
    text = "its threads switch {} times a second and core"
    return _of_values("context switches", rates, SWITCH_LIMIT, text, (LAUNCH_BOUND,), unit="1/s")


def _cores(cell: Cell) -> int:
    """The cores that a run of the cell may use, on all of its nodes; 0 where no record says."""
    threads = [run.provenance.get("environment", {}).get("threads") for run in cell.runs]
    return max(filter(None, threads), default=0) * cell.plan.settings.nodes
