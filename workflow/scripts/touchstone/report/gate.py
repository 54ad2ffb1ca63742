"""The page of the gate: what changed between two sides, and whether it passes."""

from collections import Counter

from markupsafe import Markup

from touchstone.analysis.gate import Gate
from touchstone.analysis.gate_text import (
    amounts_of,
    configurations,
    interval_of,
    percent,
    verdict_of,
)
from touchstone.report.rendering import templates
from touchstone.report.rows import ROWS
from touchstone.report.table import Column, Table


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
            changes=_changes(gate),
            total=len(gate.changes),
            differences=differences,
            table=table,
            interval=interval_of,
            configurations=configurations,
        )
    )


def _changes(gate: Gate) -> Table:
    """The first changes; those that cannot be compared have the reason instead of numbers."""
    columns = (
        Column("Configuration", lambda c: Markup("<code>{}</code>").format(c.cell), css="name"),
        Column("Old, new", lambda change: amounts_of(change) if change.ratio else None),
        Column(
            "New / old",
            lambda change: interval_of(change.ratio) if change.ratio else None,
            Markup("95&nbsp;% interval"),
        ),
        Column("Verdict", lambda change: change.verdict, css="text"),
        Column(
            "Slowdown that is not excluded",
            lambda change: percent(gate.slowdown(change.whole)) if change.ratio else None,
            "up to",
        ),
        Column("From", lambda c: c.basis if c.ratio else c.why, css="text"),
    )
    return Table("changes", columns, gate.changes[:ROWS])
