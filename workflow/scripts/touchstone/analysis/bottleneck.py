"""What limits a cell's training speed: computing, reading, copying or launching.

A verdict needs two kinds of evidence that agree and none that disagrees; docs/bottleneck.md has
the formulas. `bottleneck_signs.py` computes the evidence.
"""

from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from touchstone.analysis import bottleneck_signs as signs
from touchstone.analysis.bottleneck_model import Bottleneck, BottleneckSign
from touchstone.analysis.bottleneck_signs import (
    COMPUTE_BOUND,
    COPY_BOUND,
    INPUT_BOUND,
    LAUNCH_BOUND,
    READING,
    Models,
    Sign,
)
from touchstone.analysis.groups import differing_by
from touchstone.analysis.peaks import Peak, peaks, place_of, share_of_peak, why_no_share
from touchstone.analysis.ratio import estimate
from touchstone.results.planned import FACTORS
from touchstone.results.study import Cell, Study
from touchstone.results.tables import counted
from touchstone.statistics.intervals import INDICATIVE_BELOW, Ratio

RESIDENT = ("memory", "synthetic")
"""The inputs whose examples wait where the steps take them from; the first is preferred."""
KINDS = 2
"""Kinds of evidence that a verdict needs."""
CANNOT_TELL = "cannot tell"
COLUMN_OF = {
    "reading": "input_share",
    "CPU time of reading": "cpu_time_of_reading",
    "PCIe link": "copy_share",
    "batch size": "launch_share",
    "idle GPU": "gpu_idle",
    "busy cores": "busy_cores",
    "context switches": "switches_per_core",
    "measured peak": "share_of_peak",
}
"""The column of the table by kind of evidence."""
OF_SPEED = ("batch size", "idle GPU", "busy cores", "measured peak", "context switches")
"""The kinds of evidence that tell computing from launching."""
COLUMNS = (
    *FACTORS,
    *("cell", "verdict", "why", "throughput", "resident_cell", "throughput_ratio", "low", "high"),
    *(f"{name}{end}" for name in COLUMN_OF.values() for end in ("", "_low", "_high")),
    *("cpu_utilization", "bottleneck", "flop_rate", "peak_flop_rate", "share_of_peak_missing"),
    "flags",
)


class Evidence(NamedTuple):
    """The numbers that a verdict rests on.

    `resident` is the cell that differs by input only and reads nothing, `ratio` this cell's
    throughput over its. `missing` says which kinds of evidence the study has not, and
    `share_missing` why there is no share of the peak.
    """

    signs: list[Sign]
    missing: list[str]
    resident: Cell | None
    ratio: Ratio | None
    peak: float | None
    peak_share: float | None
    share_missing: str

    def value(self, kind: str) -> float | None:
        """The number of one kind of evidence."""
        return next((sign.estimate.value for sign in self.signs if sign.kind == kind), None)

    @property
    def bottleneck(self) -> float | None:
        """The time in which what computes is held back by the rest of the machine: the larger
        of what reading costs and of the GPU's idle time, %."""
        shares = (self.value("reading"), self.value("idle GPU"))
        known = [share for share in shares if share is not None]
        return max(0.0, *known) if known else None


class Verdict(NamedTuple):
    """What limits a cell, and in words the evidence that decided or why there is no verdict.

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
    by_input = differing_by(cells, "input", "reader_threads")
    by_batch = differing_by(cells, "batch_size", "learning_rate", "epochs")
    known = signs.models(by_batch, by_input)
    inputs = {cell.plan.name: group for group in by_input for cell in group}
    sizes = {
        cell.plan.name: timed
        for group in by_batch
        for timed in [signs.by_size(group)]
        for cell in group
    }
    measured = peaks(study.operations)
    found = []
    for cell in cells:
        peak = measured.get(place_of(cell), Peak(None, None))
        evidence = _evidence(cell, inputs, sizes, known, peak)
        found.append(Verdict(cell, *_judged(cell, evidence), evidence))
    return found


def _evidence(
    cell: Cell,
    by_input: dict[str, list[Cell]],
    by_batch: dict[str, list[Cell]],
    known: Models,
    peak: Peak,
) -> Evidence:
    resident = _resident(cell, by_input.get(cell.plan.name, [])) if _reads(cell) else None
    ratio = known.by_input.ratio(cell, resident) if resident else None
    share = share_of_peak(cell, peak)
    why = why_no_share(cell, peak) if share is None else ""
    found = _signs_of_reading(cell, resident, ratio, known)
    of_speed, missing = _signs_of_speed(cell, resident, by_batch, known, peak)
    return Evidence([*found, *of_speed], missing, resident, ratio, peak.flops, share, why)


def _resident(cell: Cell, siblings: list[Cell]) -> Cell | None:
    """The cell that reads nothing, of those that differ by input only."""
    waiting = [one for name in RESIDENT for one in siblings if one.plan.factors["input"] == name]
    return next((one for one in waiting if one.values("throughput")), None)


def _reads(cell: Cell) -> bool:
    return cell.plan.factors["input"] not in RESIDENT


def _signs_of_reading(
    cell: Cell, resident: Cell | None, ratio: Ratio | None, known: Models
) -> list[Sign]:
    if resident is None or ratio is None:
        return []
    found = [signs.reading(ratio), signs.reading_on_cpu(known, cell, resident), signs.link(cell)]
    return [sign for sign in found if sign]


def _signs_of_speed(
    cell: Cell,
    resident: Cell | None,
    by_batch: dict[str, list[Cell]],
    known: Models,
    peak: Peak,
) -> tuple[list[Sign], list[str]]:
    """What tells computing from launching, and what is missing for it."""
    fixed = None
    for one in filter(None, (cell, resident)):  # reading may have no part in it
        fixed = fixed or signs.fixed_time(known, one, by_batch.get(one.plan.name, []))
    ratio = f"a batch size {signs.APART} times as large or small, in the same blocks"
    if cell.facet[2] == "gpu":
        reasons = dict.fromkeys(run.reasons.get("gpu_utilization", "") for run in cell.runs)
        idle = f"gpu_utilization ({'; '.join(filter(None, reasons))})"
        wanted = {ratio: fixed, idle: signs.idle_gpu(cell)}
    else:
        wanted = {ratio: fixed, "a run on two cores or more": signs.busy_cores(cell)}
    wanted[f"a gemm on the {place_of(cell).label}"] = signs.near_peak(cell, peak)
    found = [sign for sign in wanted.values() if sign]
    if cell.facet[2] != "gpu" and (switched := signs.switches(cell)):
        found.append(switched)
    return found, [what for what, sign in wanted.items() if not sign]


def _judged(cell: Cell, found: Evidence) -> tuple[str, str]:
    """The verdict, and the evidence that decided it or why there is none."""
    if not cell.values("throughput"):
        return CANNOT_TELL, f"no throughput: {', '.join(cell.words('throughput'))}"
    if len(cell.values("throughput")) < 2:
        return CANNOT_TELL, "missing: a second repeat, for intervals"
    if not _reads(cell):
        return _computing_or_launching(found)
    if found.ratio is None:
        return CANNOT_TELL, "missing: the same cell with input: memory, in the same blocks"
    cost = found.signs[0]
    if cost.points_to:
        return _held_by_input(found)
    if cost.estimate.high is not None and cost.estimate.high < READING:
        return _computing_or_launching(found)
    return CANNOT_TELL, f"{cost.text}, and the interval contains {READING:.0f} %{_trust([cost])}"


def _held_by_input(found: Evidence) -> tuple[str, str]:
    """Copying where the link is in use, else reading; a second kind of evidence must agree."""
    for bound in (COPY_BOUND, INPUT_BOUND):
        agree = [sign for sign in found.signs if bound in sign.points_to]
        link = any(sign.kind == "PCIe link" for sign in agree)
        if len(agree) >= KINDS and (bound == INPUT_BOUND or link):
            return bound, _because(agree)
    cost = found.signs[0]
    return CANNOT_TELL, f"only one kind of evidence: {cost.text}{_trust([cost])}"


def _computing_or_launching(found: Evidence) -> tuple[str, str]:
    launching, computing = (
        [sign for sign in found.signs if bound in sign.points_to and sign.kind in OF_SPEED]
        for bound in (LAUNCH_BOUND, COMPUTE_BOUND)
    )
    if launching and computing:
        return CANNOT_TELL, f"the evidence disagrees: {_because([*launching, *computing])}"
    agree = launching or computing
    bound = LAUNCH_BOUND if launching else COMPUTE_BOUND
    if len(agree) >= KINDS:
        return bound, _because(agree)
    parts = [f"only one kind of evidence that it is {bound}: {_because(agree)}"] if agree else []
    if open_ones := [sign for sign in found.signs if sign.kind in OF_SPEED and _is_open(sign)]:
        texts = "; ".join(sign.text for sign in open_ones)
        parts.append(f"the interval contains the limit: {texts}")
    if found.missing:
        parts.append(f"missing: {', '.join(found.missing)}")
    return CANNOT_TELL, "; ".join(parts) or "no evidence for one or the other"


def _is_open(sign: Sign) -> bool:
    _, _, low, high = sign.estimate
    return low is not None and high is not None and low <= sign.limit <= high


def _because(agree: list[Sign]) -> str:
    return "; ".join(sign.text for sign in agree) + _trust(agree)


def _trust(agree: Iterable[Sign]) -> str:
    """On how many blocks the evidence rests, and whether they are few."""
    n = min(sign.estimate.n for sign in agree)
    return f" (n = {n}{', indicative' if n < INDICATIVE_BELOW else ''})"


def rows(found: list[Verdict]) -> list[list[Any]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [_row(verdict) for verdict in found]


def _row(verdict: Verdict) -> list[Any]:
    cell, bound, why, found = verdict
    interval = found.ratio.interval() if found.ratio else None
    by_kind = {sign.kind: sign.estimate[1:] for sign in found.signs}
    return [
        *(cell.plan.factors[name] for name in FACTORS),
        *(cell.plan.name, bound, why, _median(cell, "throughput")),
        found.resident.plan.name if found.resident else None,
        found.ratio.value if found.ratio else None,
        *(interval or (None, None)),
        *(number for kind in COLUMN_OF for number in by_kind.get(kind, (None, None, None))),
        *(_median(cell, "cpu_utilization"), found.bottleneck),
        *(_median(cell, "flop_rate"), found.peak, found.share_missing or None),
        counted(cell.flags),
    ]


def _median(cell: Cell, metric: str) -> float | None:
    values = cell.values(metric)
    return median(values) if values else None


def summary(verdict: Verdict) -> Bottleneck:
    """A verdict as the findings have it."""
    found = verdict.evidence
    return Bottleneck(
        cell=verdict.cell.plan.name,
        verdict=verdict.bound,
        why=verdict.why,
        evidence=[_sign_summary(sign) for sign in found.signs],
        resident_cell=found.resident.plan.name if found.resident else None,
        throughput=estimate(found.ratio),
        input_share=found.value("reading"),
        copy_share=found.value("PCIe link"),
        launch_share=found.value("batch size"),
        gpu_idle=found.value("idle GPU"),
        bottleneck=found.bottleneck,
        peak_flop_rate=found.peak,
        share_of_peak=found.peak_share,
        share_of_peak_missing=found.share_missing or None,
    )


def _sign_summary(sign: Sign) -> BottleneckSign:
    n, value, low, high = sign.estimate
    return BottleneckSign(
        kind=sign.kind, unit=sign.unit, value=value, low=low, high=high, n=n, limit=sign.limit,
        points_to=list(sign.points_to), text=sign.text,
    )  # fmt: skip
