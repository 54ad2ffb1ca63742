"""Published figures beside measured ones, and their places in a study's own layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import isclose
from statistics import median

from touchstone.plan.model import Cell
from touchstone.plan.table import texts
from touchstone.published.claim_model import Where
from touchstone.published.dossier import Dossier, Layout
from touchstone.published.points import ACCURACIES, Level, Point, counterpart, level, matches
from touchstone.published.table import show
from touchstone.results.metrics import METRICS, words

NOT_IN_SOURCE = "not in the source"


@dataclass(frozen=True)
class Entry:
    """A published figure beside what was measured, both in `unit`; either may be missing.

    `factors` are the source's words where it has the figure. `values` are by block. `reason`
    says why nothing was measured, `remark` why nothing is published, or how that was read.
    `distinguishing` is what differs from another cell of ours at the same place. `changed` is why
    the two sides are not compared. `printed` is the figure with the source's own digits. `read_as`
    is our metric in words, where the source's is read as several in one unit.
    """

    name: str
    metric: str
    unit: str
    factors: Mapping[str, Level]
    published: float | None
    values: Mapping[int, float]
    reason: str | None
    remark: str | None
    flags: tuple[str, ...]
    cell: str | None
    line: int | None
    distinguishing: str = ""
    changed: str | None = None
    printed: str | None = None
    read_as: str = ""

    @property
    def measured(self) -> float | None:
        """The median of the runs."""
        return median(self.values.values()) if self.values else None

    @property
    def difference(self) -> float | None:
        """Measured - published."""
        if self.changed or self.measured is None or self.published is None:
            return None
        return self.measured - self.published

    @property
    def ratio(self) -> float | None:
        """Measured / published; accuracies have none, for a share has no natural zero."""
        if self.changed or self.metric in ACCURACIES:
            return None
        if self.measured is None or not self.published:
            return None
        return self.measured / self.published


def entries(
    published: Iterable[Point],
    measured: Sequence[Point],
    where: Where,
    also: Where | None,
    dossier: Dossier,
) -> list[Entry]:
    """What a table or figure shows: published figures `where`, and our cells in `also`.

    The latter have the source's words for their metric and factors, as far as it has any.
    """
    names = source_names(dossier)
    result: list[Entry] = []
    used: set[tuple[str, str | None]] = set()
    for point in published:
        row = point.row
        if row is None or point.reading is None:
            continue
        if not matches({**row.factors, "metric": row.metric}, where):
            continue
        partners, reason = counterpart(point, measured)
        used |= {(p.metric, p.cell) for p in partners}
        partner = partners[0] if len(partners) == 1 else None
        if len(partners) > 1:
            fitting = "; ".join(_differing([p.factors for p in partners]))
            reason = f"{len(partners)} cells of this study fit: {fitting}"
        value = next(iter(point.values.values()), None)
        result.append(_entry(point, partner, value, row.metric, row.factors, reason))
    if also is not None:
        shown = {e.metric for e in result} or set(names)
        senses = {r.metric: r.cells for readings in dossier.metrics.values() for r in readings}
        for point in measured:
            sense = senses.get(point.metric, {})
            if point.metric not in shown or not (
                matches({**point.factors, "metric": point.metric}, also)
                and matches(point.factors, sense)
            ):
                continue
            unused = point.metric.startswith("gpu_") and point.factors.get("device") == "cpu"
            if (point.metric, point.cell) not in used and not unused:
                factors = in_source_words(point.factors, dossier, result)
                result.append(_entry(point, point, None, names[point.metric], factors, None))
    alike = _read_alike(dossier)
    return [replace(e, read_as=words(e.metric) * (e.metric in alike)) for e in result]


def _read_alike(dossier: Dossier) -> set[str]:
    """Our metrics as which figures of the source are read beside another one of the same unit."""
    alike: set[str] = set()
    for readings in dossier.metrics.values():
        always = [r.metric for r in readings if not r.when and r.metric in METRICS]
        units = Counter(METRICS[metric].unit for metric in always)
        alike |= {metric for metric in always if units[METRICS[metric].unit] > 1}
    return alike


def _entry(
    point: Point, partner: Point | None, published: float | None, name: str,
    factors: Mapping[str, Level], reason: str | None,
) -> Entry:  # fmt: skip
    """Shares are shown in %, everything else in the unit that our metric has."""
    percent = point.unit == "1" and point.metric != "final_loss"
    factor = 100.0 if percent else 1.0
    values = partner.values if partner else {}
    unlike = point.reading.not_comparable if point.reading else None
    return Entry(
        name=name,
        metric=point.metric,
        unit="%" if percent else point.unit,
        factors=factors,
        published=None if published is None else published * factor,
        printed=_printed(point, None if published is None else published * factor),
        values={block: value * factor for block, value in values.items()},
        reason=reason or (partner.reason if partner else None),
        remark=_remark(point, published),
        flags=partner.flags if partner else (),
        cell=partner.cell if partner else None,
        line=point.row.line if point.row else None,
        changed=unlike or (partner.changed if partner else None),
    )


def _printed(point: Point, shown: float | None) -> str | None:
    """The source's own digits, thousands set apart, where its figure is shown in its unit."""
    if point.row is None or shown is None or not isclose(float(point.row.text), shown):
        return None
    return f"{Decimal(point.row.text):,f}"


def in_source_words(
    ours: Mapping[str, Level], dossier: Dossier, beside: Iterable[Entry] = ()
) -> dict[str, Level]:
    """Factors of a cell of ours that the source has not, in its words where rules tell them.

    Where a rule has several levels, it is the one that the source's figures `beside` it have which
    share the dossier's `each` with it, if they have only one of them.
    """
    factors = dict(ours)
    for rule in dossier.cells:
        if not rule.is_ or not matches(ours, dict(rule.is_)):
            continue
        for name, value in rule.when.items():
            if name in ("table", "metric"):
                continue
            levels = {level(name, v) for v in (value if isinstance(value, list) else [value])}
            if isinstance(value, list):
                alike = (
                    entry.factors.get(name)
                    for entry in beside
                    if entry.line is not None
                    and all(entry.factors.get(key) == factors.get(key) for key in dossier.each)
                )
                levels = set() if rule.missing else levels & set(alike)
            if len(levels) == 1:
                factors[name] = levels.pop()
    return factors


def _differing(cells: Sequence[Mapping[str, Level]]) -> list[str]:
    """Of each of these factors what the others have not, in words; a seed counts for nothing."""
    names = [
        name
        for name in dict.fromkeys(name for cell in cells for name in cell if name != "seed")
        if len({cell.get(name) for cell in cells}) > 1
    ]
    return [
        ", ".join(f"{words(name)} {show(cell[name])}" for name in names if name in cell)
        for cell in cells
    ]


def labels_that_differ(shown: Sequence[Entry], factors: Sequence[str]) -> list[Entry]:
    """The entries; cells of ours that share a place are labelled by how they differ.

    `factors` are those that make the place.
    """
    places: dict[tuple[str, ...], list[int]] = {}
    for i, entry in enumerate(shown):
        if entry.line is None:
            place = (entry.metric, *(label(entry, factor) for factor in factors))
            places.setdefault(place, []).append(i)
    result = list(shown)
    for group in places.values():
        differences = _differing([shown[i].factors for i in group])
        for i, what in zip(group, differences, strict=True):
            if what and all(factor in shown[i].factors or factor == "metric" for factor in factors):
                result[i] = replace(shown[i], remark=f"{shown[i].remark}; here with {what}")
            elif what:
                result[i] = replace(shown[i], distinguishing=what)
    return result


def _remark(point: Point, published: float | None) -> str | None:
    """Why there is no published figure, or in which reading it was taken."""
    if point.row is None:
        return NOT_IN_SOURCE
    if point.row.value is None:
        return point.row.note or "no figure"
    if published is None:
        return f"printed in {point.row.unit or 'no unit'}"
    return point.reading.why if point.reading else None


def source_names(dossier: Dossier) -> dict[str, str]:
    """The source's name of each of our metrics, and our own of those that it has not."""
    names: dict[str, str] = {}
    for name, readings in dossier.metrics.items():
        for reading in readings:
            names.setdefault(reading.metric, name)
    for metric in dossier.further:
        names.setdefault(metric, metric)
    return names


def not_comparable(entry: Entry) -> str:
    """Why two sides that are there are not compared, if they are not."""
    both = entry.measured is not None and entry.published is not None
    return f"not comparable: {entry.changed}" if entry.changed and both else ""


def label(entry: Entry, factor: str) -> str:
    """A factor of an entry in words, for the head of a row or column."""
    if factor == "metric":
        name = words(entry.name)
        read = f", read as {entry.read_as}" if entry.read_as not in ("", name) else ""
        return f"{name}{read} ({entry.unit or 'no unit'})"
    if factor in entry.factors:
        return show(entry.factors[factor])
    if entry.line is not None:
        return ""
    return f"here ({', '.join(filter(None, (str(entry.factors['device']), entry.distinguishing)))})"


def head(entry: Entry, factors: Sequence[str], layout: Layout | None = None) -> tuple[str, ...]:
    """The labels of an entry for some factors; what all that the source lacks are called, once.

    A table may have words of its own for them.
    """
    parts: list[str] = []
    for factor in factors:
        part = label(entry, factor)
        part = layout.word(factor, part) if layout else part
        parts.append("" if part in parts and factor not in entry.factors else part)
    return tuple(parts)


@dataclass(frozen=True)
class Pivot:
    """A table in its layout: heads, and by (row, column) the entries there; mostly one."""

    layout: Layout
    rows: list[tuple[str, ...]]
    columns: list[tuple[str, ...]]
    cells: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Entry]]
    entries: list[Entry]

    @property
    def blank(self) -> bool:
        """Whether a cell of the table has neither a figure nor a reason."""
        return len(self.cells) < len(self.rows) * len(self.columns)

    @property
    def lines(self) -> Iterator[tuple[tuple[str, ...], list[list[Entry]]]]:
        """Each row's head, and the entries in each of its columns."""
        for row in self.rows:
            yield row, [self.cells.get((row, column), []) for column in self.columns]


def pivot(layout: Layout, shown: list[Entry]) -> Pivot:
    """Lay entries out; rows and columns come in order of first use, those that begin alike
    together, numbers in their own."""
    cells: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Entry]] = {}
    for entry in shown:
        place = head(entry, layout.rows, layout), head(entry, layout.columns, layout)
        cells.setdefault(place, []).append(entry)
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    return Pivot(layout, _sorted(rows), _sorted(columns), cells, shown)


def _sorted(heads: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Heads that are only numbers in their order, others by the first use of each beginning."""
    try:
        return sorted(heads, key=lambda parts: [float(part) for part in parts])
    except ValueError:
        first: dict[tuple[str, ...], int] = {}
        for place, parts in enumerate(heads):
            for end in range(1, len(parts) + 1):
                first.setdefault(parts[:end], place)
        ends = range(1, len(heads[0]) + 1)
        return sorted(heads, key=lambda parts: [first[parts[:end]] for end in ends])


def changes(pairs: Iterable[tuple[Cell, Cell]]) -> dict[str, str]:
    """By setting, how the cells of a scale differ from those of the whole study, in words.

    `pairs` are (whole, scaled). A setting that a cell does not heed counts for nothing, and a seed
    neither: it tells stand-ins apart.
    """
    by_name: dict[str, dict[str, None]] = {}
    for whole, short in pairs:
        changed = texts(short)
        for name, value in texts(whole).items():
            if changed[name] != value and name != "seed":
                sides = f"{changed[name] or 'none'} for {value or 'none'}"
                by_name.setdefault(name, {})[sides] = None
    return {
        name: f"{name.replace('_', ' ')} {' and '.join(sides)}" for name, sides in by_name.items()
    }
