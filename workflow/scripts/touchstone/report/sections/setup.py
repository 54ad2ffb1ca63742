"""What was run, on what, with which settings."""

from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from touchstone.report.sections.failures import outcome_words
from touchstone.report.text import FEW, number, setting
from touchstone.results.flags import differing_settings
from touchstone.results.study import FACET, Cell, Study, distinct
from touchstone.results.tables import counted


class Factors(NamedTuple):
    """How the factors beside framework, batch size and a series' variant vary in a study.

    `same` holds those with one value everywhere, `by_framework` those with one value per
    framework, `other` the names that need a column.
    """

    same: dict[str, str]
    by_framework: dict[str, dict[str, str]]
    other: list[str]


def factors_of(study: Study) -> Factors:
    result = Factors({}, {}, [])
    for name, value in study.cells[0].plan.factors.items():
        found: dict[str, set[str]] = {}
        for cell in study.cells:
            found.setdefault(cell.series.framework, set()).add(cell.plan.factors[name])
        if name in ("framework", "batch_size"):
            continue
        if set().union(*found.values()) == {value}:
            result.same[name] = value
        elif all(len(values) == 1 for values in found.values()):
            result.by_framework[name] = {f: next(iter(values)) for f, values in found.items()}
        elif name not in (*FACET, *study.cells[0].series.factors):
            result.other.append(name)
    return result


def phase_rows(cells: Iterable[Cell], phases: Iterable[str]) -> list[dict[str, Any]]:
    """Median seconds of each phase over the ok runs of each cell."""
    rows = []
    for cell in cells:
        runs = [run for run in cell.runs if run.status == "ok"]
        rows.append(
            {
                "cell": cell,
                "n": len(runs),
                "flags": counted(cell.flags),
                "words": ", ".join(cell.words("test_accuracy")),
                "seconds": [
                    number(median(known), 3)
                    if (known := [run.phases[name] for run in runs if name in run.phases])
                    else None
                    for name in phases
                ],
            }
        )
    return rows


def time_spent(study: Study) -> str:
    """What share of the runs' time was measured, as a sentence."""
    total = sum(seconds for run in study.runs for seconds in run.phases.values())
    measured = sum(run.phases.get("measured", 0.0) for run in study.runs)
    if not measured:
        return ""
    return (
        f"All runs together took {number(total, 3)} s, {number(measured, 3)} s of them in measured"
        f" phases: {number(total / measured, 3)} times as long."
    )


def software_rows(study: Study) -> list[dict[str, Any]]:
    """Framework, version and packages of each different software stack."""
    stacks: dict[tuple[str, int], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            software = run.provenance["software"]
            key = (cell.series.framework, id(software))  # equal ones are one object
            stack = stacks.setdefault(
                key, {"framework": cell.series.framework, "software": software, "runs": 0}
            )
            stack["runs"] += 1
    for stack in stacks.values():
        stack["libraries"] = {
            name: value
            for name, value in stack["software"].items()
            if name not in ("framework", "version", "packages", "touchstone", "git_commit")
            and value is not None
        }
    return list(stacks.values())


def settings_rows(study: Study) -> list[dict[str, Any]]:
    """Each setting with what was requested and read back; frameworks that agree share a row."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in study.cells:
        for run in cell.runs:
            settings = run.provenance["settings"]
            differing = differing_settings(settings)
            for name, requested in settings.get("requested", {}).items():
                texts = (setting(requested), setting(settings["effective"].get(name)))
                verdict = "as requested"
                if name in differing:
                    verdict = "differs"
                elif requested is None:
                    verdict = "left open"
                row = rows.setdefault(
                    (name, *texts), {"verdict": verdict, "frameworks": {}, "runs": 0}
                )
                row["frameworks"][cell.series.framework] = None
                row["runs"] += 1
    ordered = sorted(rows.items(), key=lambda item: item[0][0])
    return [{"name": n, "requested": r, "effective": e, **row} for (n, r, e), row in ordered]


def differing_from_default(study: Study) -> dict[str, list[str]]:
    """By framework, where its runs have not what it does by itself."""
    found: dict[str, dict[str, None]] = {}
    for cell in study.cells:
        sentences = found.setdefault(cell.series.framework, {})
        wait = cell.plan.factors.get("wait_policy")
        if wait in ("passive", "active"):
            sentences[f"idle threads wait in the {wait} way, as the study asks"] = None
        for run in cell.runs:
            sentences |= dict.fromkeys(run.provenance["settings"].get("differs", ()))
    return {framework: list(sentences) for framework, sentences in found.items()}


def hints_of(study: Study) -> list[str]:
    """What may be faster on this machine but is not a framework's own choice."""
    settings = (run.provenance["settings"] for cell in study.cells for run in cell.runs)
    return distinct(hint for found in settings for hint in found.get("hints", ()))


def environment_rows(study: Study) -> dict[str, str]:
    """Each fact of the runs' execution environments: its values, or the range of many."""
    found: dict[str, list[Any]] = {}
    for environment in distinct(run.provenance["environment"] for run in study.runs):
        for name, value in environment.items():
            if name != "load_before":  # differs in every run
                found.setdefault(name, []).append(value)
    return {name: _values(distinct(values)) for name, values in found.items()}


def _values(values: list[Any]) -> str:
    if len(values) > FEW and all(isinstance(value, int | float) for value in values):
        return f"{number(min(values))} to {number(max(values))}"
    if len(values) > FEW:
        return f"{len(values)} different values"
    return "; ".join(outcome_words(value) for value in values)
