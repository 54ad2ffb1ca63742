"""The warnings above the answer."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from touchstone.analysis.disturbed import REPEAT, Disturbed
from touchstone.analysis.doubts import Doubt
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.setup_model import setting_text
from touchstone.report.text import counts_text

NAMED = 5
"""Files that a warning names."""


class Alert(NamedTuple):
    """Why not to trust the numbers, what to do about it, and the command that does it."""

    fault: str
    remedy: str
    command: str = ""


def view(findings: Findings) -> dict[str, Any]:
    """The warnings of a study."""
    found = warnings(findings.disturbed, findings.doubts)
    return {
        "warnings": of_machines(findings.setup.machines) + found,
        "cautions": cautions(findings.disturbed, findings.doubts),
    }


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
            "make verify",
        )
    ]


def of_machines(machines: Iterable[dict[str, Any]]) -> list[Alert]:
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
            "Set it up in one way, and repeat all runs: move results/runs away and start again.",
        )
    ]


def warnings(disturbed: Disturbed | None, doubts: Iterable[Doubt]) -> list[Alert]:
    """The warnings above an answer: other programs first, then flags, then single runs."""
    return _alerts(disturbed, doubts, beside=False)


def cautions(disturbed: Disturbed | None, doubts: Iterable[Doubt]) -> list[Alert]:
    """What is said of the numbers of runs where the answer, from turns, does not rest on them."""
    return _alerts(disturbed, doubts, beside=True)


def _alerts(disturbed: Disturbed | None, doubts: Iterable[Doubt], beside: bool) -> list[Alert]:
    found = [doubt_warning(doubt) for doubt in doubts if doubt.beside == beside]
    if disturbed and disturbed.ratios_hold == beside:
        remedy = "End those programs and repeat the runs; finished ones are not repeated otherwise:"
        found.insert(0, Alert(f"{disturbed.fault}.", remedy, REPEAT))
    return found


def doubt_warning(doubt: Doubt) -> Alert:
    """The warning for one doubt."""
    if doubt.cause == "one run":
        return Alert(
            "Do not trust these numbers: every configuration ran only once, so a difference may be"
            " chance.",
            "Ask for 3 repeats or more.",
        )
    if doubt.cause == "cores apart":
        return Alert(
            f"Before or after {doubt.runs} of {doubt.total} runs the hypervisor had moved the cores"
            " further apart than they were at best. Frameworks whose threads often wait for one"
            " another are slower then, some more than others.",
            "Comparisons in turn leave such moments out (docs/interleaving.md); a machine without"
            " a hypervisor, or one whose virtual cores are pinned, has none.",
        )
    if len(doubt.flags) == 1:
        flags = f"flagged {next(iter(doubt.flags))}"
    else:
        flags = f"flagged ({counts_text(doubt.flags)})"
    return Alert(
        f"Do not trust these numbers: {doubt.runs} of {doubt.total} runs are {flags}.",
        "docs/measuring.md says what the flags mean.",
    )
