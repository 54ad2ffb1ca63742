"""The warnings above the answer."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from touchstone import started
from touchstone.analysis.again import ALL, DISTURBED, Kept
from touchstone.analysis.disturbed import REMEDY, Disturbed
from touchstone.analysis.doubts import Doubt
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.setup_model import setting_text
from touchstone.report.text import counts_text

NAMED = 5
"""Files that a warning names."""
REPEATS = 3
"""The least with which differences of runs have an interval that is of use."""


class Alert(NamedTuple):
    """Why not to trust the numbers, what to do about it, and the command that does it."""

    fault: str
    remedy: str
    command: str = ""


def of_study(findings: Findings, kept: Kept) -> list[Alert]:
    """The warnings of a study, whose report keeps its configuration."""
    alerts = warnings(findings.disturbed, findings.doubts, kept)
    return of_machines(findings.setup.machines, kept) + alerts


def of_changed(files: Sequence[str]) -> list[Alert]:
    """The warning that files of the results were changed after they were written, or none."""
    if not files:
        return []
    named = ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED} more" * (len(files) > NAMED))
    return [
        Alert(
            f"Do not trust these numbers: {named} {'is' if len(files) == 1 else 'are'} not what"
            " Touchstone wrote.",
            "Delete these files, of a run its folder, and run the workflow again. To list all:",
            started.verify(),
        )
    ]


def of_machines(machines: Iterable[dict[str, Any]], kept: Kept) -> list[Alert]:
    """The warning that a machine was set up differently for some of its runs, or none.

    `machines` are the different ones of the study; those with one name are the same machine.
    """
    by_name: dict[Any, list[dict[str, Any]]] = {}
    for machine in machines:
        by_name.setdefault(machine.get("hostname"), []).append(machine)
    changes = []
    for states in by_name.values():
        for fact in dict.fromkeys(fact for state in states for fact in state):
            values = list(dict.fromkeys(setting_text(state.get(fact)) for state in states))
            if len(values) > 1:
                changes.append(f"{fact} ({' and '.join(values[:NAMED])})")
    if not changes:
        return []
    named = ", ".join(changes[:NAMED]) + (", and more" * (len(changes) > NAMED))
    return [
        Alert(
            f"Do not trust these numbers: the machine changed between runs: {named}.",
            "Set it up in one way, and repeat all runs:",
            kept.again(ALL),
        )
    ]


def warnings(disturbed: Disturbed | None, doubts: Iterable[Doubt], kept: Kept) -> list[Alert]:
    """The warnings above an answer: other programs first, then flags, then single runs."""
    return _alerts(disturbed, doubts, kept, beside=False)


def cautions(disturbed: Disturbed | None, doubts: Iterable[Doubt], kept: Kept) -> list[Alert]:
    """What is said of the numbers of runs where the answer, from turns, does not rest on them."""
    return _alerts(disturbed, doubts, kept, beside=True)


def _alerts(
    disturbed: Disturbed | None, doubts: Iterable[Doubt], kept: Kept, beside: bool
) -> list[Alert]:
    alerts = [doubt_warning(doubt, kept) for doubt in doubts if doubt.beside == beside]
    if disturbed and disturbed.ratios_hold == beside:
        alerts.insert(0, Alert(f"{disturbed.fault}.", REMEDY, kept.again(DISTURBED)))
    return alerts


def doubt_warning(doubt: Doubt, kept: Kept) -> Alert:
    """The warning for one doubt."""
    if doubt.cause == "one run":
        return Alert(
            "Do not trust these numbers: every configuration ran only once, so a difference may be"
            " chance.",
            f"Write {kept.edit(REPEATS)} into the study's file and run it again; finished runs are"
            " kept.",
        )
    if doubt.cause == "cores apart":
        return Alert(
            f"Before or after {doubt.runs} of {doubt.total} runs the hypervisor had moved the cores"
            " further apart than they were at best. Frameworks whose threads often wait for one"
            " another are slower then, some more than others.",
            "Comparisons in turn leave such moments out (docs/measuring.md); a machine without"
            " a hypervisor, or with pinned virtual cores, has no such moments.",
        )
    if len(doubt.flags) == 1:
        flags = f"flagged {next(iter(doubt.flags))}"
    else:
        flags = f"flagged ({counts_text(doubt.flags)})"
    return Alert(
        f"Do not trust these numbers: {doubt.runs} of {doubt.total} runs are {flags}.",
        "docs/measuring.md says what the flags mean. To repeat these runs:",
        kept.again(DISTURBED),
    )
