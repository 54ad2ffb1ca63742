"""Where the time went, and what was run, on what, with which settings."""

from collections.abc import Sequence
from typing import Any

from touchstone.analysis.findings_model import CellSummary, Findings
from touchstone.analysis.setup_model import ExecutionFact, SettingReadBack, TimeSpent, setting_text
from touchstone.plan.names import framework_name
from touchstone.report.rows import first_rows
from touchstone.report.sections.columns import has_values
from touchstone.report.table import (
    Column,
    Table,
    TableCell,
    flags_column,
    itself,
    place_columns,
    word,
)
from touchstone.report.text import missing_words, number, optional_number
from touchstone.results.metrics import METRICS
from touchstone.results.phases import PHASES


def view(findings: Findings) -> dict[str, Any]:
    """Phases, settings, machines, software, and what it takes to repeat the study."""
    setup = findings.setup
    return {
        "runs": sum(findings.outcomes.values()),
        "cells": len(findings.cells),
        "phase_rows": _phases(findings),
        "spent": time_sentence(setup.time),
        "machines": first_rows(setup.machines),
        "environments": {name: _fact_words(fact) for name, fact in setup.execution.items()},
        "data_sets": setup.data,
        "software": first_rows(setup.software),
        "released": {cell.framework: cell.released for cell in findings.cells if cell.released},
        "settings": _settings(setup.settings),
        "settings_differ": any(setting.verdict == "differs" for setting in setup.settings),
        "differing_from_default": setup.differs_from_default,
        "metrics": {
            name: metric for name, metric in METRICS.items() if has_values(findings.cells, [name])
        },
        "started": (setup.first_start, setup.last_start),
        "sittings": setup.sittings,
        "seeds": setup.seeds,
        "versions": setup.touchstone,
    }


def _phases(findings: Findings) -> Table:
    """How long each phase of each cell took."""
    phases = [p for p in PHASES if p != "latency" or findings.cells_of("inference")]
    columns = (
        *place_columns(findings, itself),
        Column("n", lambda cell: cell.outcomes.get("ok", 0)),
        *map(_phase_column, phases),
        flags_column(itself),
    )
    return Table("Phases", columns, findings.cells, whole="records/", sortable=True)


def _phase_column(name: str) -> Column:
    def text(cell: CellSummary) -> str | None:
        if seconds := optional_number(cell.phases.get(name), 3):
            return seconds
        if cell.outcomes.get("ok", 0):
            return None
        return word(", ".join(missing_words(cell, "test_accuracy")))

    return Column(name.replace("_", " "), text, "s")


def time_sentence(time: TimeSpent) -> str:
    """What share of the runs' time was measured, as a sentence."""
    if time.total_per_measured is None:
        return ""
    return (
        f"All runs together took {number(time.total, 3)} s, {number(time.measured, 3)} s of them"
        f" in measured phases: {number(time.total_per_measured, 3)} times as long."
    )


def _settings(settings: Sequence[SettingReadBack]) -> Table:
    """The settings with what was requested and read back."""
    columns = (
        Column("Setting", lambda setting: setting.name.replace("_", " ")),
        Column("Requested", lambda setting: setting_text(setting.requested)),
        Column("Read back", lambda setting: setting_text(setting.effective)),
        Column("Verdict", _verdict, css="text"),
        Column("Frameworks", lambda s: ", ".join(map(framework_name, s.frameworks)), css="text"),
        Column("Runs", lambda setting: setting.runs),
    )
    return Table(
        "Settings requested and read back", columns, settings, what="settings", whole="records/"
    )


def _frameworks(setting: SettingReadBack) -> str:
    return ", ".join(map(framework_name, setting.frameworks))


def _verdict(setting: SettingReadBack) -> TableCell:
    return TableCell(setting.verdict, "text differs" if setting.verdict == "differs" else None)


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
