"""Speeds compared, what `best` chose, and what several replicas gain."""

from typing import Any

from touchstone.analysis.findings_model import Choice, Findings, Scaling, StyleGap
from touchstone.analysis.part import SPEED_OF, UNIT_OF
from touchstone.analysis.ranking_model import ComparedCell, ComparedPair, ComparisonSummary
from touchstone.report.rows import first_rows, sortable_rows
from touchstone.report.text import (
    counts_text,
    missing_words,
    number,
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
    return {
        "cell": findings.cell[choice.cell],
        "choice": choice,
        "failed": counts_text(choice.failed, STATUSES),
        "links": [
            (trial.repeat, f"{trial.files.removeprefix('results/')}/events.jsonl")
            for trial in choice.trials
        ],
    }


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
