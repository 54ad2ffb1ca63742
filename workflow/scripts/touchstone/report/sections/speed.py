"""Speeds compared, what `best` chose, and what several replicas gain."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from touchstone.analysis.findings_model import CellSummary, Choice, Findings, Scaling, TrialSummary
from touchstone.analysis.part import UNIT_OF, RatioEstimate
from touchstone.analysis.ranking_model import ComparedCell, ComparedPair, ComparisonSummary
from touchstone.report.table import (
    Column,
    Table,
    TableCell,
    below,
    detectable,
    place_columns,
    ratio_cell,
    stack_name,
    verdict_cell,
)
from touchstone.report.text import (
    counts_text,
    full_label,
    interval_text,
    missing_words,
    number,
    ratio_text,
    relative_text,
    row_name,
    setting_of,
)
from touchstone.results.metrics import SPEED_OF
from touchstone.schema.status import STATUSES

NOT_COMPARED = TableCell("not compared", "text word")


def view(findings: Findings) -> dict[str, Any]:
    """The tables of comparisons, of styles and of scaling."""
    return {
        "compared": _compared(findings),
        "pairs": _pairs(findings),
        "in_turn": _in_turn(findings),
        "style_gaps": _style_gaps(findings),
        "choice_sentences": _choice_sentences(findings),
        "scaling": _scaling(findings),
    }


def _in_turn(findings: Findings) -> bool:
    return any(comparison.in_turn for comparison in findings.comparisons)


class _Compared(NamedTuple):
    """A cell of a comparison; `lead` is the pair of the leader and the cell."""

    comparison: ComparisonSummary
    compared: ComparedCell
    cell: CellSummary
    lead: ComparedPair | None

    @property
    def is_leader(self) -> bool:
        return self.compared.cell == self.comparison.leader

    @property
    def ratio(self) -> RatioEstimate | None:
        return self.lead.ratio if self.lead else None


def _compared(findings: Findings) -> Table:
    """Every cell of every comparison, the fastest first."""
    rows = [
        _Compared(comparison, compared, findings.cell[compared.cell], _lead(comparison, compared))
        for comparison in findings.comparisons
        for compared in comparison.cells
    ]
    units = dict.fromkeys(UNIT_OF[comparison.workload] for comparison in findings.comparisons)
    columns = (
        *place_columns(
            findings, lambda row: row.cell, name=lambda row: row_name(row.comparison, row.cell)
        ),
        *_setting_column(findings),
        Column("Speed", _speed, " or ".join(units), unit_css="unit absolute-unit"),
        Column("n", lambda row: row.compared.n),
        Column("The first is", _times, "times as fast"),
        Column("The first is", _first_is, css="text"),
        Column("Detectable", lambda row: detectable(row.ratio), "%"),
        Column("Equal computation", _equal_computation, css="text"),
        Column("Flags", _notes, css="wrap"),
    )
    return Table(
        "Speed compared",
        columns,
        rows,
        what="rows",
        csv="tables/comparisons.csv",
        sortable=True,
        row_css=lambda row: "first" if row.is_leader else "",
    )


def _lead(comparison: ComparisonSummary, compared: ComparedCell) -> ComparedPair | None:
    return next((pair for pair in comparison.leads if pair.slower == compared.cell), None)


def _setting_column(findings: Findings) -> list[Column]:
    """What distinguishes comparisons, where something does; rows have their comparison."""
    if not any(map(setting_of, findings.comparisons)):
        return []
    return [Column("Setting", lambda row: setting_of(row.comparison) or None, css="wrap")]


def _speed(row: _Compared) -> TableCell:
    """The speed, which the page can show relative to the first, and words for missing runs."""
    speed = "" if row.compared.speed is None else number(row.compared.speed)
    text = Markup("<span>{}</span>").format(speed)
    if speed:
        relative = relative_text(row.is_leader, row.ratio)
        text = Markup('<span data-relative="{}">{}</span>').format(relative, speed)
    words = ", ".join(missing_words(row.cell, SPEED_OF[row.comparison.workload]))
    return TableCell(text + below(words, "range word") if words else text, key=speed)


def _times(row: _Compared) -> str | None:
    """How many times as fast as this cell the first one is."""
    if row.is_leader:
        return "1"
    return ratio_cell(row.ratio)


def _first_is(row: _Compared) -> str:
    """The verdict on the first cell against this one."""
    if row.is_leader:
        is_winner = row.compared.cell == row.comparison.winner
        return Markup("<strong>fastest</strong>") if is_winner else "highest speed"
    if not row.compared.n:
        return "no number"
    is_equal = row.compared.cell in row.comparison.equal
    return _verdict(row.ratio, "equal within 5 %" if is_equal else "")


def _verdict(ratio: RatioEstimate | None, verdict: str = "") -> str:
    return verdict_cell(ratio, verdict) if ratio else "no block has both"


def _equal_computation(row: _Compared) -> TableCell:
    verdict = row.compared.equal_computation
    return TableCell(verdict, "text differs" if verdict in ("differs", "not shown") else None)


def _notes(row: _Compared) -> str | None:
    remarks = row.lead.remarks if row.lead else []
    return ", ".join(filter(None, [counts_text(row.cell.flags), *remarks])) or None


class _Pair(NamedTuple):
    """A pair of a comparison, and its cells."""

    comparison: ComparisonSummary
    pair: ComparedPair
    faster: CellSummary
    slower: CellSummary


def _pairs(findings: Findings) -> Table:
    """All pairs of all comparisons; none where each has one only."""
    rows = [
        _Pair(comparison, pair, findings.cell[pair.faster], findings.cell[pair.slower])
        for comparison in findings.comparisons
        for pair in comparison.pairs
    ]
    several = any(len(comparison.pairs) > 1 for comparison in findings.comparisons)
    columns = (
        *place_columns(
            findings,
            lambda row: row.faster,
            "Faster",
            lambda row: row_name(row.comparison, row.faster),
        ),
        *_setting_column(findings),
        Column(
            "Slower",
            lambda row: stack_name(row.slower, row_name(row.comparison, row.slower)),
            css="text",
        ),
        Column("Ratio", lambda row: ratio_cell(row.pair.ratio), "95 % interval"),
        Column("Verdict", lambda row: _verdict(row.pair.ratio), css="text"),
        Column("Detectable", lambda row: detectable(row.pair.ratio), "%"),
        *[Column("In the long runs", lambda row: ratio_cell(row.pair.runs_ratio), "ratio")]
        * _in_turn(findings),
        Column("Remarks", lambda row: ", ".join(row.pair.remarks) or None, css="wrap"),
    )
    return Table(
        "All pairs",
        columns,
        rows if several else [],
        what="pairs",
        csv="tables/comparisons.csv",
        sortable=True,
    )


def _style_gaps(findings: Findings) -> Table:
    """What tuned code gains."""
    columns = (
        *place_columns(
            findings,
            lambda gap: findings.cell[gap.plain],
            name=lambda gap: full_label(findings.cell[gap.plain]),
        ),
        Column("Tuned", lambda gap: full_label(findings.cell[gap.tuned]), css="text"),
        Column("Tuned / plain", lambda gap: ratio_cell(gap.ratio)),
        Column(
            "Tuned code is",
            lambda gap: gap.ratio.verdict if gap.ratio else NOT_COMPARED,
            css="text",
        ),
    )
    return Table(
        "What tuned code gains",
        columns,
        findings.styles,
        whole="tables/comparisons.csv",
        sortable=True,
    )


def choices(findings: Findings, shared: str) -> Table:
    """What `best` tried, with the ratio to the default that each of its runs measured; `shared` is
    the way to the results folder."""

    def links(choice: Choice) -> Markup:
        link = Markup('<a href="{}{}/events.jsonl">run {}</a>')
        return Markup(", ").join(
            link.format(shared, trial.files.removeprefix("results/"), trial.repeat)
            for trial in choice.trials
        )

    columns = (
        *place_columns(findings),
        Column("Tried", lambda choice: choice.settings, css="text"),
        Column("Chosen by", lambda choice: f"{choice.chosen} of {len(choice.trials)}", "runs"),
        Column("In its trials", _throughput, "images/s"),
        Column("The chosen one", _chosen_is, "times as fast"),
        Column("Ratio to the default", _ratios, "by run", css="text"),
        Column("Trials", links, css="text"),
        Column("Remark", lambda choice: "; ".join(choice.reasons) or None, css="wrap"),
    )
    return Table(
        "What was tried",
        columns,
        findings.choices,
        what="rows",
        csv="tables/trials.csv",
        sortable=True,
    )


def _throughput(choice: Choice) -> str:
    """The median speed, and the outcomes of trials without one."""
    speed = "" if choice.throughput is None else number(choice.throughput)
    failed = counts_text(choice.failed, STATUSES)
    return speed + below(failed, "range word") if failed else speed


def _chosen_is(choice: Choice) -> str | None:
    ratio = choice.chosen_is_faster_by
    return None if ratio is None else ratio_text(ratio)


def _ratios(choice: Choice) -> str | None:
    """The ratio to the default in each run."""
    return (
        ", ".join(
            f"{ratio_text(trial.ratio)} {interval_text(trial)}".strip()
            for trial in choice.trials
            if trial.ratio is not None
        )
        or None
    )


def _choice_sentences(findings: Findings) -> list[str]:
    """For each run with the mode `best`, by how much its choice is faster than the default, or that
    nothing was shown to be."""
    by_run: dict[tuple[str, int], list[tuple[str, TrialSummary]]] = {}
    for choice in findings.choices:
        for trial in choice.trials:
            by_run.setdefault((choice.cell, trial.repeat), []).append((choice.settings, trial))
    return [
        f"{findings.cell[cell].label}, run {repeat}: {words}"
        for (cell, repeat), tried in by_run.items()
        if (words := _choice_words(tried))
    ]


def _choice_words(tried: Sequence[tuple[str, TrialSummary]]) -> str:
    """What a run chose of what it `tried`, the default first; empty of a record without ratios."""
    default, first = tried[0]
    chosen = [(settings, trial) for settings, trial in tried if trial.chosen]
    if not chosen or all(trial.ratio is None for _, trial in tried):
        return ""
    settings, trial = chosen[0]
    if trial is first:
        others = "; nothing was shown to be faster." if len(tried) > 1 else "."
        return f"{settings}, the default{others}"
    if first.ratio is None or trial.ratio is None:
        return f"{settings}; {default}, the default, ended as {first.status}."
    return (
        f"{settings}, {ratio_text(trial.ratio)} {interval_text(trial)} times as fast as {default},"
        " the default."
    )


def _scaling(findings: Findings) -> Table:
    """What several replicas gain."""

    def median(cell: str) -> str:
        throughput = findings.cell[cell].metrics.get("throughput")
        return number(throughput.median if throughput else None)

    columns = (
        *place_columns(findings),
        Column("Scaling", lambda scaling: scaling.kind, css="text"),
        Column("Nodes", lambda scaling: scaling.nodes),
        Column("Replicas", lambda scaling: scaling.replicas, "a node"),
        Column("Resources", lambda scaling: scaling.resources, "times"),
        Column("Median", lambda scaling: median(scaling.cell), "images/s"),
        Column("One replica", lambda scaling: median(scaling.baseline), "images/s"),
        Column("Speed-up", _speedup, "95 % interval"),
        Column("Efficiency", _efficiency, "%"),
        Column("Verdict", lambda s: s.speedup and verdict_cell(s.speedup), css="text"),
        Column("Flags", lambda s: counts_text(s.flags) or None, css="wrap"),
    )
    return Table("Scaling", columns, findings.scaling, csv="tables/scaling.csv")


def _speedup(scaling: Scaling) -> TableCell:
    """The speed-up with its interval, or why there is none."""
    ratio = ratio_cell(scaling.speedup)
    return TableCell(ratio) if ratio else TableCell(scaling.reason or "", "wrap word")


def _efficiency(scaling: Scaling) -> str | None:
    return None if scaling.efficiency is None else number(scaling.efficiency * 100, 3)
