"""Which planned runs have no result, and the exit status that says so (docs/commands.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from touchstone.measure import attempts
from touchstone.measure.runner_output import shortened
from touchstone.safe_text import one_line
from touchstone.schema.status import STATUSES, UNSUPPORTED

if TYPE_CHECKING:
    from touchstone.analysis.findings_model import Failure

SOME_LACK, ALL_LACK = 3, 4
"""Exit statuses: all pages are written, and some of the planned runs, or all, have no result."""


class Ended(NamedTuple):
    """A run without numbers: what ended it, and whether a study expects that."""

    cell: str
    repeat: int
    status: str
    reason: str
    expected: bool


def ended(failures: Iterable[Failure], runs: Path) -> Iterator[Ended]:
    """The runs that are not ok.

    A study expects that something is unsupported, by the framework or for want of a GPU: the same
    study has numbers elsewhere. It does not where every execution tries again, as for want of an
    interpreter.

    Args:
        failures: of a study's findings.
        runs: the folder of all runs.
    """
    for failure in failures:
        for repeat in failure.repeats:
            unsupported = failure.status == UNSUPPORTED
            expected = unsupported and failure.reason not in _faults(runs, failure.cell, repeat)
            yield Ended(failure.cell, repeat, failure.status, failure.reason or "", expected)


def status_of(endings: Iterable[Ended], total: int) -> int:
    """The exit status of a strict study with so many runs, of which these are not ok."""
    lacking = sum(not ending.expected for ending in endings)
    return 0 if not lacking else ALL_LACK if lacking == total else SOME_LACK


def lines_of(endings: Sequence[Ended], total: int) -> list[str]:
    """How many runs have no result, and each reason once; the outcomes that a study expects too."""
    lacking = [ending for ending in endings if not ending.expected]
    expected = [ending for ending in endings if ending.expected]
    lines = _reasons(expected)
    if expected:
        lines.insert(0, f"{len(expected)} of {total} runs are unsupported:")
    if lacking:
        counts = Counter(ending.status for ending in lacking)
        words = ", ".join(f"{status} {counts[status]}" for status in STATUSES if counts[status])
        have = "has" if len(lacking) == 1 else "have"
        lines += [f"{len(lacking)} of {total} runs {have} no result ({words}):"]
        lines += _reasons(lacking)
    return lines


def _reasons(endings: Iterable[Ended]) -> list[str]:
    """A line for each reason, with the number of its runs and the first of them."""
    groups: dict[tuple[str, str], list[Ended]] = {}
    for ending in endings:
        groups.setdefault((ending.status, ending.reason), []).append(ending)
    return [
        f"  {status}: {reason} ({group[0].cell} rep{group[0].repeat}"
        + (f" and {len(group) - 1} more)" if len(group) > 1 else ")")
        for (status, reason), group in groups.items()
    ]


def _faults(runs: Path, cell: str, repeat: int) -> set[str]:
    """The reasons that are recorded as faults of a run, as its record has them."""
    try:
        reasons = attempts.reasons(runs / cell / f"rep{repeat}")
    except ValueError:
        return set()  # `verify` names the file
    return {one_line(shortened(reason)) for reason in reasons}
