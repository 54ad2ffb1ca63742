"""What a precision gains in speed and memory, and loses in accuracy (docs/precision.md)."""

from statistics import median

from touchstone.analysis.findings_model import PrecisionGain
from touchstone.analysis.groups import differing_by
from touchstone.analysis.ratio import estimate
from touchstone.results.study import Cell, Study
from touchstone.statistics.intervals import paired_difference, paired_ratio

REFERENCE = "fp32"
MEMORY = ("gpu_allocator_peak", "gpu_process_memory_peak", "host_memory_peak")
"""What is compared of memory, MiB: the first that both cells have."""


def gains(study: Study) -> list[PrecisionGain]:
    """For every cell that differs from another by precision only: compared with the one in
    fp32, or where there is none, the one that was planned first."""
    compared = []
    for group in differing_by(study.trained.cells, "precision"):
        single = [cell for cell in group if cell.plan.settings.precision == REFERENCE]
        reference = (single or group)[0]
        compared += [_gain(cell, reference) for cell in group if cell is not reference]
    return compared


def _gain(cell: Cell, reference: Cell) -> PrecisionGain:
    accuracy = paired_difference(
        cell.by_block("test_accuracy"), reference.by_block("test_accuracy")
    )
    metric = next((name for name in MEMORY if cell.values(name) and reference.values(name)), None)
    memory, reference_memory = (
        median(of.values(metric)) if metric else None for of in (cell, reference)
    )
    return PrecisionGain(
        cell=cell.plan.name,
        reference=reference.plan.name,
        throughput=estimate(
            paired_ratio(cell.by_block("throughput"), reference.by_block("throughput"))
        ),
        accuracy_change=accuracy.value if accuracy else None,
        accuracy_low=accuracy.low if accuracy else None,
        accuracy_high=accuracy.high if accuracy else None,
        memory_metric=metric,
        memory=memory,
        reference_memory=reference_memory,
        memory_ratio=memory / reference_memory if reference_memory and memory is not None else None,
    )
