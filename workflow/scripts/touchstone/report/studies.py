"""The page that lists the studies of a results folder with their answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from touchstone.analysis.again import Kept
from touchstone.analysis.findings_model import Findings
from touchstone.report.rendering import templates
from touchstone.report.sections.answer import answer
from touchstone.report.sections.warnings import of_changed, warnings
from touchstone.results.files import InputError, read_object

ENTRY = "answer.json"
"""What the list says of a study; next to the study's report."""
AGAIN = "Delete it and run this study again"


def entry(
    findings: Findings, title: str, kept: Kept, changed: Sequence[str] = ()
) -> dict[str, Any]:
    """What the list says of a study, as JSON; `changed` as for the page."""
    found = of_changed(changed) + warnings(findings.disturbed, findings.doubts, kept)
    return {
        "format": 1,
        "title": title,
        "answer": answer(findings),
        "warnings": [one.fault for one in found],
        "started": findings.setup.last_start,
    }


def make_list(folder: Path) -> str:
    """The page on all studies that have a folder with a report in this one, the latest first.

    Of a study whose answer cannot be read it says so: the others keep their places.
    """
    entries = [_read(path) for path in folder.glob(f"*/{ENTRY}")]
    entries.sort(key=lambda one: (one["started"], one["folder"]), reverse=True)
    return templates().get_template("studies.html.j2").render(studies=entries)


def _read(path: Path) -> dict[str, Any]:
    folder = path.parent.name
    try:
        found = read_object(path, AGAIN)
        if not _is_entry(found):
            raise InputError(path, "not the answer of a study", AGAIN)
    except InputError as fault:
        found = {"title": folder, "started": "", "answer": [], "warnings": [str(fault)]}
    return {**found, "folder": folder}


def _is_entry(found: dict[str, Any]) -> bool:
    lists = (found.get("answer"), found.get("warnings"))
    if not all(isinstance(one, list) for one in lists):
        return False
    texts = (found.get("title"), found.get("started"), *found["answer"], *found["warnings"])
    return all(isinstance(text, str) for text in texts)
