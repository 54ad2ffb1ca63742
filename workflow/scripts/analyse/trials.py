"""What the trials of the mode `best` found: the mode that each run chose, and by how much."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from analyse.metrics import STATUSES
from analyse.study import Cell, Result, Study
from analyse.tables import FACTORS, counted

COLUMNS = (
    *(name for name in FACTORS if name != "mode"),
    *("cell", "repeat", "mode", "chosen", "status", "reason", "throughput", "chosen_is_faster_by"),
    *("first_step_time", "files"),
)


class Trial(NamedTuple):
    """A trial of one mode by one run of a cell.

    `told` is what the record keeps of it: `mode`, `status`, `reason`, `throughput` (images/s),
    `first_step_time` (s). `faster` is the throughput of the chosen mode's trial over its own.
    """

    cell: Cell
    run: Result
    told: dict[str, Any]
    chosen: bool
    faster: float | None

    @property
    def files(self) -> str:
        """The folder of its spec, events, telemetry and log, from the working folder."""
        return f"{self.run.provenance['run']}/trials/{self.told['mode']}"

    @property
    def link(self) -> str:
        """Its events, from the folder of the report."""
        return f"../{self.files.removeprefix('results/')}/events.jsonl"


class Choice(NamedTuple):
    """A mode of a cell over all of its repeats; `faster` is the median over its trials."""

    cell: Cell
    mode: str
    trials: list[Trial]

    @property
    def chosen(self) -> int:
        """How many runs of the cell trained in it."""
        return sum(trial.chosen for trial in self.trials)

    @property
    def throughput(self) -> float | None:
        """The median of its trials, images/s."""
        found = [trial.told["throughput"] for trial in self.trials]
        return _median(found)

    @property
    def faster(self) -> float | None:
        """How many times as fast the mode was that the run chose."""
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
    """Every trial of a study, in the order of the plan, the repeats and the modes."""
    found = []
    for cell in study.cells:
        for run in cell.runs:
            tried = run.provenance.get("trials", [])
            # The run chose as we do here: it trained in the mode with the highest throughput.
            best = max((told["throughput"] or 0.0 for told in tried), default=0.0)
            for told in tried:
                ours = told["throughput"]
                faster = best / ours if ours else None
                found.append(Trial(cell, run, told, faster == 1, faster))
    return found


def choices(study: Study) -> list[Choice]:
    """The modes that were tried, cell by cell."""
    grouped: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials(study):
        grouped.setdefault((trial.cell.plan.name, trial.told["mode"]), []).append(trial)
    return [Choice(group[0].cell, mode, group) for (_, mode), group in grouped.items()]


def rows(found: Sequence[Trial]) -> list[list[object]]:
    """The table's rows, as `COLUMNS`; None where there is no number."""
    return [
        [
            *(trial.cell.plan.factors[name] for name in FACTORS if name != "mode"),
            trial.cell.plan.name,
            trial.run.repeat,
            trial.told["mode"],
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
