"""Speeds compared, what `best` chose, and what several replicas gain."""

from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import Choice, Findings, Scaling, StyleGap, TrialSummary
from touchstone.analysis.part import SPEED_OF, UNIT_OF
from touchstone.analysis.ranking_model import ComparedCell, ComparedPair, ComparisonSummary
from touchstone.report.rows import first_rows, sortable_rows
from touchstone.report.text import (
    counts_text,
    interval_text,
    missing_words,
    number,
    ratio_text,
    relative_text,
    row_name,
    setting_of,
)
from touchstone.schema.status import STATUSES


def view(findings: Findings) -> dict[str, Any]:
    """The tables of comparisons, of trials and of scaling."""
    compared = [
        _compared_row(findings, comparison, cell)
        for comparison in findings.comparisons
        for cell in comparison.cells
    ]
    pairs = [
        _pair_row(findings, comparison, pair)
        for comparison in findings.comparisons
        for pair in comparison.pairs
    ]
    return {
        "compared": sortable_rows(compared),
        "pairs": sortable_rows(
            pairs if any(len(c.pairs) > 1 for c in findings.comparisons) else []
        ),
        "in_turn": any(one.in_turn for one in findings.comparisons),
        "speed_unit": " or ".join(
            dict.fromkeys(UNIT_OF[one.workload] for one in findings.comparisons)
        ),
        "style_gaps": sortable_rows([_gap_row(findings, one) for one in findings.styles]),
        "settings_shown": any(map(setting_of, findings.comparisons)),
        "choice_sentences": _choice_sentences(findings),
        "choices": sortable_rows([_choice_row(findings, one) for one in findings.choices]),
        "scaling": first_rows([_scaling_row(findings, one) for one in findings.scaling]),
    }


def _compared_row(
    findings: Findings, comparison: ComparisonSummary, compared: ComparedCell
) -> dict[str, Any]:
    cell = findings.cell[compared.cell]
    lead = next((pair for pair in comparison.leads if pair.slower == compared.cell), None)
    return {
        "cell": cell,
        "name": row_name(comparison, cell),
        "setting": setting_of(comparison),
        "is_leader": compared.cell == comparison.leader,
        "is_winner": compared.cell == comparison.winner,
        "is_equal": compared.cell in comparison.equal,
        "speed": number(compared.speed) if compared.speed is not None else "",
        "relative": relative_text(compared.cell == comparison.leader, lead.ratio if lead else None),
        "n": compared.n,
        "words": ", ".join(missing_words(cell, SPEED_OF[comparison.workload])),
        "ratio": lead.ratio if lead else None,
        "equal_computation": compared.equal_computation,
        "not_shown": compared.equal_computation in ("differs", "not shown"),
        "notes": ", ".join(
            filter(None, [counts_text(cell.flags), *(lead.remarks if lead else [])])
        ),
    }


def _pair_row(
    findings: Findings, comparison: ComparisonSummary, pair: ComparedPair
) -> dict[str, Any]:
    faster, slower = findings.cell[pair.faster], findings.cell[pair.slower]
    return {
        "cell": faster,
        "name": row_name(comparison, faster),
        "slower": slower,
        "slower_name": row_name(comparison, slower),
        "setting": setting_of(comparison),
        "ratio": pair.ratio,
        "runs_ratio": pair.runs_ratio,
        "notes": ", ".join(pair.remarks),
    }


def _gap_row(findings: Findings, gap: StyleGap) -> dict[str, Any]:
    plain, tuned = findings.cell[gap.plain], findings.cell[gap.tuned]
    return {"cell": plain, "tuned": tuned, "ratio": gap.ratio}


def _choice_row(findings: Findings, choice: Choice) -> dict[str, Any]:
    """A row of what was tried, with the ratio to the default that each of its runs measured."""
    return {
        "ratios": [
            f"{ratio_text(trial.ratio)} {interval_text(trial)}".strip()
            for trial in choice.trials
            if trial.ratio is not None
        ],
        "cell": findings.cell[choice.cell],
        "choice": choice,
        "failed": counts_text(choice.failed, STATUSES),
        "links": [
            (trial.repeat, f"{trial.files.removeprefix('results/')}/events.jsonl")
            for trial in choice.trials
        ],
    }


def _choice_sentences(findings: Findings) -> list[str]:
    """For each run with the mode `best`, by how much its choice is faster than the default, or that
    nothing was shown to be."""
    found: dict[tuple[str, int], list[tuple[str, TrialSummary]]] = {}
    for choice in findings.choices:
        for trial in choice.trials:
            found.setdefault((choice.cell, trial.repeat), []).append((choice.settings, trial))
    return [
        f"{findings.cell[cell].label}, run {repeat}: {words}"
        for (cell, repeat), tried in found.items()
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


def _scaling_row(findings: Findings, scaling: Scaling) -> dict[str, Any]:
    cells = [findings.cell[name] for name in (scaling.cell, scaling.baseline)]
    throughputs = [cell.metrics.get("throughput") for cell in cells]
    return {
        "cell": cells[0],
        "scaling": scaling,
        "medians": [number(one.median if one else None) for one in throughputs],
        "efficiency": number(None if scaling.efficiency is None else scaling.efficiency * 100, 3),
        "flags": counts_text(scaling.flags),
    }
