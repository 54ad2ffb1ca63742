"""The page of a published study, its tables and its figures, from what was gathered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup
from matplotlib.figure import Figure

from touchstone.analysis.again import Kept
from touchstone.analysis.cells import summaries
from touchstone.analysis.doubts import disturbed_runs, doubts
from touchstone.analysis.findings_model import StyleGap
from touchstone.analysis.peaks import peaks
from touchstone.paths import ROOT
from touchstone.plan.model import Cell
from touchstone.published import machine as machine_tables
from touchstone.published.arithmetic import CONTRADICTION, Finding, examine
from touchstone.published.claims import BY_MAGNITUDE, STAND_IN
from touchstone.published.dossier import PARAMETERS, Curves, Dossier, FigureSpec
from touchstone.published.entries import (
    Entry,
    Pivot,
    changes,
    entries,
    label,
    labels_that_differ,
    pivot,
    source_names,
)
from touchstone.published.exports import (
    BLANK,
    Notes,
    as_csv,
    as_latex,
    as_markdown,
    dashed,
    joined,
    sort_key,
    texts,
)
from touchstone.published.figures import caption, curves_caption, draw, draw_curves
from touchstone.published.numbers_said import MAGNITUDE
from touchstone.published.points import (
    BOTTLENECK,
    Level,
    Point,
    bottlenecks,
    factors_of,
    matches,
    measured_points,
    on_machine,
    parameter_counts,
    published_points,
    sums,
    totals,
    with_changed_labels,
    with_turns,
)
from touchstone.published.table import Table, number, show
from touchstone.published.verdicts import Verdict, summary, verdicts_on
from touchstone.published.verdicts import as_csv as verdicts_csv
from touchstone.report.figures.render import drawing, render
from touchstone.report.inline import data_uri
from touchstone.report.rendering import templates
from touchstone.report.sections.warnings import warnings
from touchstone.report.text import full_label, interval_text, ratio_text
from touchstone.results.interleaved import Measured
from touchstone.results.metrics import words
from touchstone.results.study import Cell as MeasuredCell
from touchstone.results.study import Study, describe_machine, machines

HERE = Path(__file__).parent
THIS_MACHINE = "this machine"
SHEET_FILES = {
    "csv": machine_tables.as_csv,
    "md": machine_tables.as_markdown,
    "tex": machine_tables.as_latex,
}
"""How a table of the machine is written, by the end of its file's name."""


class PageTable(NamedTuple):
    """A table with its notes and the sentences below it."""

    pivot: Pivot
    said: list[str]
    notes: Notes


class PageFigure(NamedTuple):
    """A figure of the page."""

    id: str
    title: str
    caption: str
    alt: str
    data: str
    number: str | None


class Result(NamedTuple):
    """All that a study's rule writes: file contents by name under its folder, and the page."""

    files: dict[str, str | bytes]
    page: str


class OtherMachine(NamedTuple):
    """What another machine measured of the study."""

    name: str
    study: Study


def make(
    title: str, kept: Kept, scale: str, repeats: tuple[int, int], table: Table, dossier: Dossier,
    study: Study, wholes: Mapping[str, Cell], folder: str,
    others: Sequence[OtherMachine] = (), turns: Sequence[Measured] = (),
    gaps: Sequence[StyleGap] = (), left_out: int = 0,
) -> Result:  # fmt: skip
    """Judge, tabulate and draw a study.

    Args:
        kept: the study's configuration, with which runs are repeated.
        scale: of the study; `repeats` are those of the whole study, and these.
        wholes: by name of a planned cell, what it is in the whole study.
        folder: where the page finds the files.
        others: what other machines measured of the study; it counts for its claims only.
        turns: what the groups of cells show that were measured in turn.
        gaps: what tuned code gains over plain code in the study.
        left_out: cells of the whole study that its scale has not.
    """
    published = published_points(table, dossier)
    names = source_names(dossier)
    measured = with_turns(_measured(dossier, study, wholes), turns)
    planned = (cell.plan for cell in study.cells)
    by_cell = {plan.name: (wholes[plan.name], plan.settings) for plan in planned}
    changed = {name: changes([pair]) for name, pair in by_cell.items()}
    measured = with_changed_labels(measured, changed)
    judged = measured + sums(measured, dossier.sums)
    if others:
        judged = on_machine(judged, THIS_MACHINE)
    for other in others:
        theirs = _measured(dossier, other.study, wholes)
        judged += on_machine(theirs + sums(theirs, dossier.sums), other.name)
    claims = verdicts_on(dossier.claims, judged, published, changed)
    findings = examine(table)
    shown = [point for point in measured if point.metric in names]

    page_tables, files = [], dict[str, str | bytes]()
    for layout in dossier.tables:
        factors = [*layout.rows, *layout.columns]
        contents = entries(published, shown, layout.where, layout.also, dossier)
        contents = labels_that_differ(contents, factors)
        pivoted = pivot(layout, contents)
        said = [*_said(contents, by_cell, scale, repeats), *([BLANK] if pivoted.blank else [])]
        page_tables.append(PageTable(pivoted, said, Notes()))
        place = f"tables/{layout.id}"
        files[f"{place}.csv"] = as_csv(contents, factors)
        files[f"{place}.md"] = as_markdown(page_tables[-1].pivot, said)
        files[f"{place}.tex"] = as_latex(page_tables[-1].pivot, said)
    context = machine_tables.Context(study, wholes, published, dossier)
    sheets = [machine_tables.sheet(form, context) for form in dossier.machine]
    for sheet in sheets:
        for kind, make_text in SHEET_FILES.items():
            files[f"tables/{sheet.table.id}.{kind}"] = make_text(sheet)
    files["claims.csv"] = verdicts_csv(claims)

    machine = "; ".join(map(describe_machine, machines(study)))
    figures: list[PageFigure] = []

    def add(spec: FigureSpec | Curves, image: Figure, text: str, alt: str) -> None:
        images = render(image)
        files.update({f"figures/{spec.id}.{kind}": file for kind, file in images.items()})
        title, data = _titled(spec), data_uri(images["svg"].decode())
        figures.append(PageFigure(spec.id, title, text, f"{title}: {alt}", data, spec.number))

    with drawing():
        for spec, where in _figures(dossier, table):
            contents = [
                entry
                for entry in entries(published, shown, where, spec.also, dossier)
                if entry.metric == spec.metric
                and all(label(entry, name) == where[name] for name in dossier.each)
            ]
            if not contents:
                continue
            contents = labels_that_differ(contents, [spec.x, spec.series])
            said = _said(contents, by_cell, scale, repeats)
            text = " ".join([caption(spec, contents, CLOCKS.get(spec.metric, ""), machine), *said])
            alt = "published left, measured right; the tables have the numbers"
            add(spec, draw(spec, contents), text, alt)
        for curves in dossier.curves:
            if lines := _curves(curves, study, wholes):
                changed_here = changes([by_cell[cell.plan.name] for _, cell in lines])
                said = [_all_changes(changed_here, scale, repeats)]
                text = " ".join([curves_caption(curves, lines, machine), *filter(None, said)])
                add(curves, draw_curves(curves, lines), text, "a line for each run measured here")

    environment = templates(HERE)
    environment.globals["cited"] = partial(
        cited, figures={figure.number: figure.id for figure in figures[::-1] if figure.number}
    )
    for function in (texts, sort_key, dashed, joined, words, full_label, ratio_text, interval_text):
        environment.globals[function.__name__] = function
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.grade, finding.check), []).append(finding)
    dates = sorted(run.provenance["started"][:10] for run in study.runs)
    page = environment.get_template("page.html.j2").render(
        title=title,
        table=table,
        machine=machine,
        runs=len(study.runs),
        warnings=warnings(disturbed_runs(study), doubts(study), kept),
        dates=dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
        answer=[
            *reached(study),
            *taken_in_turn(turns),
            *answer(
                claims, findings, _all_changes(changes(by_cell.values()), scale, repeats, left_out)
            ),
        ],
        claims=claims,
        stand_in=STAND_IN,
        magnitude=BY_MAGNITUDE,
        roughly=number(MAGNITUDE),
        gaps=gaps,
        cells={cell.name: cell for cell in summaries(study, {}, {})} if gaps else {},
        comparable=dossier.comparable,
        left_out=dossier.left_out,
        sheets=sheets,
        tables=page_tables,
        figures=figures,
        findings=grouped,
        folder=folder,
    )
    return Result(files, page)


def taken_in_turn(turns: Sequence[Measured]) -> list[str]:
    """Which ratios are from turns, in a sentence; none where there were none."""
    if not turns:
        return []
    disturbed = sum(group.disturbed > 0 for group in turns)
    text = (
        f"The configurations of {len(turns)} comparison{'s' * (len(turns) > 1)} also took turns:"
        " ratios between their throughputs are from there, not from their runs"
        " (docs/measuring.md)."
    )
    return [text + f" Other programs disturbed the turns of {disturbed}." * (disturbed > 0)]


CLOCKS = {
    "throughput": "Measured: all examples of the measured phase / its time (monotonic clock).",
    "step_rate": "Measured: all steps of the measured phase / its time (monotonic clock).",
    "training_time": "Measured: from the first step to the last (monotonic clock).",
    "total_training_time": "Measured: from the first step to the end of the last evaluation.",
    "test_accuracy": "Measured: correct / all test examples, after the last epoch.",
    "training_accuracy": "Measured: correct / all training examples, after the last epoch.",
    "cpu_utilization": "Measured: CPU time of the process tree / (time x logical cores).",
    "host_memory": "Measured: mean proportional set size of the process tree.",
}
"""How a figure's numbers were taken, in a sentence."""


def reached(study: Study) -> list[str]:
    """What the machine reached at best in the basic operations, if the study has those."""
    kinds = [("GFLOP/s in matrix products", "flop_rate"), ("GB/s in copies", "memory_rate")]
    by_place = {
        place._replace(device=place.device.upper()).label: [
            f"{number(rate)} {what}" for what, key in kinds if (rate := getattr(peak, key))
        ]
        for place, peak in peaks(study.operations).items()
    }
    said = [f"{' and '.join(rates)} on the {place}" for place, rates in by_place.items() if rates]
    return [f"This machine reached {'; '.join(said)}."] if said else []


def answer(claims: Sequence[Verdict], findings: Sequence[Finding], said: str) -> list[str]:
    """The page's first sentences: what became of the claims, here and by their own figures."""
    sentences = summary(claims)
    wrong = sum(finding.grade == CONTRADICTION for finding in findings)
    if wrong:
        sentences.append(
            f"Arithmetic finds {wrong} contradictions in the published table, listed below."
        )
    if said:
        sentences.append(said)
    return sentences


def _said(
    contents: Sequence[Entry], by_cell: Mapping[str, tuple[Cell, Cell]], scale: str,
    repeats: tuple[int, int],
) -> list[str]:  # fmt: skip
    """What a table must say of the scale that it was made at."""
    pairs = [by_cell[name] for entry in contents if entry.cell for name in entry.cell.split("; ")]
    text = _all_changes(changes(pairs), scale, repeats) if pairs else ""
    return [text] if text else []


def _all_changes(
    changed: Mapping[str, str], scale: str, repeats: tuple[int, int], left_out: int = 0
) -> str:
    changes_made = list(changed.values())
    if repeats[0] != repeats[1]:
        changes_made.append(f"repeats {repeats[1]} for {repeats[0]}")
    if left_out:
        changes_made.append(f"{left_out} configurations left out")
    if not changes_made:
        return ""
    return f"This is not the whole study but its scale {scale!r}: {'; '.join(changes_made)}."


def _figures(dossier: Dossier, table: Table) -> Iterator[tuple[FigureSpec, dict[str, Any]]]:
    """Each figure with the published figures that it shows, once for every level of `each`."""
    if not dossier.each:
        for spec in dossier.figures:
            yield spec, dict(spec.where)
        return
    levels = list(
        dict.fromkeys(
            tuple(show(row.factors[name]) for name in dossier.each)
            for row in table.rows
            if all(name in row.factors for name in dossier.each)
        )
    )
    for values, spec in product(levels, dossier.figures):
        levels_of = dict(zip(dossier.each, values, strict=True))
        where = ", ".join(values)
        changed = {"id": "-".join([*values, spec.id]), "title": f"{spec.title}: {where}"}
        for section in dossier.sections:
            if spec.number and section.when == levels_of:
                changed["number"] = f"{section.number}.{spec.number}"
                changed["title"] = f"{spec.title}, {where}"
        yield spec.model_copy(update=changed), {**spec.where, **levels_of}


def _titled(spec: FigureSpec | Curves) -> str:
    """The title of a figure, with its number in the source if it has one."""
    return f"Figure {spec.number}: {spec.title}" if spec.number else spec.title


def cited(source: str, figures: Mapping[str, str]) -> Markup:
    """The place of a claim in the source, its figures linked to those of the page.

    Args:
        figures: by number, what the page calls each.
    """
    parts = re.split(r"(\bfigure [0-9.]+[a-z]?)", source)
    links = {f"figure {number}": name for number, name in figures.items()}
    return Markup("").join(
        Markup('<a href="#{}">{}</a>').format(links[part], part) if part in links else part
        for part in parts
    )


def _curves(
    spec: Curves, study: Study, wholes: Mapping[str, Cell]
) -> list[tuple[Level, MeasuredCell]]:
    """The cells whose losses a figure shows, each with its level, in the order of levels."""
    curves = []
    for cell in study.cells:
        factors = factors_of(wholes[cell.plan.name])
        if matches(factors, spec.where):
            curves.append((factors[spec.series], cell))
    return sorted(curves, key=lambda curve: float(curve[0]))


def _measured(dossier: Dossier, study: Study, wholes: Mapping[str, Cell]) -> list[Point]:
    """The figures of one machine: those that tables show, and those that claims are about."""
    names = source_names(dossier)
    others = {*dossier.claimed, *(derived.metric for derived in dossier.derived)} - names.keys()
    points = measured_points(study.cells, wholes, [*names, *sorted(others)])
    if PARAMETERS in others:
        points += parameter_counts(wholes.values(), ROOT / "config/datasets")
    points += totals(measured_points(study.cells, wholes, ["step_rate"]), dossier.totals)
    if BOTTLENECK in names:
        points += bottlenecks(study, wholes)
    return points
