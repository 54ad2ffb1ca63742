"""Runs that are not ok."""

from typing import Any

from touchstone.results.study import Study


def failure_rows(study: Study) -> list[dict[str, Any]]:
    """Every run that is not ok; the repeats of a cell that failed alike share a row."""
    rows: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            if run.status != "ok":
                key = (cell.plan.name, run.status, run.reason)
                row = rows.setdefault(key, {"cell": cell, "run": run, "repeats": []})
                row["repeats"].append(run.repeat)
    return list(rows.values())


def outcome_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={word}" for key, word in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
