"""Where the time went, and what was run, on what, with which settings."""

from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.setup_model import ExecutionFact, SettingReadBack, TimeSpent, setting_text
from touchstone.report.rows import first_rows, sortable_rows
from touchstone.report.text import counts_text, missing_words, number, optional_number
from touchstone.results.metrics import METRICS
from touchstone.results.phases import PHASES


def view(findings: Findings) -> dict[str, Any]:
    """Phases, settings, machines, software, and what it takes to repeat the study."""
    setup = findings.setup
    phases = [p for p in PHASES if p != "latency" or findings.cells_of("inference")]
    return {
        "runs": sum(findings.outcomes.values()),
        "cells": len(findings.cells),
        "phases": phases,
        "phase_rows": sortable_rows([_phase_row(cell, phases) for cell in findings.cells]),
        "spent": time_sentence(setup.time),
        "machines": first_rows(setup.machines),
        "environments": {name: _fact_words(fact) for name, fact in setup.execution.items()},
        "data_sets": setup.data,
        "software": first_rows(setup.software),
        "released": {cell.framework: cell.released for cell in findings.cells if cell.released},
        "settings": first_rows([_setting_row(one) for one in setup.settings]),
        "differing_from_default": setup.differs_from_default,
        "metrics": METRICS,
        "started": (setup.first_start, setup.last_start),
        "sittings": setup.sittings,
        "seeds": setup.seeds,
        "versions": setup.touchstone,
    }


def _phase_row(cell: CellSummary, phases: Sequence[str]) -> dict[str, Any]:
    return {
        "cell": cell,
        "n": cell.outcomes.get("ok", 0),
        "flags": counts_text(cell.flags),
        "words": ", ".join(missing_words(cell, "test_accuracy")),
        "seconds": [optional_number(cell.phases.get(name), 3) for name in phases],
    }


def time_sentence(time: TimeSpent) -> str:
    """What share of the runs' time was measured, as a sentence."""
    if time.total_per_measured is None:
        return ""
    return (
        f"All runs together took {number(time.total, 3)} s, {number(time.measured, 3)} s of them"
        f" in measured phases: {number(time.total_per_measured, 3)} times as long."
    )


def _setting_row(setting: SettingReadBack) -> dict[str, Any]:
    return {
        "setting": setting,
        "requested": setting_text(setting.requested),
        "effective": setting_text(setting.effective),
    }


def _fact_words(fact: ExecutionFact) -> str:
    """The values of a fact, or the range of many, or how many there are."""
    if fact.different <= len(fact.values):
        return "; ".join(_value_words(value) for value in fact.values)
    if fact.low is not None:
        return f"{number(fact.low)} to {number(fact.high)}"
    return f"{fact.different} different values"


def _value_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
