"""The page of the gate: what changed between two sides, and whether it passes."""

from collections import Counter

from touchstone.analysis.gate import Gate
from touchstone.analysis.gate_text import (
    amounts_of,
    configurations,
    interval_of,
    percent,
    verdict_of,
)
from touchstone.report.rendering import templates
from touchstone.report.rows import first_rows


def make_page(gate: Gate, title: str, table: str) -> str:
    """The page, HTML.

    Args:
        title: what is compared.
        table: the name of the file with all changes, beside the page.
    """
    differences = Counter(text for change in gate.changes for text in change.differences)
    return (
        templates()
        .get_template("gate.html.j2")
        .render(
            title=title,
            answer=verdict_of(gate),
            gate=gate,
            changes=first_rows(gate.changes),
            differences=differences,
            table=table,
            amounts=amounts_of,
            interval=interval_of,
            percent=percent,
            configurations=configurations,
        )
    )
