"""What limits a cell's training speed: computing, reading, copying or launching.

A verdict needs two kinds of evidence that agree and none that disagrees; docs/bottleneck.md has
the formulas. `bottleneck_signs.py` computes the evidence.
"""

from collections.abc import Iterable, Sequence

from touchstone.analysis import bottleneck_signs as signs
from touchstone.analysis.bottleneck_model import Bottleneck, BottleneckSign
from touchstone.analysis.bottleneck_signs import (
    COMPUTE_BOUND,
    COPY_BOUND,
    INPUT_BOUND,
    LAUNCH_BOUND,
    READING,
    Models,
)
from touchstone.analysis.findings_model import PeakRates
from touchstone.analysis.groups import differing_by
from touchstone.analysis.peaks import peaks, place_of, share_of_peak, why_no_share
from touchstone.analysis.ratio import estimate
from touchstone.results.study import Cell, Study
from touchstone.statistics.intervals import INDICATIVE_BELOW, Ratio

RESIDENT = ("memory", "synthetic")
"""The inputs whose examples wait where the steps take them from; the first is preferred."""
KINDS = 2
"""Kinds of evidence that a verdict needs."""
CANNOT_TELL = "cannot tell"
OF_SPEED = ("batch size", "idle GPU", "busy cores", "measured peak", "context switches")
"""The kinds of evidence that tell computing from launching."""


def bottlenecks(study: Study) -> list[Bottleneck]:
    """What limits every cell of the study that trains a network."""
    cells = study.trained.cells
    # A cell that reads nothing has no use for reader threads, so they may differ.
    by_input = differing_by(cells, "input", "reader_threads")
    by_batch = differing_by(cells, "batch_size", "learning_rate", "epochs")
    models = signs.models(by_batch, by_input)
    inputs = {cell.plan.name: group for group in by_input for cell in group}
    sizes = {
        cell.plan.name: timed
        for group in by_batch
        for timed in [signs.by_size(group)]
        for cell in group
    }
    measured = peaks(study.operations)
    return [
        _bottleneck(cell, inputs, sizes, models, measured.get(place_of(cell))) for cell in cells
    ]


def _bottleneck(
    cell: Cell,
    by_input: dict[str, list[Cell]],
    by_batch: dict[str, list[Cell]],
    models: Models,
    peak: PeakRates | None,
) -> Bottleneck:
    resident = _resident(cell, by_input.get(cell.plan.name, [])) if _reads(cell) else None
    ratio = models.by_input.ratio(cell, resident) if resident else None
    share = share_of_peak(cell, peak)
    of_reading = _signs_of_reading(cell, resident, ratio, models)
    of_speed, missing = _signs_of_speed(cell, resident, by_batch, models, peak)
    evidence = [*of_reading, *of_speed]
    verdict, why = _judged(cell, ratio, evidence, missing)
    values = {sign.kind: sign.value for sign in evidence}
    held_back = [values[kind] for kind in ("reading", "idle GPU") if kind in values]
    return Bottleneck(
        cell=cell.plan.name,
        verdict=verdict,
        why=why,
        evidence=evidence,
        resident_cell=resident.plan.name if resident else None,
        throughput=estimate(ratio),
        input_share=values.get("reading"),
        copy_share=values.get("PCIe link"),
        launch_share=values.get("batch size"),
        gpu_idle=values.get("idle GPU"),
        bottleneck=max(0.0, *held_back) if held_back else None,
        peak_flop_rate=peak.flop_rate if peak else None,
        share_of_peak=share,
        share_of_peak_missing=why_no_share(cell, peak) if share is None else None,
    )


def _resident(cell: Cell, siblings: list[Cell]) -> Cell | None:
    """The cell that reads nothing, of those that differ by input only."""
    cells = [other for name in RESIDENT for other in siblings if other.plan.settings.input == name]
    return next((other for other in cells if other.values("throughput")), None)


def _reads(cell: Cell) -> bool:
    return cell.plan.settings.input not in RESIDENT


def _signs_of_reading(
    cell: Cell, resident: Cell | None, ratio: Ratio | None, models: Models
) -> list[BottleneckSign]:
    if resident is None or ratio is None:
        return []
    of_reading = (
        signs.reading(ratio), signs.reading_on_cpu(models, cell, resident), signs.link(cell)
    )  # fmt: skip
    return [sign for sign in of_reading if sign]


def _signs_of_speed(
    cell: Cell,
    resident: Cell | None,
    by_batch: dict[str, list[Cell]],
    models: Models,
    peak: PeakRates | None,
) -> tuple[list[BottleneckSign], list[str]]:
    """What tells computing from launching, and what is missing for it."""
    fixed = None
    for timed in filter(None, (cell, resident)):  # reading may have no part in it
        fixed = fixed or signs.fixed_time(models, timed, by_batch.get(timed.plan.name, []))
    ratio = f"a batch size {signs.APART} times as large or small, in the same blocks"
    if cell.facet[2] == "gpu":
        reasons = dict.fromkeys(run.reasons.get("gpu_utilization", "") for run in cell.runs)
        idle = f"gpu_utilization ({'; '.join(filter(None, reasons))})"
        wanted = {ratio: fixed, idle: signs.idle_gpu(cell)}
    else:
        wanted = {ratio: fixed, "a run on two cores or more": signs.busy_cores(cell)}
    wanted[f"a gemm on the {place_of(cell).label}"] = signs.near_peak(cell, peak)
    of_speed = [sign for sign in wanted.values() if sign]
    if cell.facet[2] != "gpu" and (switched := signs.switches(cell)):
        of_speed.append(switched)
    return of_speed, [what for what, sign in wanted.items() if not sign]


def _judged(
    cell: Cell, ratio: Ratio | None, evidence: Sequence[BottleneckSign], missing: Sequence[str]
) -> tuple[str, str]:
    """The verdict, and the evidence that decided it or why there is none."""
    if not cell.values("throughput"):
        return CANNOT_TELL, f"no throughput: {', '.join(cell.words('throughput'))}"
    if len(cell.values("throughput")) < 2:
        return CANNOT_TELL, "missing: a second repeat, for intervals"
    if not _reads(cell):
        return _computing_or_launching(evidence, missing)
    if ratio is None:
        return CANNOT_TELL, "missing: the same cell with input: memory, in the same blocks"
    cost = evidence[0]
    if cost.points_to:
        return _held_by_input(evidence)
    if cost.high is not None and cost.high < READING:
        return _computing_or_launching(evidence, missing)
    return CANNOT_TELL, f"{cost.text}, and the interval contains {READING:.0f} %{_trust([cost])}"


def _held_by_input(evidence: Sequence[BottleneckSign]) -> tuple[str, str]:
    """Copying where the link is in use, else reading; a second kind of evidence must agree."""
    for bound in (COPY_BOUND, INPUT_BOUND):
        agree = [sign for sign in evidence if bound in sign.points_to]
        link = any(sign.kind == "PCIe link" for sign in agree)
        if len(agree) >= KINDS and (bound == INPUT_BOUND or link):
            return bound, _because(agree)
    cost = evidence[0]
    return CANNOT_TELL, f"only one kind of evidence: {cost.text}{_trust([cost])}"


def _computing_or_launching(
    evidence: Sequence[BottleneckSign], missing: Sequence[str]
) -> tuple[str, str]:
    launching, computing = (
        [sign for sign in evidence if bound in sign.points_to and sign.kind in OF_SPEED]
        for bound in (LAUNCH_BOUND, COMPUTE_BOUND)
    )
    if launching and computing:
        return CANNOT_TELL, f"the evidence disagrees: {_because([*launching, *computing])}"
    agree = launching or computing
    bound = LAUNCH_BOUND if launching else COMPUTE_BOUND
    if len(agree) >= KINDS:
        return bound, _because(agree)
    parts = [f"only one kind of evidence that it is {bound}: {_because(agree)}"] if agree else []
    if open_ones := [sign for sign in evidence if sign.kind in OF_SPEED and _is_open(sign)]:
        texts = "; ".join(sign.text for sign in open_ones)
        parts.append(f"the interval contains the limit: {texts}")
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    return CANNOT_TELL, "; ".join(parts) or "no evidence for one or the other"


def _is_open(sign: BottleneckSign) -> bool:
    return sign.low is not None and sign.high is not None and sign.low <= sign.limit <= sign.high


def _because(agree: list[BottleneckSign]) -> str:
    return "; ".join(sign.text for sign in agree) + _trust(agree)


def _trust(agree: Iterable[BottleneckSign]) -> str:
    """On how many blocks the evidence rests, and whether they are few."""
    n = min(sign.n for sign in agree)
    return f" (n = {n}{', indicative' if n < INDICATIVE_BELOW else ''})"
