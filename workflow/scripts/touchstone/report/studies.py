"""The page that lists the studies of a results folder with their answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from touchstone.analysis.again import Kept
from touchstone.analysis.findings_model import Findings
from touchstone.report.rendering import templates
from touchstone.report.sections.answer import answer
from touchstone.report.sections.verdict import verdicts
from touchstone.report.sections.warnings import of_changed, warnings
from touchstone.report.table import Column, Table, below
from touchstone.results.files import InputError, read_object

ENTRY = "answer.json"
"""What the list says of a study; next to the study's report."""
AGAIN = "Delete it and run this study again"


def entry(
    findings: Findings, title: str, kept: Kept, changed: Sequence[str] = ()
) -> dict[str, Any]:
    """What the list says of a study, as JSON; `changed` as for the page."""
    alerts = of_changed(changed) + warnings(findings.disturbed, findings.doubts, kept)
    return {
        "format": 1,
        "title": title,
        "verdicts": verdicts(findings),
        "trust": findings.answer.trust.level if findings.answer.trust else "",
        "answer": answer(findings),
        "warnings": [alert.fault for alert in alerts],
        "started": findings.setup.last_start,
    }


def make_list(folder: Path) -> str:
    """The page on all studies that have a folder with a report in this one, the latest first.

    Of a study whose answer cannot be read it says so: the others keep their places.
    """
    entries = [_read(path) for path in folder.glob(f"*/{ENTRY}")]
    entries.sort(key=lambda study: (study["started"], study["folder"]), reverse=True)
    columns = (
        Column("Study", _link, css="wrap"),
        Column("Measured (UTC)", lambda study: study["started"][:10] or None, css="text"),
        Column("Verdict", lambda study: _lines(study["verdicts"]), css="wrap"),
        Column("Trust", lambda study: study["trust"] or None, css="text"),
        Column("Cautions", lambda study: _lines(study["warnings"]) or None, css="wrap"),
    )
    table = Table("All studies", columns, entries, css="studies")
    return templates().get_template("studies.html.j2").render(table=table)


def _link(study: dict[str, Any]) -> Markup:
    name = Markup('<a href="{0}/index.html">{1}</a>').format(study["folder"], study["title"])
    return name + below(study["folder"])


def _lines(texts: Sequence[str]) -> Markup:
    return Markup("<br>").join(texts)


def _read(path: Path) -> dict[str, Any]:
    folder = path.parent.name
    try:
        study = read_object(path, AGAIN)
        if not _is_entry(study):
            raise InputError(path, "not the answer of a study", AGAIN)
    except InputError as fault:
        study = {"title": folder, "started": "", "answer": [], "warnings": [str(fault)]}
    # Those of an earlier version have no verdicts.
    return {"verdicts": study["answer"][:1], "trust": "", **study, "folder": folder}


def _is_entry(study: dict[str, Any]) -> bool:
    texts = [study.get("title"), study.get("started"), study.get("trust", "")]
    for listed in (study.get("answer"), study.get("warnings"), study.get("verdicts", [])):
        if not isinstance(listed, list):
            return False
        texts += listed
    return all(isinstance(text, str) for text in texts)
