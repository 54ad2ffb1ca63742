"""What a precision gains in speed and memory, and loses in accuracy (docs/precision.md)."""

from statistics import median
from typing import NamedTuple

from touchstone.analysis.findings_model import PrecisionGain
from touchstone.analysis.groups import differing_by
from touchstone.analysis.ratio import estimate
from touchstone.results.planned import FACTORS
from touchstone.results.study import Cell, Study
from touchstone.results.tables import counted
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import Estimate, Ratio, paired_difference, paired_ratio

REFERENCE = "fp32"
MEMORY = ("gpu_allocator_peak", "gpu_process_memory_peak", "host_memory_peak")
"""What is compared of memory: the first that both cells have."""
COLUMNS = (
    *(name for name in FACTORS if name != "precision"),
    *("precision", "reference_precision", "cell", "reference_cell", "status", "n"),
    *("throughput_ratio", "low", "high", "verdict"),
    *("test_accuracy", "reference_test_accuracy", "accuracy_change", "accuracy_low"),
    *("accuracy_high", "memory_metric", "memory", "reference_memory", "memory_ratio", "flags"),
)


class Gain(NamedTuple):
    """A cell and the one that differs from it by precision only.

    `speed` is the ratio of throughputs, `accuracy` the difference of test accuracies, both
    within blocks; `memory` has the metric (MiB), the median of either cell and their ratio.
    """

    cell: Cell
    reference: Cell
    speed: Ratio | None
    accuracy: Estimate | None
    memory: tuple[str, float, float, float] | None


def gains(study: Study) -> list[Gain]:
    """For every cell that differs from another by precision only: compared with the one in
    fp32, or where there is none, the one that was planned first."""
    found = []
    for group in differing_by(study.trained.cells, "precision"):
        single = [cell for cell in group if cell.plan.factors["precision"] == REFERENCE]
        reference = (single or group)[0]
        found += [_gain(cell, reference) for cell in group if cell is not reference]
    return found


def _gain(cell: Cell, reference: Cell) -> Gain:
    speed = paired_ratio(cell.by_block("throughput"), reference.by_block("throughput"))
    accuracy = paired_difference(
        cell.by_block("test_accuracy"), reference.by_block("test_accuracy")
    )
    return Gain(cell, reference, speed, accuracy, _memory(cell, reference))


def _memory(cell: Cell, reference: Cell) -> tuple[str, float, float, float] | None:
    for metric in MEMORY:
        ours, theirs = cell.values(metric), reference.values(metric)
        if ours and theirs:
            medians = median(ours), median(theirs)
            return metric, *medians, medians[0] / medians[1]
    return None


def rows(found: list[Gain]) -> list[list[object]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [_row(gain) for gain in found]


def _row(gain: Gain) -> list[object]:
    cell, reference, speed, accuracy, memory = gain
    factors = cell.plan.factors
    interval = speed.interval() if speed else None
    return [
        *(factors[name] for name in FACTORS if name != "precision"),
        *(factors["precision"], reference.plan.factors["precision"]),
        *(cell.plan.name, reference.plan.name),
        counted((run.status for run in cell.runs), STATUSES),
        speed.n if speed else 0,
        speed.value if speed else None,
        *(interval or (None, None)),
        speed.verdict() if speed else None,
        *(_median(each, "test_accuracy") for each in (cell, reference)),
        *((accuracy.value, accuracy.low, accuracy.high) if accuracy else (None,) * 3),
        *(memory or (None,) * 4),
        counted(cell.flags),
    ]


def _median(cell: Cell, metric: str) -> float | None:
    values = cell.values(metric)
    return median(values) if values else None


def summary(gain: Gain) -> PrecisionGain:
    """A gain as the findings have it."""
    accuracy = gain.accuracy
    metric, memory, reference_memory, ratio = gain.memory or (None,) * 4
    return PrecisionGain(
        cell=gain.cell.plan.name,
        reference=gain.reference.plan.name,
        throughput=estimate(gain.speed),
        accuracy_change=accuracy.value if accuracy else None,
        accuracy_low=accuracy.low if accuracy else None,
        accuracy_high=accuracy.high if accuracy else None,
        memory_metric=metric,
        memory=memory,
        reference_memory=reference_memory,
        memory_ratio=ratio,
    )
