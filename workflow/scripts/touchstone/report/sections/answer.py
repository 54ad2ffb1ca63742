"""The answer, in sentences."""

from itertools import groupby
from statistics import median

from touchstone.analysis.comparison import Comparison
from touchstone.report.text import interval_text, listing, ratio_text
from touchstone.results.metrics import STATUSES
from touchstone.results.study import Cell, Series, Study
from touchstone.results.tables import DIFFERENT_ERA, counted
from touchstone.statistics.intervals import INDICATIVE_BELOW, NO_DIFFERENCE

SENTENCES = 6
"""Sentences of the answer at most."""


def answer(study: Study, comparisons: list[Comparison]) -> tuple[str, str]:
    """The result, and how far to trust it, in words derived from the numbers."""
    sentences = []
    for facet, group in groupby(comparisons, key=lambda c: c.facet):
        outcomes: dict[tuple[Series | None, bool], list[Comparison]] = {}
        for c in sorted(group, key=lambda c: (c.winner is None, not c.testable)):
            outcomes.setdefault((c.winner, c.testable), []).append(c)
        only = len(outcomes) == 1
        parts = [_verdict(*outcome, members, only) for outcome, members in outcomes.items()]
        sentences.append(f"On {facet[0]} with {facet[1]} ({facet[2]}), {'; '.join(parts)}.")
    if len(sentences) > SENTENCES:
        more = len(sentences) - SENTENCES
        sentences[SENTENCES:] = [f"{more} more are in the table of speeds."]
    if not comparisons:
        with_numbers = [cell for cell in study.cells if cell.values("throughput")]
        sentences.append(
            "No two cells with numbers differ in framework or mode alone, so there is nothing to"
            " compare."
            if with_numbers
            else "No run reached the end of its measured phase: there is no throughput to compare."
        )
    if accuracy := _accuracy_sentence(study):
        sentences.append(accuracy)
    if bad := [run.status for run in study.runs if run.status != "ok"]:
        sentences.append(
            f"{len(bad)} of {len(study.runs)} runs gave no full result"
            f" ({counted(bad, STATUSES)}); they are listed below and are part of the result."
        )
    return " ".join(sentences), _caveat(comparisons)


def _verdict(winner: Series | None, testable: bool, members: list[Comparison], only: bool) -> str:
    """What comparisons with the same outcome show, as part of a sentence.

    `only`: there is no other outcome on the same network, data set and device.
    """
    sizes = [f"{c.batch_size} ({c.setting})" if c.setting else str(c.batch_size) for c in members]
    at = f"at batch size{'s' if len(sizes) > 1 else ''} {listing(sizes)}"
    if only and len(members) > 2:
        at = f"in all {len(members)} comparisons"
    if winner:
        nexts = [c.against[0] for c in members]
        ratios = [ratio for _, ratio in nexts if ratio]
        who = listing(dict.fromkeys(_named(cell) for cell, _ in nexts))
        low, high = (ratio_text(pick(r.value for r in ratios)) for pick in (min, max))
        times = low if low == high else f"{low} to {high}"
        if len(ratios) == 1:
            times += f" {interval_text(ratios[0])}"
        best = _named(members[0].fastest)
        return f"{best} was fastest {at}, at {times} times the throughput of {who}"
    groups = dict.fromkeys(
        listing(_named(c) for c in ([m.fastest, *m.rivals] if testable else m.cells[:2]))
        for m in members
    )
    who = f"the fastest, {next(iter(groups))}" if len(groups) == 1 else "the fastest of each"
    if not testable:
        return f"{at} there are too few runs to rank {who}"
    return f"{at} {NO_DIFFERENCE} between {who}"


def _named(cell: Cell) -> str:
    """A cell's series, with the mark of one that is older than the others by an era."""
    mark = " (of another era)" if DIFFERENT_ERA in cell.flags else ""
    return cell.series.label + mark


def _caveat(comparisons: list[Comparison]) -> str:
    """What the ranking rests on, and which flags the compared runs carry."""
    tested = [c for c in comparisons if c.testable]
    if not tested:
        return ""
    n = min(c.n for c in tested)
    text = (
        f"n = {n}{', indicative' if n < INDICATIVE_BELOW else ''}: a framework is called fastest"
        " when its throughput is shown to be above that of every other one, by t intervals on the"
        " logarithms of the ratios within blocks that hold together with 95 % confidence"
    )
    if len(tested) > 1:
        text += (
            f"; of the {len(tested)} rankings made here up to {0.05 * len(tested):.2g} may be false"
        )
    flags = [f for c in tested for cell in c.cells for f in dict.fromkeys(cell.flags)]
    remarked = [f for c in tested for row in c.rows() for f in row["remarks"].split(", ") if f]
    if doubtful := sorted(set(flags + remarked)):
        flagged = f"flag{'s' if len(doubtful) > 1 else ''} {listing(doubtful)}"
        text += f". Cells compared carry the {flagged}, explained below"
    return text + "."


def _accuracy_sentence(study: Study) -> str | None:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    gaps = []
    for cells in study.comparable():
        medians = [median(v) for cell in cells if (v := cell.values("test_accuracy"))]
        if len(medians) > 1:
            gaps.append((max(medians) - min(medians), cells[0].batch_size))
    if not gaps:
        return None
    gap, batch = max(gaps)
    if gap == 0:
        return "At each batch size the median test accuracies of the cells compared are the same."
    return (
        "At each batch size the median test accuracies of the cells compared lie within"
        f" {gap * 100:.1f} percentage points of one another"
        + (f" (furthest apart at {batch})." if len(gaps) > 1 else ".")
    )
