"""The best rates that a study's basic operations reach, and what share of them others reach."""

from collections import defaultdict
from statistics import median
from typing import NamedTuple

from touchstone.analysis.findings_model import PeakRates
from touchstone.results.study import Cell, Study

GEMM, COPY = "gemm", "memory_copy"
"""The operations that saturate arithmetic and memory, if their shapes are large."""


class Place(NamedTuple):
    """What a peak is of; `threads` as planned, empty for all that a run may use."""

    device: str
    precision: str
    threads: int | None

    @property
    def label(self) -> str:
        """`CPU`, and what of it is not usual: `CPU, bf16, threads 1`."""
        words = [self.device.upper()] + [self.precision] * (self.precision != "fp32")
        return ", ".join(words + [f"threads {self.threads}"] * bool(self.threads))


def place_of(cell: Cell) -> Place:
    """Where a cell computes, and in which precision."""
    settings = cell.plan.settings
    return Place(settings.device, settings.precision, settings.threads)


def peaks(study: Study) -> dict[Place, PeakRates]:
    """The highest median rates by place, of any framework; a copy has no precision."""
    products: dict[Place, list[float]] = defaultdict(list)
    copies: dict[tuple[str, int | None], list[float]] = defaultdict(list)
    for cell in study.cells:
        place = place_of(cell)
        if cell.facet[0] == GEMM and (values := cell.values("flop_rate")):
            products[place].append(median(values))
        elif cell.facet[0] == COPY and (values := cell.values("memory_rate")):
            copies[place.device, place.threads].append(median(values))
    return {
        place: PeakRates(
            place=place.label,
            flop_rate=max(products[place], default=None),
            memory_rate=max(copies[place.device, place.threads], default=None),
        )
        for place in dict.fromkeys(map(place_of, study.cells))
    }


def share_of_peak(cell: Cell, peak: PeakRates | None) -> float | None:
    """Median rate / the place's peak x 100, of arithmetic, or of a copy of memory.

    Of training it is the model FLOP utilisation (Chowdhery et al. 2022, arXiv:2204.02311,
    appendix B), of the peak that was measured instead of the maker's; several GPUs have as many
    peaks, while replicas on a CPU share its cores; so have several nodes.
    """
    metric = "memory_rate" if cell.facet[0] == COPY else "flop_rate"
    most = getattr(peak, metric, None)
    values = cell.values(metric)
    rate = median(values) if values else 0.0
    return rate / (most * devices_of(cell)) * 100 if rate and most else None


def devices_of(cell: Cell) -> int:
    """How many times the peak of its place a cell may reach."""
    settings = cell.plan.settings
    return settings.world_size if settings.device == "gpu" else settings.nodes


def why_no_share(cell: Cell, peak: PeakRates | None) -> str:
    """Why a cell that trains a network has no share of the peak."""
    if peak is None or peak.flop_rate is None:
        return f"the study has no gemm on the {place_of(cell).label}"
    return f"no flop rate: {', '.join(cell.words('flop_rate'))}"
