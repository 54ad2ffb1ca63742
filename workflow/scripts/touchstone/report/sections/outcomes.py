"""How the runs ended."""

from typing import Any

from markupsafe import Markup

from touchstone.analysis.findings_model import Failure, Findings
from touchstone.report.table import Column, Table, place_columns
from touchstone.schema.status import MEANINGS


def view(findings: Findings) -> dict[str, Any]:
    """The counts of outcomes, and the runs that are not ok."""
    return {
        "outcomes": findings.outcomes,
        "status_meaning": MEANINGS,
        "failures": Table(
            "Runs that are not ok",
            (
                *place_columns(findings),
                Column("Repeats", lambda failure: ", ".join(map(str, failure.repeats))),
                Column("Outcome", lambda failure: failure.status, css="text word"),
                Column("Reason", _reason, css="wrap"),
            ),
            findings.failures,
            what="kinds of failure",
            whole="tables/measurements.csv",
        ),
    }


def _reason(failure: Failure) -> Markup:
    """Why, and the end of the log."""
    reason = Markup("{}").format(failure.reason)
    if not failure.log_tail:
        return reason
    log = '<details><summary>The end of its log</summary><pre tabindex="0">{}</pre></details>'
    return reason + Markup(log).format("\n".join(failure.log_tail))
