"""How the runs ended."""

from typing import Any

from touchstone.analysis.findings_model import Findings
from touchstone.report.rows import first_rows
from touchstone.schema.status import MEANINGS


def view(findings: Findings) -> dict[str, Any]:
    """The counts of outcomes, and the runs that are not ok."""
    return {
        "outcomes": findings.outcomes,
        "status_meaning": MEANINGS,
        "failures": first_rows(
            [{"cell": findings.cell[one.cell], "failure": one} for one in findings.failures]
        ),
    }
