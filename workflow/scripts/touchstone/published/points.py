"""Figures of one kind, published or measured: a metric's values by factors, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from touchstone import networks
from touchstone.analysis import bottleneck as analysis
from touchstone.datasets import catalogue
from touchstone.plan.model import Cell
from touchstone.plan.setting import OPERATION
from touchstone.published.claim_model import Where
from touchstone.published.dossier import PARAMETERS, Dossier, Reading, Sum, Total
from touchstone.published.table import NUMBERS, Row, Table, convert, show
from touchstone.results.interleaved import ADAPTIVE, Measured
from touchstone.results.metrics import METRICS
from touchstone.results.study import Cell as MeasuredCell
from touchstone.results.study import Study

Level = str | float

ALIKE = ("framework", "device", "precision")
"""The factors that a total's operations share."""
OPERATION_METRICS = (
    "step_rate", "flop_rate", "memory_rate", "algorithm_bandwidth", "bus_bandwidth", "deviation",
)  # fmt: skip
"""The metrics that a study shows of a basic operation, which trains nothing."""

ACCURACIES = ("test_accuracy", "training_accuracy")
SPEED = "throughput"
"""The metric that turns measure."""
BOTTLENECK = "bottleneck"
NO_BOTTLENECK = (
    "it takes a GPU's utilisation, or this cell with input: records beside the same one with"
    " input: memory"
)


class InterleavedSpeeds(NamedTuple):
    """What turns show of a cell: by set, its speed, examples/s.

    `group` is its place among the study's groups; `factor` multiplies the variance.
    """

    group: int
    speeds: Mapping[int, float]
    factor: float


@dataclass(frozen=True)
class Point:
    """A metric of a cell: its values by block (repeat), or the reason why there is none.

    A published figure has one value; `row` is its place, `reading` how it was taken, and
    `missing` why this workflow has nothing like it. A measured one has the name of its cell;
    `changed` is what the scale of the study changed, where no published figure is like it then.
    `exact` is a figure without noise: the parameters of a network. `in_turn` is there where the
    cell took turns, from which its ratios to the others of its group are then.
    """

    metric: str
    unit: str
    factors: Mapping[str, Level]
    values: Mapping[int, float]
    reason: str | None = None
    row: Row | None = None
    reading: Reading | None = None
    missing: str | None = None
    cell: str | None = None
    flags: tuple[str, ...] = ()
    changed: str | None = None
    exact: bool = False
    in_turn: InterleavedSpeeds | None = None


def level(name: str, value: Any) -> Level:
    """A factor's level as figures have it: a number or a text."""
    return float(value) if name in NUMBERS else str(value)


def factors_of(cell: Cell) -> dict[str, Level]:
    """The settings of a cell of ours as figures have them."""
    return {
        name: level(name, value)
        for name, value in cell.model_dump().items()
        if value is not None and not isinstance(value, list)
    }


def matches(factors: Mapping[str, Level], where: Where) -> bool:
    """Whether figures with these factors are among those `where`."""
    for name, wanted in where.items():
        levels = wanted if isinstance(wanted, list) else [wanted]
        if factors.get(name) not in [level(name, value) for value in levels]:
            return False
    return True


def published_points(table: Table, dossier: Dossier) -> list[Point]:
    """The figures of a published table, once for every one of our metrics that they are.

    With those that the dossier has computed from them.
    """
    points = []
    for row in table.rows:
        factors = dict(row.factors)
        missing = None
        for rule in dossier.cells:
            if matches({**row.factors, "metric": row.metric}, rule.when):
                factors |= {name: level(name, value) for name, value in rule.is_.items()}
                missing = missing or rule.missing
        for reading in dossier.metrics.get(row.metric, ()):
            if not matches({**row.factors, "metric": row.metric}, reading.when):
                continue
            unit = METRICS[reading.metric].unit if reading.metric in METRICS else row.unit
            value = row.value
            if value is not None and row.unit != unit:
                value = convert(value, reading.unit or row.unit, unit)
            reason = None if row.value is not None else row.note or "the source has no figure"
            values = {} if value is None else {1: value}
            points.append(
                Point(
                    reading.metric, unit, factors, values, reason, row, reading, missing
                )
            )  # fmt: skip
    points += _derived(table, dossier, points)
    return points + sums(points, dossier.sums)


def _derived(table: Table, dossier: Dossier, points: Sequence[Point]) -> list[Point]:
    """The figures that the dossier has computed from others of the same cell."""
    factors = {point.row.line: point.factors for point in points if point.row}
    figures = {(row.metric, row.where): row for row in table.rows if row.value}
    derived = []
    for formula in dossier.derived:
        for (metric, where), row in figures.items():
            other = figures.get((formula.per, where))
            if metric != formula.of or other is None or not row.value or not other.value:
                continue
            values = {1: row.value / other.value * formula.times}
            unit = METRICS[formula.metric].unit
            derived.append(Point(formula.metric, unit, factors[row.line], values, row=row))
    return derived


def gpu_of(cell: MeasuredCell) -> dict[str, Level]:
    """The GPU that a cell ran on: its name, and its generation (CUDA compute capability)."""
    for run in cell.runs:
        for gpu in run.provenance["machine"].get("gpus") or []:
            facts = {"gpu": gpu.get("name"), "generation": gpu.get("compute_capability")}
            return {name: str(value) for name, value in facts.items() if value}
    return {}


def measured_points(
    cells: Iterable[MeasuredCell], wholes: Mapping[str, Cell], metrics: Sequence[str]
) -> list[Point]:
    """The figures of a gathered study, under the settings of the whole study's cells.

    Args:
        wholes: by name of a cell, what it is in the whole study.
    """
    points = []
    for measured in cells:
        whole = wholes[measured.plan.name]
        factors = factors_of(whole) | (gpu_of(measured) if whole.device == "gpu" else {})
        flags = tuple(dict.fromkeys(measured.flags))
        for metric in metrics:
            if metric not in METRICS or (
                whole.kind == OPERATION and metric not in OPERATION_METRICS
            ):
                continue
            values = measured.by_block(metric)
            why = [run.reasons[metric] for run in measured.runs if metric in run.reasons]
            reason = None if values else "; ".join(dict.fromkeys(why)) or "no value"
            points.append(
                Point(
                    metric, METRICS[metric].unit, factors, values, reason,
                    cell=measured.plan.name, flags=flags,
                )
            )  # fmt: skip
    return points


def with_changed_labels(
    points: Iterable[Point], changed: Mapping[str, Mapping[str, str]]
) -> list[Point]:
    """Measured figures with what the scale of their study changed that keeps them from comparison.

    Args:
        changed: by cell and setting, the change in words.
    """
    labelled = []
    for point in points:
        change = changed.get(point.cell or "", {})
        metric = METRICS.get(point.metric)
        settings = metric.grows_with if metric else ()
        words = ", ".join(change[name] for name in settings if name in change)
        labelled.append(replace(point, changed=words or None))
    return labelled


def with_turns(points: Iterable[Point], turns: Iterable[Measured]) -> list[Point]:
    """Measured figures, of which throughputs have what turns show (docs/measuring.md)."""
    by_cell = {
        cell: InterleavedSpeeds(place, speeds, ADAPTIVE if group.adaptive else 1.0)
        for place, group in enumerate(turns)
        for cell, speeds in group.speeds.items()
    }
    return [
        replace(point, in_turn=by_cell.get(point.cell or "") if point.metric == SPEED else None)
        for point in points
    ]


def on_machine(points: Iterable[Point], name: str) -> list[Point]:
    """The figures with the machine that they were measured on."""
    return [replace(point, factors={**point.factors, "machine": name}) for point in points]


def totals(rates: Sequence[Point], wanted: Sequence[Total]) -> list[Point]:
    """The seconds that calls of operations, or steps of a network, take in all, in every block.

    A block counts that has all of them; `cell` names them all.

    Args:
        rates: the step rates of cells.
    """
    figures = []
    for total in wanted:
        groups: dict[tuple[str, ...], list[Point]] = {}
        for point in rates:
            if matches(point.factors, total.where):
                place = tuple(str(point.factors[name]) for name in ALIKE)
                groups.setdefault(place, []).append(point)
        for place, group in groups.items():
            blocks = set.intersection(*(set(point.values) for point in group))
            values = {
                b: sum(total.times / point.values[b] for point in group) for b in sorted(blocks)
            }
            why = [f"{point.cell}: {point.reason}" for point in group if point.reason]
            factors: dict[str, Level] = dict(zip(ALIKE, place, strict=True))
            factors |= {name: level(name, value) for name, value in total.is_.items()}
            figures.append(
                Point(
                    total.metric, "s", factors, values,
                    None if values else "; ".join(why) or "no repeat has every one of them",
                    cell="; ".join(str(point.cell) for point in group),
                    flags=tuple(dict.fromkeys(flag for point in group for flag in point.flags)),
                )
            )  # fmt: skip
    return figures


def sums(points: Sequence[Point], wanted: Iterable[Sum]) -> list[Point]:
    """The figures that are sums of others, in the blocks that have all parts.

    Parts are of one setting: they share every factor that the sum says they must.
    """
    figures = []
    for total in wanted:
        parts: list[dict[tuple[Level | None, ...], Point]] = []
        for part in total.parts:
            where = {name: value for name, value in part.items() if name != "metric"}
            parts.append(
                {
                    tuple(point.factors.get(name) for name in total.alike): point
                    for point in points
                    if point.metric == part["metric"] and matches(point.factors, where)
                }
            )
        for place in parts[0]:
            group = [part[place] for part in parts if place in part]
            if len(group) < len(parts):
                continue
            blocks = sorted(set.intersection(*(set(point.values) for point in group)))
            values = {b: sum(point.values[b] for point in group) for b in blocks}
            why = [point.reason for point in group if point.reason]
            factors = {name: v for name, v in zip(total.alike, place, strict=True) if v is not None}
            factors |= {name: level(name, value) for name, value in total.is_.items()}
            figures.append(
                Point(
                    total.metric, group[0].unit, factors, values,
                    None if values else "; ".join(why) or "no repeat has every one of them",
                    row=group[0].row,
                    cell="; ".join(dict.fromkeys(str(p.cell) for p in group if p.cell)) or None,
                )
            )  # fmt: skip
    return figures


def parameter_counts(cells: Iterable[Cell], folder: Path) -> list[Point]:
    """How many parameters the network of each cell has: counted, so without noise.

    Args:
        folder: of the descriptions of data sets, which say the shape of the input and the classes.
    """
    counts: dict[tuple[str, str], int] = {}
    points = []
    for cell in cells:
        if cell.kind == OPERATION:
            continue
        key = cell.network, cell.dataset
        if key not in counts:
            data = catalogue.load(cell.dataset, folder)
            graph = networks.build(cell.network, tuple(data.shape), len(data.classes))
            counts[key] = graph.parameter_count
        values = {1: float(counts[key])}
        points.append(Point(PARAMETERS, "parameters", factors_of(cell), values, exact=True))
    return points


def bottlenecks(study: Study, wholes: Mapping[str, Cell]) -> list[Point]:
    """In how much of its time each cell that trains is held back (docs/bottleneck.md), in %.

    Args:
        wholes: by name of a cell, what it is in the whole study.
    """
    measured = {cell.plan.name: cell for cell in study.cells}
    points = []
    for bottleneck in analysis.bottlenecks(study):
        share = bottleneck.bottleneck
        points.append(
            Point(
                BOTTLENECK, "%", factors_of(wholes[bottleneck.cell]),
                {} if share is None else {1: share},
                NO_BOTTLENECK if share is None else None, cell=bottleneck.cell,
                flags=tuple(dict.fromkeys(measured[bottleneck.cell].flags)),
            )
        )  # fmt: skip
    return points


def counterpart(point: Point, measured: Sequence[Point]) -> tuple[list[Point], str | None]:
    """The measured figures that a published one is compared with, and why there is none."""
    settings = {name: value for name, value in point.factors.items() if name in Cell.model_fields}
    if point.missing:
        return [], point.missing
    if not any(p.metric == point.metric for p in measured) and point.metric not in METRICS:
        return [], "this workflow does not measure it"
    partners = [
        p
        for p in measured
        if p.metric == point.metric
        and all(p.factors.get(name) == value for name, value in settings.items())
    ]
    if partners:
        return partners, None
    for name, value in settings.items():
        if not any(p.factors.get(name) == value for p in measured):
            return [], f"no cell with {name.replace('_', ' ')} {show(value)} in this study"
    return [], "no such cell in this study"
