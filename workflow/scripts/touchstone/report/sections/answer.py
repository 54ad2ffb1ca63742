"""The answer, in sentences."""

from collections.abc import Iterable
from typing import Any

from touchstone.analysis.disturbed import REPEAT
from touchstone.analysis.doubts import Doubt
from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    ComparedCell,
    ComparedPair,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.report.rows import TableRows, first_rows
from touchstone.report.text import (
    counts_text,
    full_label,
    interval_text,
    listing,
    number,
    ratio_text,
)
from touchstone.results.tables import DIFFERENT_ERA
from touchstone.schema.status import STATUSES

SENTENCES = 3
"""Comparisons that have a sentence; of more there is a matrix."""


def view(findings: Findings) -> dict[str, Any]:
    """The answer, how far to trust it, the warnings above it, and hints."""
    return {
        "answer": answer(findings),
        "trust": trust_sentence(findings.answer.trust),
        "next_step": next_step_sentence(
            findings.answer.next_step,
            sum(one.next_step is not None for one in findings.comparisons),
        ),
        "caveat": caveat(findings),
        "matrix": matrix(findings),
        "disturbed": findings.disturbed,
        "doubts": [doubt_sentence(doubt) for doubt in findings.doubts],
        "repeat": REPEAT,
        "hints": findings.setup.hints,
    }


def answer(findings: Findings) -> str:
    """The result in words."""
    found = findings.answer
    if len(findings.comparisons) > SENTENCES:
        sentences = _counted(findings)
    else:
        sentences = [_sentences(findings, one) for one in findings.comparisons]
    if not findings.comparisons:
        sentences.append(
            "No two configurations with a speed differ only in framework or mode, so there is"
            " nothing to compare."
            if found.cells_with_throughput
            else "No run reached the end of its measured phase: there is no throughput to compare."
        )
    if found.accuracy_gap:
        sentences.append(_accuracy_sentence(found.accuracy_gap))
    if failed := found.failed_training_runs:
        sentences.append(
            f"{sum(failed.values())} of {found.training_runs} runs gave no full result"
            f" ({counts_text(failed, STATUSES)}); see Outcomes."
        )
    return " ".join(sentences)


def setting_of(comparison: ComparisonSummary) -> str:
    """What distinguishes a comparison from others on the same network, data set and device."""
    workload = "inference" if comparison.workload == "inference" else ""
    return ", ".join(filter(None, (workload, comparison.setting)))


def _place(comparison: ComparisonSummary) -> str:
    setting = setting_of(comparison)
    return (
        f"{comparison.network} with {comparison.dataset} ({comparison.device}), batch size"
        f" {comparison.batch_size}" + (f" ({setting})" if setting else "")
    )


def _counted(findings: Findings) -> list[str]:
    """Of many comparisons, how often each cell was the fastest and by how much."""
    total = len(findings.comparisons)
    sentences = []
    for name, ratios in _leads(findings, [one for one in findings.comparisons if one.winner]):
        by = f"{_span(ratios)} times as fast as the next"
        sentences.append(f"{name} was fastest in {len(ratios)} of {total} comparisons, {by}.")
    if alike := sum(one.alike for one in findings.comparisons):
        sentences.append(f"In {alike} of {total} the fastest are alike to within 2 %.")
    if undecided := [one for one in findings.comparisons if not (one.winner or one.alike)]:
        which = "all" if len(undecided) == total else f"{len(undecided)} of"
        sentences.append(f"Too few runs to tell which is fastest in {which} {total} comparisons.")
        sentences += [
            f"The speed of {name} was the highest in {len(ratios)} of these, {_span(ratios)} times"
            " that of the next."
            for name, ratios in _leads(findings, undecided)
        ]
    return sentences


def _leads(
    findings: Findings, comparisons: Iterable[ComparisonSummary]
) -> list[tuple[str, list[RatioEstimate]]]:
    """By leader, its ratios to the next; the most frequent leader first."""
    found: dict[str, list[RatioEstimate]] = {}
    for one in comparisons:
        if ratio := one.leads[0].ratio:
            found.setdefault(_name(findings.cell[one.leader]), []).append(ratio)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _span(ratios: list[RatioEstimate]) -> str:
    least, most = (f(ratios, key=lambda ratio: ratio.value) for f in (min, max))
    low, high = _times(least), _times(most)
    return low if low == high else f"{low} to {high}"


def _sentences(findings: Findings, one: ComparisonSummary) -> str:
    """Who was fastest, at which speed, by how much; else that there are too few runs."""
    place = _place(one)
    known = [cell for cell in one.cells if cell.speed is not None]
    if one.n < 2:
        speeds = "; ".join(_speed(findings, cell) for cell in known)
        runs = "one run each" if all(c.n == 1 for c in known) else "one run of a configuration"
        return f"{place}: too few runs to tell which is fastest. Measured, {runs}: {speeds}."
    leader, next_pair, last_pair = known[0], one.leads[0], one.leads[-1]
    first, amount = _name(findings.cell[leader.cell]), f"{number(leader.speed)} images/s"
    if one.winner:
        text = (
            f"{place}: {first} was fastest with {amount}, {_pair_text(next_pair)} times as fast as"
            f" {_speed(findings, known[1])}"
        )
    else:
        rivals = listing(_speed(findings, cell) for cell in known if cell.cell in one.rivals)
        ratios = listing(_pair_text(pair) for pair in one.leads if pair.slower in one.rivals)
        text = f"{place}: too few runs to tell {first} with {amount} apart from {rivals}"
        if one.alike:
            text = f"{place}: {first} with {amount} is as fast as {rivals} to within 2 %"
        text += f": {ratios} times"
    if last_pair.slower not in (next_pair.slower, *one.rivals):
        last = _speed(findings, known[-1])
        text += f". The lowest speed was that of {last}: {first} was {_pair_text(last_pair)} times"
        text += " as fast"
    return text + "."


def _pair_text(pair: ComparedPair) -> str:
    return _times(pair.ratio) if pair.ratio else "an unknown number of"


def _times(ratio: RatioEstimate) -> str:
    return f"{ratio_text(ratio.value)} {interval_text(ratio)}".strip()


def _speed(findings: Findings, cell: ComparedCell) -> str:
    return f"{_name(findings.cell[cell.cell])} with {number(cell.speed)} images/s"


def _name(cell: CellSummary) -> str:
    """A cell's label, with the mark of a framework that is older than the others by an era."""
    return full_label(cell) + (" (of another era)" if DIFFERENT_ERA in cell.flags else "")


def trust_sentence(trust: Trust | None) -> str:
    """How far to trust the answer, and the main reason."""
    if trust is None:
        return ""
    beyond = number(((trust.reach or 1) - 1) * 100, 2)
    reason = {
        "one run": "a configuration ran only once",
        "disturbed": f"{trust.disturbed} of {trust.runs} runs were disturbed",
        "interval": f"an interval reaches {beyond} % above its ratio",
        "few runs": f"{trust.n} runs of each configuration",
        None: f"{trust.n} runs or more of each configuration, and narrow intervals",
    }[trust.reason]
    return f"Trust: {trust.level} ({reason})."


def next_step_sentence(step: NextStep | None, undecided: int = 1) -> str:
    """What would probably settle an open question, and how long that takes."""
    if step is None:
        return ""
    if step.repeats is None:
        return "Even 100 repeats would probably not settle it: the speeds are too alike."
    long = (step.minutes or 0) >= 120
    amount = number((step.minutes or 0) / (60 if long else 1), 2)
    time = f"about {amount} more {'hours' if long else 'minutes'}"
    if step.decides:
        what = "it" if undecided == 1 else f"the clearest of {undecided} open comparisons"
        return f"{step.repeats} repeats would probably settle {what}: {time}."
    return f"{step.repeats} repeats give intervals: {time}."


def caveat(findings: Findings) -> str:
    """What the intervals mean, and which flags the compared runs have."""
    if not any(one.n > 1 for one in findings.comparisons):
        return ""
    text = (
        "In brackets are intervals that hold together with 95 % confidence for all pairs of a"
        " comparison. At most about 1 in 20 studies names a wrong framework (docs/statistics.md)."
    )
    if flags := findings.answer.flags:
        text += f" Runs carry the flag{'s' if len(flags) > 1 else ''} {listing(flags)}; see below."
    return text


def doubt_sentence(doubt: Doubt) -> str:
    """A warning above the answer."""
    if doubt.cause == "one run":
        return (
            "Do not trust these numbers: every configuration ran only once, so a difference may be"
            " chance. Ask for 3 repeats or more."
        )
    return (
        f"Do not trust these numbers: {doubt.runs} of {doubt.total} runs are flagged {doubt.flag}."
    )


def matrix(findings: Findings) -> dict[str, Any] | None:
    """A row for each comparison, a column for each configuration; None where sentences suffice."""
    if len(findings.comparisons) <= SENTENCES:
        return None
    labels = dict.fromkeys(
        full_label(findings.cell[cell.cell]) for one in findings.comparisons for cell in one.cells
    )
    rows = [_matrix_row(findings, one, list(labels)) for one in findings.comparisons]
    shown: TableRows = first_rows(rows)
    return {"labels": list(labels), "rows": shown}


def _matrix_row(findings: Findings, one: ComparisonSummary, labels: list[str]) -> dict[str, Any]:
    behind = {pair.slower: pair.ratio for pair in one.leads}
    entries: dict[str, dict[str, Any]] = {}
    for cell in one.cells:
        if cell.speed is None:
            continue
        ratio = behind.get(cell.cell)
        entries[full_label(findings.cell[cell.cell])] = {
            "speed": number(cell.speed),
            "ratio": "" if ratio is None else _times(ratio),
            "first": cell.cell == one.winner,
        }
    return {"place": _place(one), "entries": [entries.get(label) for label in labels]}


def _accuracy_sentence(gap: AccuracyGap) -> str:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    if gap.largest == 0:
        return "At each batch size the median test accuracies of the cells compared are the same."
    return (
        "At each batch size the median test accuracies of the cells compared lie within"
        f" {gap.largest * 100:.1f} percentage points of one another"
        + (f" (furthest apart at {gap.batch_size})." if gap.comparisons > 1 else ".")
    )
