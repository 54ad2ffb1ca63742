"""Where the time of a step goes: layers as rows, frameworks as columns."""

from typing import Any

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.profile_model import LayerProfile, LayerRow, LayerSeconds, ProfiledCell
from touchstone.report.rows import first_rows
from touchstone.report.text import facet_text, full_label, number
from touchstone.schema.status import OK


def view(findings: Findings) -> dict[str, Any]:
    """A table for each group of cells that was profiled."""
    return {"profiles": [_group(findings, one) for one in findings.profiles]}


def _group(findings: Findings, profile: LayerProfile) -> dict[str, Any]:
    measured = [one for one in profile.cells if one.status == OK]
    cell = findings.cell[profile.cells[0].cell]
    return {
        "title": f"{facet_text(cell)} · batch size {cell.batch_size}",
        "cells": [findings.cell[one.cell] for one in measured],
        "rows": first_rows([_row(one, measured) for one in profile.rows]),
        "other": [_other(one) for one in measured],
        "totals": [milliseconds(one.profiled_step) for one in measured],
        "steps": [milliseconds(one.step) for one in measured],
        "sentences": [_sentence(findings, one) for one in measured],
        "missing": [
            (findings.cell[one.cell], one.status, one.reason)
            for one in profile.cells
            if one.status != OK
        ],
    }


def _row(row: LayerRow, cells: list[ProfiledCell]) -> dict[str, Any]:
    return {
        "layers": " + ".join(row.layers),
        "ops": " + ".join(row.ops).replace("_", " "),
        "cells": [_entry(row.seconds.get(one.cell)) for one in cells],
    }


def _entry(found: LayerSeconds | None) -> dict[str, str]:
    if found is None:
        return {"forward": "–", "backward": "–", "share": "–"}
    return {
        "forward": milliseconds(found.forward),
        "backward": milliseconds(found.backward),
        "share": percent(found.share),
    }


def _other(one: ProfiledCell) -> tuple[str, str]:
    return milliseconds(one.other), percent(one.other_share)


def _sentence(findings: Findings, one: ProfiledCell) -> str:
    """How far the profiler changes what it measures."""
    label = full_label(findings.cell[one.cell])
    return (
        f"{label}: the layers and the rest add up to {milliseconds(one.profiled_step)} ms, which"
        f" is {number(one.ratio, 3)} times a step without the profiler ({one.profiler})."
    )


def milliseconds(seconds: float | None) -> str:
    """A time in ms, with three digits."""
    return number(None if seconds is None else 1000 * seconds, 3)


def percent(share: float | None) -> str:
    """A share in %, with a decimal."""
    return "–" if share is None else f"{100 * share:.1f}"
