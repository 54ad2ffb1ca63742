"""What limits a cell's training speed: computing, reading, copying or launching.

docs/bottleneck.md has the formulas, and why the thresholds are what they are.
"""

from bisect import bisect_left, bisect_right
from statistics import median
from typing import Any, NamedTuple

from touchstone.analysis import findings_model
from touchstone.analysis.groups import differing_by
from touchstone.analysis.peaks import Peak, peaks, place_of, share_of_peak, why_no_share
from touchstone.analysis.ratio import estimate
from touchstone.results.study import Cell, Study
from touchstone.results.tables import FACTORS, counted
from touchstone.statistics.intervals import Ratio, paired_ratio

RESIDENT = ("memory", "synthetic")
"""The inputs whose examples wait where the steps take them from; the first is preferred."""
INPUT = 10.0
"""Per cent of the time that reading must cost, and be shown to cost, to hold a cell back."""
COPY = 50.0
"""Per cent of the PCIe link that is in use, from which copying holds back what reading does."""
LAUNCH = 50.0
"""Per cent of a step's time that does not depend on the batch size, from which on it counts."""
IDLE = 20.0
"""Per cent of the time in which the GPU runs no kernel, from which on it waits for the host."""
NEAR_PEAK = 50.0
"""Per cent of the measured peak, from which on a cell computes, whatever else is known."""
CANNOT_TELL = "cannot tell"
COLUMNS = (
    *FACTORS,
    *("cell", "verdict", "why", "throughput", "resident_cell", "throughput_ratio", "low", "high"),
    *("input_share", "copy_share", "launch_share", "gpu_idle", "cpu_utilization", "bottleneck"),
    *("flop_rate", "peak_flop_rate", "share_of_peak", "share_of_peak_missing", "flags"),
)


class Evidence(NamedTuple):
    """The numbers that a verdict rests on; shares are per cent, None where they cannot be had.

    `resident` is the cell that differs by input only and reads nothing, `ratio` this cell's
    throughput over its. `share_missing` says why there is no share of the peak.
    """

    resident: Cell | None
    ratio: Ratio | None
    copy_share: float | None
    launch_share: float | None
    gpu_idle: float | None
    peak: float | None
    peak_share: float | None
    share_missing: str

    @property
    def input_share(self) -> float | None:
        """Of the time of a step, what reading adds to it: 1 - throughput / throughput without."""
        return None if self.ratio is None else 100 * (1 - self.ratio.value)

    @property
    def bottleneck(self) -> float | None:
        """The time in which what computes is held back by the rest of the machine: the larger
        of what reading costs and of the GPU's idle time."""
        known = [share for share in (self.input_share, self.gpu_idle) if share is not None]
        return max(0.0, *known) if known else None


class Verdict(NamedTuple):
    """What limits a cell, and in words the numbers that decided or what is missing for a verdict.

    `bound` is `input-bound`, `copy-bound`, `launch-bound`, `compute-bound` or `CANNOT_TELL`.
    """

    cell: Cell
    bound: str
    why: str
    evidence: Evidence


def verdicts(study: Study) -> list[Verdict]:
    """The verdict on every cell of the study that trains a network."""
    cells = study.trained.cells
    # A cell that reads nothing has no use for reader threads, so they may differ.
    by_input = _by_name(differing_by(cells, "input", "reader_threads"))
    by_batch = {
        cell.plan.name: timed
        for group in differing_by(cells, "batch_size", "learning_rate", "epochs")
        for timed in [_timed_by_size(group)]
        for cell in group
    }
    measured = peaks(study.operations)
    found = []
    for cell in cells:
        evidence = _evidence(
            cell, by_input, by_batch, measured.get(place_of(cell), Peak(None, None))
        )
        found.append(Verdict(cell, *_judged(cell, evidence), evidence))
    return found


def _by_name(groups: list[list[Cell]]) -> dict[str, list[Cell]]:
    return {cell.plan.name: group for group in groups for cell in group}


def _evidence(
    cell: Cell, by_input: dict[str, list[Cell]], by_batch: dict[str, list[Cell]], peak: Peak
) -> Evidence:
    resident = ratio = None
    if _reads(cell):
        siblings = by_input.get(cell.plan.name, [])
        waiting = [c for i in RESIDENT for c in siblings if c.plan.factors["input"] == i]
        resident = next((c for c in waiting if c.values("throughput")), None)
        if resident:
            ratio = paired_ratio(cell.by_block("throughput"), resident.by_block("throughput"))
    launch = _launch_share(cell, by_batch.get(cell.plan.name, []))
    if launch is None and resident:
        launch = _launch_share(resident, by_batch.get(resident.plan.name, []))
    utilization = cell.values("gpu_utilization")
    share = share_of_peak(cell, peak)
    return Evidence(
        resident=resident,
        ratio=ratio,
        copy_share=_copy_share(cell),
        launch_share=launch,
        gpu_idle=100 - median(utilization) if utilization else None,
        peak=peak.flops,
        peak_share=share,
        share_missing=why_no_share(cell, peak) if share is None else "",
    )


def _reads(cell: Cell) -> bool:
    return cell.plan.factors["input"] not in RESIDENT


def _copy_share(cell: Cell) -> float | None:
    """What the device received over PCIe / what its link can carry x 100."""
    received = cell.values("gpu_pcie_rx")
    links = {
        gpu["pcie_mb_per_s"]
        for run in cell.runs
        for gpu in run.provenance["machine"].get("gpus", [])
        if isinstance(gpu, dict) and "pcie_mb_per_s" in gpu
    }
    return median(received) / links.pop() * 100 if received and len(links) == 1 else None


def _timed_by_size(group: list[Cell]) -> list[Cell]:
    """The cells that have a throughput, by their batch size."""
    return sorted((cell for cell in group if cell.values("throughput")), key=_batch_size)


def _batch_size(cell: Cell) -> int:
    return cell.batch_size


def _launch_share(cell: Cell, timed: list[Cell]) -> float | None:
    """The part of a step's time that is the same for every batch size, in per cent.

    With the times t and u of steps of b < c examples, t = f + b s and u = f + c s have
    f = (t c - u b) / (c - b). The other size is the next larger one, or of the largest the next
    smaller. `timed` are the cells that differ by batch size, as `_timed_by_size` has them.
    """
    if not cell.values("throughput"):
        return None
    larger = bisect_right(timed, cell.batch_size, key=_batch_size)
    smaller = bisect_left(timed, cell.batch_size, key=_batch_size) - 1
    if larger < len(timed):
        pair = (cell, timed[larger])
    elif smaller >= 0:
        pair = (timed[smaller], cell)
    else:
        return None
    (b, t), (c, u) = ((each.batch_size, _step(each)) for each in pair)
    fixed = (t * c - u * b) / (c - b)
    return min(max(fixed / _step(cell), 0.0), 1.0) * 100


def _step(cell: Cell) -> float:
    """Seconds of a step, by the median throughput."""
    return cell.batch_size / median(cell.values("throughput"))


def _judged(cell: Cell, found: Evidence) -> tuple[str, str]:
    """The verdict, and the numbers that decided it or what is missing for one."""
    if not cell.values("throughput"):
        return CANNOT_TELL, f"no throughput: {', '.join(cell.words('throughput'))}"
    on_gpu = cell.facet[2] == "gpu"
    if _reads(cell):
        if found.ratio is None:
            return CANNOT_TELL, "missing: the same cell with input: memory, in the same blocks"
        if found.ratio.error is None:
            return CANNOT_TELL, "missing: a second repeat, for the noise of what reading costs"
        share = found.input_share
        slower = found.ratio.verdict("throughput") == "slower"
        if share is not None and share >= INPUT and slower:
            return _held_by_input(found, share, on_gpu)
    if found.launch_share is not None and found.launch_share >= LAUNCH:
        share = found.launch_share
        return "launch-bound", f"{share:.0f} % of a step's time is the same for every batch size"
    if found.peak_share is not None and found.peak_share >= NEAR_PEAK:
        return "compute-bound", f"it reaches {found.peak_share:.0f} % of the measured peak"
    if on_gpu:
        return _on_gpu(cell, found)
    if found.launch_share is not None:
        share = found.launch_share
        return "compute-bound", f"{100 - share:.0f} % of a step's time grows with the batch size"
    return CANNOT_TELL, "missing: the same cell with another batch size"


def _held_by_input(found: Evidence, share: float, on_gpu: bool) -> tuple[str, str]:
    why = f"reading costs {share:.0f} % of the time"
    if not on_gpu:
        return "input-bound", why
    if found.copy_share is None:
        return "input-bound", f"{why}; how much of it is copying is not known"
    used = f"{found.copy_share:.0f} % of the PCIe link is in use"
    return ("copy-bound" if found.copy_share >= COPY else "input-bound"), f"{why}, and {used}"


def _on_gpu(cell: Cell, found: Evidence) -> tuple[str, str]:
    if found.gpu_idle is None:
        reasons = dict.fromkeys(run.reasons.get("gpu_utilization", "") for run in cell.runs)
        return CANNOT_TELL, f"missing: gpu_utilization ({'; '.join(filter(None, reasons))})"
    why = f"the GPU runs no kernel in {found.gpu_idle:.0f} % of the time"
    return ("launch-bound" if found.gpu_idle >= IDLE else "compute-bound"), why


def rows(found: list[Verdict]) -> list[list[Any]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [_row(verdict) for verdict in found]


def _row(verdict: Verdict) -> list[Any]:
    cell, bound, why, found = verdict
    interval = found.ratio.interval() if found.ratio else None
    return [
        *(cell.plan.factors[name] for name in FACTORS),
        *(cell.plan.name, bound, why, _median(cell, "throughput")),
        found.resident.plan.name if found.resident else None,
        found.ratio.value if found.ratio else None,
        *(interval or (None, None)),
        *(found.input_share, found.copy_share, found.launch_share, found.gpu_idle),
        *(_median(cell, "cpu_utilization"), found.bottleneck),
        *(_median(cell, "flop_rate"), found.peak, found.peak_share, found.share_missing or None),
        counted(cell.flags),
    ]


def _median(cell: Cell, metric: str) -> float | None:
    values = cell.values(metric)
    return median(values) if values else None


def summary(verdict: Verdict) -> findings_model.Bottleneck:
    """A verdict as the findings have it."""
    found = verdict.evidence
    return findings_model.Bottleneck(
        cell=verdict.cell.plan.name,
        verdict=verdict.bound,
        why=verdict.why,
        resident_cell=found.resident.plan.name if found.resident else None,
        throughput=estimate(found.ratio),
        input_share=found.input_share,
        copy_share=found.copy_share,
        launch_share=found.launch_share,
        gpu_idle=found.gpu_idle,
        bottleneck=found.bottleneck,
        peak_flop_rate=found.peak,
        share_of_peak=found.peak_share,
        share_of_peak_missing=found.share_missing or None,
    )
