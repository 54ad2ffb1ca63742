"""The answer, in sentences."""

from collections.abc import Iterable
from typing import Any

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.ranking_model import (
    AccuracyGap,
    ComparedCell,
    ComparedPair,
    ComparisonSummary,
    NextStep,
    Trust,
)
from touchstone.plan.names import framework_name
from touchstone.report.rows import TableRows, first_rows
from touchstone.report.text import (
    compared_name,
    comparison_text,
    counts_text,
    full_label,
    interval_text,
    listing,
    number,
    ratio_text,
    relative_text,
)
from touchstone.schema.status import STATUSES

WHOSE_CODE = (
    "Each framework ran through this project's adapter, in the mode in brackets; plain user code"
    " may differ (docs/styles.md)."
)
AGES_APART = 3
"""Years between releases that the answer mentions."""
SENTENCES = 3
"""Comparisons that have a sentence; of more there is a matrix."""


def view(findings: Findings) -> dict[str, Any]:
    """The answer, how far to trust it, and hints."""
    return {
        "rankings": rankings(findings),
        "remarks": remarks(findings),
        "trust": trust_sentence(findings.answer.trust),
        "next_step": next_step(findings),
        "caveat": caveat(findings),
        "whose_code": WHOSE_CODE if findings.answer.cells_with_throughput else "",
        "matrix": matrix(findings),
        "hints": findings.setup.hints,
    }


def answer(findings: Findings) -> list[str]:
    """The result in words, a paragraph each; the last one says how far to trust it."""
    trust = f"{trust_sentence(findings.answer.trust)} {next_step(findings)}".strip()
    return list(filter(None, [*rankings(findings), *remarks(findings), trust]))


def rankings(findings: Findings) -> list[str]:
    """Which configuration was fastest: a paragraph for each comparison, or for all of many."""
    if len(findings.comparisons) > SENTENCES:
        return [" ".join(_counted(findings))]
    if findings.comparisons:
        return [_sentences(findings, one) for one in findings.comparisons]
    return [_nothing_to_compare(findings)]


def _nothing_to_compare(findings: Findings) -> str:
    speeds = [(c, c.metrics["throughput"]) for c in findings.cells if "throughput" in c.metrics]
    known = [(cell, speed) for cell, speed in speeds if cell.workload == "training"]
    if not known:
        return _operations(findings) or (
            "No run reached the end of its measured phase: there is no throughput to compare."
        )
    if len(known) == 1:
        ((cell, speed),) = known
        runs = f"the median of {speed.n} runs" if speed.n > 1 else "one run"
        return (
            f"{full_label(cell)} trained {cell.network} with {cell.dataset} at"
            f" {number(speed.median)} images/s ({runs}). The study has no other configuration with"
            " a speed, so there is nothing to compare."
        )
    return (
        "No two configurations with a speed do the same work: they differ in network, data set or"
        " training settings, so there is nothing to compare."
    )


def _operations(findings: Findings) -> str:
    """What a study of basic operations only measured; empty where it measured anything else."""
    cells = findings.cells_of("operation")
    found = [(one.median, c) for c in cells if (one := c.metrics.get("flop_rate")) and one.median]
    if not found or len(cells) < len(findings.cells):
        return ""
    rate, cell = max(found, key=lambda one: one[0])
    return (
        f"The study measured {len(found)} configuration{'s' * (len(found) > 1)} of basic operations"
        f" and trained no network. {full_label(cell)} reached the highest rate, {number(rate)}"
        f" GFLOP/s in {cell.network} {cell.dataset}."
    )


def remarks(findings: Findings) -> list[str]:
    """What else belongs to the answer: ages of the frameworks, accuracies, runs that failed."""
    found = findings.answer
    sentences = [turns_sentence(findings), _long_runs(findings), _release_sentence(findings)]
    sentences += [_accuracy_sentence(found.accuracy_gap)] if found.accuracy_gap else []
    if failed := found.failed_training_runs:
        sentences.append(
            f"{sum(failed.values())} of {found.training_runs} runs gave no full result"
            f" ({counts_text(failed, STATUSES)}); see Outcomes."
        )
    text = " ".join(filter(None, sentences))
    return [text] if text else []


def _release_sentence(findings: Findings) -> str:
    """When the compared versions were released, where years lie between them."""
    compared = {cell.cell for one in findings.comparisons for cell in one.cells}
    cells = (cell for cell in findings.cells if cell.name in compared and cell.released)
    months = {framework_name(cell.framework): cell.released or "" for cell in cells}
    years = [int(month[:4]) + int(month[5:]) / 12 for month in months.values()]
    if not years or max(years) - min(years) <= AGES_APART:
        return ""
    words = (f"{name} in {month}" for name, month in months.items())
    return f"The versions compared were released years apart: {listing(words)}."


def _counted(findings: Findings) -> list[str]:
    """Of many comparisons, how often each configuration was the fastest and by how much."""
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
            found.setdefault(compared_name(one, findings.cell[one.leader]), []).append(ratio)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _span(ratios: list[RatioEstimate]) -> str:
    least, most = (f(ratios, key=lambda ratio: ratio.value) for f in (min, max))
    low, high = _times(least), _times(most)
    return low if low == high else f"{low} to {high}"


def _sentences(findings: Findings, one: ComparisonSummary) -> str:
    """Who was fastest, at which speed, by how much; else that there are too few runs."""
    place = comparison_text(one, findings.cell[one.leader])
    known = [cell for cell in one.cells if cell.speed is not None]
    if one.n < 2:
        speeds = "; ".join(_speed(findings, one, cell) for cell in known)
        runs = "one run each" if all(c.n == 1 for c in known) else "one run of a configuration"
        return f"{place}: too few runs to tell which is fastest. Measured, {runs}: {speeds}."
    leader, next_pair, last_pair = known[0], one.leads[0], one.leads[-1]
    first = compared_name(one, findings.cell[leader.cell])
    amount = f"{number(leader.speed)} images/s"
    if one.in_turn and one.in_turn.disturbed:
        place += ", beside other programs"
    if one.winner:
        text = (
            f"{place}: {first} was fastest with {amount}, {_pair_text(next_pair)} times as fast as"
            f" {_speed(findings, one, known[1])}"
        )
    else:
        rivals = listing(_speed(findings, one, cell) for cell in known if cell.cell in one.rivals)
        ratios = listing(_pair_text(pair) for pair in one.leads if pair.slower in one.rivals)
        units = "sets" if one.in_turn else "runs"
        text = f"{place}: too few {units} to tell {first} with {amount} apart from {rivals}"
        if one.alike:
            text = f"{place}: {first} with {amount} is as fast as {rivals} to within 2 %"
        text += f": {ratios} times"
    if last_pair.slower not in (next_pair.slower, *one.rivals):
        last = _speed(findings, one, known[-1])
        text += f". The lowest speed was that of {last}: {first} was {_pair_text(last_pair)} times"
        text += " as fast"
    return text + "."


def _pair_text(pair: ComparedPair) -> str:
    return _times(pair.ratio) if pair.ratio else "an unknown number of"


def _times(ratio: RatioEstimate) -> str:
    return f"{ratio_text(ratio.value)} {interval_text(ratio)}".strip()


def _speed(findings: Findings, one: ComparisonSummary, cell: ComparedCell) -> str:
    return f"{compared_name(one, findings.cell[cell.cell])} with {number(cell.speed)} images/s"


def trust_sentence(trust: Trust | None) -> str:
    """How far to trust the answer, and the main reason."""
    if trust is None:
        return ""
    beyond = number(((trust.reach or 1) - 1) * 100, 2)
    in_turn = trust.unit == "sets"
    repeated = f"{trust.n} {'sets' if in_turn else 'runs'}"
    reason = {
        "one run": "a configuration ran only once",
        "disturbed": (
            f"{trust.disturbed} of {trust.runs} {'rounds' if in_turn else 'runs'} were disturbed"
        ),
        "long runs": "the long runs give other ratios than the turns",
        "interval": f"an interval reaches {beyond} % above its ratio",
        "few runs": f"{repeated} of each configuration",
        None: f"{repeated} or more of each configuration, and narrow intervals",
    }[trust.reason]
    return f"Trust: {trust.level} ({reason})."


def next_step(findings: Findings) -> str:
    """What would probably settle the study's open question."""
    open_ones = sum(one.next_step is not None for one in findings.comparisons)
    return next_step_sentence(findings.answer.next_step, open_ones)


def next_step_sentence(step: NextStep | None, undecided: int = 1) -> str:
    """What would probably settle an open question, and how long that takes."""
    if step is None:
        return ""
    if step.repeats is None:
        return f"Even 100 {step.unit} would probably not settle it: the speeds are too alike."
    time = f"about {_duration(step.minutes or 0)}"
    if step.decides:
        what = "it" if undecided == 1 else f"the clearest of {undecided} open comparisons"
        return f"{step.repeats} {step.unit} would probably settle {what}: {time}."
    return f"{step.repeats} {step.unit} give intervals: {time}."


def _duration(minutes: float) -> str:
    if minutes < 1:
        return f"{number(minutes * 60, 2)} more seconds"
    if minutes < 120:
        return f"{number(minutes, 2)} more minutes"
    return f"{number(minutes / 60, 2)} more hours"


def caveat(findings: Findings) -> str:
    """What the intervals mean, and which flags the compared runs have."""
    if not any(one.n > 1 for one in findings.comparisons):
        return ""
    text = (
        "In brackets are intervals that hold together with 95 % confidence for all pairs of a"
        " comparison, on the machine as it was then. At most about 1 in 20 studies names a wrong"
        " configuration as the fastest (docs/statistics.md)."
    )
    if flags := findings.answer.flags:
        text += f" Runs carry the flag{'s' if len(flags) > 1 else ''} {listing(flags)}; see below."
    return text


def matrix(findings: Findings) -> dict[str, Any] | None:
    """A row for each comparison, a column for each configuration; None where sentences suffice."""
    if len(findings.comparisons) <= SENTENCES:
        return None
    labels = dict.fromkeys(
        compared_name(one, findings.cell[cell.cell])
        for one in findings.comparisons
        for cell in one.cells
    )
    rows = [_matrix_row(findings, one, list(labels)) for one in findings.comparisons]
    shown: TableRows = first_rows(rows)
    return {"labels": list(labels), "rows": shown}


def _matrix_row(findings: Findings, one: ComparisonSummary, labels: list[str]) -> dict[str, Any]:
    leads = {pair.slower: pair.ratio for pair in one.leads}
    entries: dict[str, dict[str, Any]] = {}
    for cell in one.cells:
        if cell.speed is None:
            continue
        ratio = leads.get(cell.cell)
        entries[compared_name(one, findings.cell[cell.cell])] = {
            "speed": number(cell.speed),
            "ratio": "" if ratio is None else _times(ratio),
            "relative": relative_text(cell.cell == one.leader, ratio),
            "first": cell.cell == one.winner,
        }
    place = comparison_text(one, findings.cell[one.leader])
    return {"place": place, "entries": [entries.get(label) for label in labels]}


def turns_sentence(findings: Findings) -> str:
    """How many comparisons were measured in turn, and how quiet the machine was meanwhile."""
    known = [one.in_turn for one in findings.comparisons if one.in_turn]
    if not known:
        return ""
    total, count = len(findings.comparisons), len(known)
    which = "The ratios" if count == total else f"The ratios of {count} of {total} comparisons"
    sets = listing(str(n) for n in sorted({one.sets for one in known}))
    used, measured = sum(one.rounds for one in known), sum(one.all_rounds for one in known)
    text = f"{which} are from slices of work in turn: {sets} sets of fresh processes, {used}"
    if disturbed := sum(one.disturbed for one in known):
        return (
            f"{text} rounds, although other programs used the cores in {disturbed} of them. Other"
            " programs slow configurations down by different factors, so on an idle machine the"
            " ratios may be others."
        )
    again, apart = sum(one.set_aside for one in known), sum(one.apart for one in known)
    text += " rounds" if used == measured else f" of {measured} rounds"
    if used == measured and not again:
        text += ", no other program on the cores"
    else:
        slices = "1 slice was" if again == 1 else f"{again} slices were"
        text += f"; {slices} repeated" if again else "; the others do not count"
        text += ", as other programs used the cores"
        if any(one.moved for one in known):
            text += " or the hypervisor had moved the cores apart"
    if apart:
        text += f". During {apart} of these {used} rounds, the hypervisor had moved the cores apart"
    return f"{text}."


def _long_runs(findings: Findings) -> str:
    """The ratios of the long runs that have nothing in common with those of the turns."""
    pairs = [(one, pair) for one in findings.comparisons for pair in one.pairs]
    other = [(one, pair) for one, pair in pairs if pair.runs_disagree]
    if not other:
        return ""
    if len(findings.comparisons) > SENTENCES:
        return f"The long runs give other ratios for {len(other)} of {len(pairs)} pairs."
    words = (
        f"{_times(pair.runs_ratio)} for {compared_name(one, findings.cell[pair.faster])} to"
        f" {compared_name(one, findings.cell[pair.slower])}"
        for one, pair in other
        if pair.runs_ratio
    )
    return f"The long runs give other ratios: {listing(words)}."


def _accuracy_sentence(gap: AccuracyGap) -> str:
    """How far apart the median accuracies of cells compared with one another are, at most."""
    if gap.largest == 0:
        return "The median test accuracies of the configurations compared are the same."
    most = gap.comparisons > 1 and gap.batch_size is not None
    return (
        "The median test accuracies of the configurations compared differ by at most"
        f" {gap.largest * 100:.1f} percentage points"
        + (f" (at batch size {gap.batch_size})." if most else ".")
    )
