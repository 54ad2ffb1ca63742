"""How the runs of a study ended, and what flags they have."""

from collections import Counter
from collections.abc import Iterable

from touchstone.analysis.findings_model import Failure
from touchstone.analysis.ranking_model import ComparisonSummary
from touchstone.results.flags import FLAGS
from touchstone.results.study import Study
from touchstone.results.tables import STUDY_FLAGS
from touchstone.schema.status import STATUSES


def outcomes(study: Study) -> dict[str, int]:
    """The number of runs of each outcome."""
    counts = Counter(run.status for run in study.runs)
    return {status: counts[status] for status in STATUSES}


def failures(study: Study) -> list[Failure]:
    """Every run that is not ok; the repeats of a cell that failed alike share an entry."""
    groups: dict[tuple[str, str, str | None], list[int]] = {}
    log_tails: dict[tuple[str, str, str | None], list[str]] = {}
    for cell in study.cells:
        for run in cell.runs:
            if run.status != "ok":
                key = (cell.plan.name, run.status, run.reason)
                groups.setdefault(key, []).append(run.repeat)
                log_tails.setdefault(key, run.log_tail)
    return [
        Failure(
            cell=name,
            status=status,
            reason=reason,
            repeats=repeats,
            log_tail=log_tails[name, status, reason],
        )
        for (name, status, reason), repeats in groups.items()
    ]


def flags(study: Study, comparisons: Iterable[ComparisonSummary]) -> dict[str, int]:
    """Runs by flag; for a flag of the study that no run has, the comparisons with that remark."""
    runs = Counter(flag for run in study.runs for flag in run.flags)
    sets = ({r for pair in comparison.pairs for r in pair.remarks} for comparison in comparisons)
    remarks = Counter(remark for group in sets for remark in group)
    return {name: runs[name] for name in FLAGS} | {
        name: runs[name] or remarks[name] for name in STUDY_FLAGS
    }
