"""The answer, in sentences."""

from typing import Any

from touchstone.analysis.disturbed import REPEAT
from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    ComparisonSummary,
    Confidence,
    SameOutcome,
)
from touchstone.report.text import counts_text, interval_text, listing, ratio_text
from touchstone.results.tables import DIFFERENT_ERA
from touchstone.schema.status import STATUSES

SENTENCES = 6
"""Sentences of the answer at most."""


def view(findings: Findings) -> dict[str, Any]:
    """The answer, its caveat, the warning about other programs, and hints."""
    return {
        "answer": answer(findings),
        "caveat": caveat(findings.answer.confidence),
        "disturbed": findings.disturbed,
        "repeat": REPEAT,
        "hints": findings.setup.hints,
    }


def answer(findings: Findings) -> str:
    """The result in words."""
    found = findings.answer
    sentences = []
    for place in found.places:
        parts = [_outcome(findings, one, len(place.outcomes) == 1) for one in place.outcomes]
        where = f"On {place.network} with {place.dataset} ({place.device})"
        sentences.append(f"{where}, {'; '.join(parts)}.")
    if len(sentences) > SENTENCES:
        more = len(sentences) - SENTENCES
        sentences[SENTENCES:] = [f"{more} more are in the table of speeds."]
    if not found.places:
        sentences.append(
            "No two cells with numbers differ in framework or mode alone, so there is nothing to"
            " compare."
            if found.cells_with_throughput
            else "No run reached the end of its measured phase: there is no throughput to compare."
        )
    if found.accuracy_gap:
        sentences.append(_accuracy_sentence(found.accuracy_gap))
    if failed := found.failed_training_runs:
        sentences.append(
            f"{sum(failed.values())} of {found.training_runs} runs gave no full result"
            f" ({counts_text(failed, STATUSES)}); they are listed below and are part of the result."
        )
    return " ".join(sentences)


def setting_of(comparison: ComparisonSummary) -> str:
    """What distinguishes a comparison from others on the same network, data set and device."""
    workload = "inference" if comparison.workload == "inference" else ""
    return ", ".join(filter(None, (workload, comparison.setting)))


def _outcome(findings: Findings, outcome: SameOutcome, is_only: bool) -> str:
    """What comparisons with the same outcome show, as part of a sentence.

    `is_only`: there is no other outcome on the same network, data set and device.
    """
    members = [findings.comparisons[number] for number in outcome.comparisons]
    sizes = [
        f"{one.batch_size} ({setting})" if (setting := setting_of(one)) else str(one.batch_size)
        for one in members
    ]
    at = f"at batch size{'s' if len(sizes) > 1 else ''} {listing(sizes)}"
    if is_only and len(members) > 2:
        at = f"in all {len(members)} comparisons"

    def named(cells: list[str]) -> str:
        return listing(dict.fromkeys(_label(findings.cell[cell]) for cell in cells))

    if outcome.lowest_lead is not None and outcome.highest_lead is not None:
        low, high = ratio_text(outcome.lowest_lead), ratio_text(outcome.highest_lead)
        times = low if low == high else f"{low} to {high}"
        if len(members) == 1 and members[0].lead:
            times += f" {interval_text(members[0].lead)}"
        best, others = named([members[0].leader]), named([one.next for one in members])
        return f"{best} was fastest {at}, at {times} times the throughput of {others}"
    groups = dict.fromkeys(
        listing(_label(findings.cell[name]) for name in _undecided(one)) for one in members
    )
    who = f"the fastest, {next(iter(groups))}" if len(groups) == 1 else "the fastest of each"
    if not outcome.rankable:
        return f"{at} there are too few runs to rank {who}"
    return f"{at} no difference shown between {who}"


def _undecided(comparison: ComparisonSummary) -> list[str]:
    """The cells of which none was shown to be the fastest."""
    if comparison.rankable:
        return [comparison.leader, *comparison.rivals]
    return [compared.cell for compared in comparison.cells[:2]]


def _label(cell: CellSummary) -> str:
    """A cell's label, with the mark of a framework that is older than the others by an era."""
    return cell.label + (" (of another era)" if DIFFERENT_ERA in cell.flags else "")


def caveat(confidence: Confidence | None) -> str:
    """How far to trust the ranking, and which flags the compared runs have."""
    if confidence is None:
        return ""
    text = (
        f"n = {confidence.n}{', indicative' if confidence.indicative else ''}: a framework is"
        " called fastest when its throughput is shown to be above that of every other one, by t"
        " intervals on the logarithms of the ratios within blocks that hold together with 95 %"
        " confidence"
    )
    if confidence.rankings > 1:
        text += (
            f"; of the {confidence.rankings} rankings made here up to"
            f" {confidence.expected_false:.2g} may be false"
        )
    if flags := confidence.flags:
        flagged = f"flag{'s' if len(flags) > 1 else ''} {listing(flags)}"
        text += f". Cells compared carry the {flagged}, explained below"
    return text + "."


def _accuracy_sentence(gap: AccuracyGap) -> str:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    if gap.largest == 0:
        return "At each batch size the median test accuracies of the cells compared are the same."
    return (
        "At each batch size the median test accuracies of the cells compared lie within"
        f" {gap.largest * 100:.1f} percentage points of one another"
        + (f" (furthest apart at {gap.batch_size})." if gap.comparisons > 1 else ".")
    )
