"""The figures of a study: every run is a point, every missing number a word."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from touchstone.analysis.profile_model import LayerProfile
from touchstone.analysis.scaling import has_replicas
from touchstone.report.figures import operations, profile, scaling
from touchstone.report.figures.evaluations import draw_evaluations, evaluates, evaluation_texts
from touchstone.report.figures.losses import draw_losses, loss_texts
from touchstone.report.figures.memory import draw_memory, memory_texts
from touchstone.report.figures.panels import GRID, INK, NARROW, WIDTH
from touchstone.report.figures.phases import draw_phases, phases_texts
from touchstone.report.figures.points import (
    NOT_IN_TURN,
    POINT_FIGURES,
    InTurn,
    draw_points,
    point_texts,
)
from touchstone.report.figures.style import in_dark
from touchstone.results.study import Cell, Study

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # shipped with Matplotlib: the same on every machine
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": "#8A8A8A",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "touchstone",  # stable ids: the same study gives the same bytes
}
UNDATED: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
"""Metadata that Matplotlib writes and that would differ from day to day."""
COLOUR = re.compile(r'\b(fill|stroke)(?:: |=")(#[0-9a-f]{6})')
"""A colour in an SVG of Matplotlib, and what has it."""
PANELS, SERIES, BATCHES = 12, 12, 8
"""What a figure draws at most: so the figures of a study of any size can be read and loaded."""


@contextmanager
def drawing() -> Iterator[None]:
    """The style of all figures; drawing and saving both belong inside."""
    with mpl.rc_context(RC):
        yield


class Drawn(NamedTuple):
    """A figure of the report, its texts (`title`, `caption`, `alt`), and a version for a phone."""

    name: str
    figure: Figure
    texts: dict[str, str]
    narrow: Figure | None = None


def make_figures(
    study: Study, profiles: Sequence[LayerProfile] = (), in_turn: InTurn = NOT_IN_TURN
) -> Iterator[Drawn]:
    """The figures of the report; one of the `profiles` where there are any. `in_turn` has by cell
    its speeds in the sets of turns."""
    if profiles:
        figure = profile.draw(study, profiles)
        yield Drawn("profile", figure, profile.texts(study.trained, profiles))
    if (called := study.operations).cells:
        yield Drawn("operations", operations.draw(called), operations.texts(called))
    study = study.trained
    if has_replicas(study):
        yield Drawn("scaling", scaling.draw(study), scaling.texts(study))
    some, left_out = part_to_draw(study, lambda cell: cell.facet)
    for kind in POINT_FIGURES:
        texts = point_texts(some, kind, in_turn)
        texts["caption"] += left_out
        wide, narrow = (draw_points(some, kind, most, in_turn) for most in (WIDTH, NARROW))
        yield Drawn(kind.metric, wide, texts, narrow)
    texts = memory_texts(some, in_turn)
    texts["caption"] += left_out
    wide, narrow = (draw_memory(some, in_turn, most) for most in (WIDTH, NARROW))
    yield Drawn("memory_speed", wide, texts, narrow)
    yield Drawn("phases", draw_phases(study), phases_texts(study), draw_phases(study, NARROW))
    some, left_out = part_to_draw(study, lambda cell: (cell.facet, cell.batch_size))
    texts = loss_texts(some)
    texts["caption"] += left_out
    yield Drawn("training_loss", draw_losses(some), texts, draw_losses(some, NARROW))
    if evaluates(study):
        texts = evaluation_texts(some)
        texts["caption"] += left_out
        wide, narrow = (draw_evaluations(some, most) for most in (WIDTH, NARROW))
        yield Drawn("evaluations", wide, texts, narrow)


def part_to_draw(study: Study, panel: Callable[[Cell], Any]) -> tuple[Study, str]:
    """The part of a study that a figure draws, and a sentence on what it leaves out.

    The first series, batch sizes and panels are drawn, in order of the plan.
    """
    series = set(study.series[:SERIES])
    cells = [cell for cell in study.cells if cell.series in series]
    sizes: dict[Any, set[int]] = {}
    for cell in cells:
        sizes.setdefault(cell.facet, set()).add(cell.batch_size)
    cells = [c for c in cells if c.batch_size in sorted(sizes[c.facet])[:BATCHES]]
    panels = set(list(dict.fromkeys(map(panel, cells)))[:PANELS])
    cells = [cell for cell in cells if panel(cell) in panels]
    if len(cells) == len(study.cells):
        return study, ""
    return Study(cells), (
        f" Only {len(cells)} of {len(study.cells)} cells are drawn: at most {PANELS} panels,"
        f" {SERIES} series and {BATCHES} batch sizes, the first of each; the tables hold all."
    )


def render(figure: Figure, kinds: Iterable[str] = ("svg", "png")) -> dict[str, bytes]:
    """The figure as `svg` and `png` (160 dpi), without dates or versions.

    A browser shows the SVG in dark colours to readers who ask for these.
    """
    images = {}
    for kind in kinds:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=160, metadata=UNDATED[kind])
        images[kind] = buffer.getvalue()
        if kind == "svg":
            images[kind] = _with_dark_colours(images[kind].decode()).encode()
        figure.set_layout_engine(None)  # it is laid out now, which takes as long as to draw it
    return images


def _with_dark_colours(svg: str) -> str:
    """The SVG with rules that replace each of its colours on a dark screen.

    Matplotlib writes no fill where it is black.
    """
    rules = [f"svg {{fill: {in_dark('#000000')}}}"]
    for what, colour in sorted(set(COLOUR.findall(svg))):
        places = f'[style*="{what}: {colour}"], [{what}="{colour}"]'
        rules.append(f"{places} {{{what}: {in_dark(colour)} !important}}")
    lines = "\n".join(rules)
    style = f"\n@media screen and (prefers-color-scheme: dark) {{\n{lines}\n}}\n</style>"
    return svg.replace("</style>", style, 1)
