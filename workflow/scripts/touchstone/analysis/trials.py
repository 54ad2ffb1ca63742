"""What the trials of the mode `best` found: the settings that each run chose, and by how much."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from touchstone.measure.trials import fastest
from touchstone.results.metrics import STATUSES
from touchstone.results.study import Cell, Result, Study
from touchstone.results.tables import FACTORS, counted, tried

COLUMNS = (
    *(name for name in FACTORS if name != "mode"),
    *("cell", "repeat", "mode", "threads", "wait_policy", "chosen", "status", "reason"),
    *("throughput", "chosen_is_faster_by", "first_step_time", "files"),
)


class Trial(NamedTuple):
    """A trial of some settings by one run of a cell.

    `told` is what the record keeps of it: `mode`, `threads`, `wait_policy`, `status`, `reason`,
    `throughput` (images/s), `first_step_time` (s), `folder`; `settings` says in words what it
    tried. `faster` is the throughput of the chosen trial over its own.
    """

    cell: Cell
    run: Result
    told: dict[str, Any]
    settings: str
    chosen: bool
    faster: float | None

    @property
    def files(self) -> str:
        """The folder of its spec, events, telemetry and log, from the working folder."""
        return f"{self.run.provenance['run']}/{self.told['folder']}"

    @property
    def link(self) -> str:
        """Its events, from the folder of the report."""
        return f"../{self.files.removeprefix('results/')}/events.jsonl"


class Choice(NamedTuple):
    """What was tried of a cell, over all of its repeats; `faster` is the median over its trials."""

    cell: Cell
    settings: str
    trials: list[Trial]

    @property
    def chosen(self) -> int:
        """How many runs of the cell trained so."""
        return sum(trial.chosen for trial in self.trials)

    @property
    def throughput(self) -> float | None:
        """The median of its trials, images/s."""
        found = [trial.told["throughput"] for trial in self.trials]
        return _median(found)

    @property
    def faster(self) -> float | None:
        """How many times as fast was what the run chose."""
        return _median([trial.faster for trial in self.trials])

    @property
    def words(self) -> str:
        """How the trials ended that gave no number."""
        told = [trial.told["status"] for trial in self.trials if trial.told["throughput"] is None]
        return counted(told, STATUSES)

    @property
    def reasons(self) -> list[str]:
        """Why, each reason once."""
        return list(dict.fromkeys(t.told["reason"] for t in self.trials if t.told["reason"]))


def _median(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return median(known) if known else None


def trials(study: Study) -> list[Trial]:
    """Every trial of a study, in the order of the plan, the repeats and the run's own."""
    found = []
    for cell in study.cells:
        for run in cell.runs:
            all_of_run = run.provenance.get("trials", [])
            best = fastest(all_of_run)
            for one in all_of_run:
                ours, settings = one["throughput"], tried(one, all_of_run[0])
                faster = best["throughput"] / ours if best and ours else None
                found.append(Trial(cell, run, one, settings, one is best, faster))
    return found


def choices(study: Study) -> list[Choice]:
    """What was tried, cell by cell."""
    grouped: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials(study):
        grouped.setdefault((trial.cell.plan.name, trial.settings), []).append(trial)
    return [Choice(group[0].cell, settings, group) for (_, settings), group in grouped.items()]


def rows(found: Sequence[Trial]) -> list[list[object]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [
        [
            *(trial.cell.plan.factors[name] for name in FACTORS if name != "mode"),
            trial.cell.plan.name,
            trial.run.repeat,
            trial.told["mode"],
            trial.told["threads"],
            trial.told["wait_policy"],
            "yes" if trial.chosen else "no",
            trial.told["status"],
            trial.told["reason"],
            trial.told["throughput"],
            trial.faster,
            trial.told["first_step_time"],
            trial.files,
        ]
        for trial in found
    ]
