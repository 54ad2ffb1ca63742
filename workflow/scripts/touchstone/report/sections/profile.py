"""Where the time of a step goes: layers as rows, frameworks as columns."""

from typing import Any

from touchstone.analysis.findings_model import Findings
from touchstone.analysis.profile_model import LayerProfile, LayerRow, LayerSeconds, ProfiledCell
from touchstone.report.rows import first_rows
from touchstone.report.text import facet_text, full_label, number
from touchstone.schema.status import OK


def view(findings: Findings) -> dict[str, Any]:
    """A table for each group of cells that was profiled."""
    return {"profiles": [_group(findings, profile) for profile in findings.profiles]}


def _group(findings: Findings, profile: LayerProfile) -> dict[str, Any]:
    measured = [profiled for profiled in profile.cells if profiled.status == OK]
    cell = findings.cell[profile.cells[0].cell]
    return {
        "title": f"{facet_text(cell)} · batch size {cell.batch_size}",
        "cells": [findings.cell[profiled.cell] for profiled in measured],
        "rows": first_rows([_row(row, measured) for row in profile.rows]),
        "other": [_other(profiled) for profiled in measured],
        "totals": [milliseconds(profiled.profiled_step) for profiled in measured],
        "steps": [milliseconds(profiled.step) for profiled in measured],
        "sentences": [_sentence(findings, profiled) for profiled in measured],
        "missing": [
            (findings.cell[profiled.cell], profiled.status, profiled.reason)
            for profiled in profile.cells
            if profiled.status != OK
        ],
    }


def _row(row: LayerRow, cells: list[ProfiledCell]) -> dict[str, Any]:
    return {
        "layers": " + ".join(row.layers),
        "ops": " + ".join(row.ops).replace("_", " "),
        "cells": [_entry(row.seconds.get(cell.cell)) for cell in cells],
    }


def _entry(seconds: LayerSeconds | None) -> dict[str, str]:
    if seconds is None:
        return {"forward": "–", "backward": "–", "share": "–"}
    return {
        "forward": milliseconds(seconds.forward),
        "backward": milliseconds(seconds.backward),
        "share": percent(seconds.share),
    }


def _other(cell: ProfiledCell) -> tuple[str, str]:
    return milliseconds(cell.other), percent(cell.other_share)


def _sentence(findings: Findings, cell: ProfiledCell) -> str:
    """How far the profiler changes what it measures."""
    label = full_label(findings.cell[cell.cell])
    return (
        f"{label}: the layers and the rest add up to {milliseconds(cell.profiled_step)} ms, which"
        f" is {number(cell.ratio, 3)} times a step without the profiler ({cell.profiler})."
    )


def milliseconds(seconds: float | None) -> str:
    """A time in ms, with three digits."""
    return number(None if seconds is None else 1000 * seconds, 3)


def percent(share: float | None) -> str:
    """A share in %, with a decimal."""
    return "–" if share is None else f"{100 * share:.1f}"
