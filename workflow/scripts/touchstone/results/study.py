"""A gathered study in memory: what figures and the report are made from."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

from touchstone.plan.names import Stack, framework_name, setting_name
from touchstone.plan.setting import INFERENCE, OF_ALL, OPERATION, TRAINING, Kind
from touchstone.reading import rows_of
from touchstone.results.cores import CORES_APART, least_readings, were_apart
from touchstone.results.files import REMAKE, InputError, read_text
from touchstone.results.planned import (
    PlannedCell,
    comparable,
    counterparts,
    read_plan,
    read_records,
)
from touchstone.results.tables import OF_CELLS, counted_choices
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.spec import PINNED, TUNED

T = TypeVar("T")
UNSAID = {("evaluate_every", "0"), ("target_accuracy", ""), ("training_accuracy", "False")}
"""Settings that a label leaves out: what a run does not look at while it trains."""
FACET = ("network", "dataset", "device")
GROUP = ("framework", "style", "environment", *FACET, "batch_size")


class Result(NamedTuple):
    """One run: its values by metric (None: no number, the reason says why) and its record.

    Runs of one repeat that one execution made are of one `block`; `execution` is when it began,
    UTC, or empty in the records of older versions. An evaluation is the seconds of training until
    then, and the test accuracy.
    """

    repeat: int
    block: int
    execution: str
    status: str
    reason: str | None
    flags: list[str]
    values: dict[str, float | None]
    reasons: dict[str, str]
    losses: list[float | None]
    phases: dict[str, float]
    provenance: dict[str, Any]
    log_tail: list[str]
    reports: Sequence[dict[str, Any]] = ()
    evaluations: Sequence[tuple[float, float | None]] = ()


class Series(NamedTuple):
    """Cells of one framework in one environment and style that differ only in facet and batch size.

    `factors` are those that set it apart from others of the same framework, environment and style.
    """

    framework: str
    factors: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    environment: str = PINNED
    style: str = TUNED

    def without(self, factor: str) -> "Series":
        """The series of all that differ from this one in a factor only."""
        kept = [pair for pair in zip(self.factors, self.values, strict=True) if pair[0] != factor]
        names, values = (tuple(pair[i] for pair in kept) for i in range(2))
        return self._replace(factors=names, values=values)

    @property
    def stack(self) -> str:
        """The framework, in its environment and style."""
        return str(self._stack)

    @property
    def _stack(self) -> Stack:
        return Stack(self.framework, self.environment, self.style)

    @property
    def variant(self) -> str:
        """The style and the environment, unless they are the usual ones, and the factors, in
        words."""
        settings = zip(self.factors, self.values, strict=True)
        words = [
            setting_name(name, value, self.framework)
            for name, value in settings
            if (name, value) not in UNSAID
        ]
        return ", ".join(self._stack.variant + words)

    @property
    def label(self) -> str:
        """The framework's name, and in brackets its style and environment unless they are the usual
        ones, and what sets the series apart from its others."""
        name = framework_name(self.framework)
        return f"{name} ({self.variant})" if self.variant else name


class Cell(NamedTuple):
    """A planned cell with its series and its runs."""

    plan: PlannedCell
    series: Series
    runs: list[Result]

    @property
    def facet(self) -> tuple[str, str, str]:
        """Its network, data set and device."""
        settings = self.plan.settings
        return settings.network, settings.dataset, settings.device

    @property
    def batch_size(self) -> int:
        """Examples per step; 64 of an operation that has no batch."""
        return self.plan.settings.batch_size

    @property
    def kind(self) -> Kind:
        """What it does: `training`, `inference`, `operation` or `program`."""
        return self.plan.kind

    def values(self, metric: str) -> list[float]:
        """The numbers that there are, in order of repeats."""
        return [value for run in self.runs if (value := run.values[metric]) is not None]

    def by_block(self, metric: str) -> dict[int, float]:
        """The numbers that there are, by the block that they were measured in."""
        pairs = ((run.block, run.values[metric]) for run in self.runs)
        return {block: value for block, value in pairs if value is not None}

    @property
    def flags(self) -> list[str]:
        """The flags of all runs, each as often as it occurs."""
        return [flag for run in self.runs for flag in run.flags]

    def words(self, metric: str) -> list[str]:
        """What to print for the runs without a number: `oom`, `1/3 timeout`, `no value`."""
        missing = [run for run in self.runs if run.values[metric] is None]
        words = [run.status if run.status != "ok" else "no value" for run in missing]
        total = len(self.runs)
        counts = {word: words.count(word) for word in words}
        return [w if n == total else f"{n}/{total} {w}" for w, n in counts.items()]

    @property
    def chosen(self) -> str:
        """What `best` chose, with the number of runs; empty in another mode."""
        return counted_choices(run.provenance for run in self.runs)

    @property
    def failed(self) -> bool:
        """Whether a run of the cell is not ok."""
        return any(run.status != "ok" for run in self.runs)


@dataclass(frozen=True)
class Study:
    """All cells of a study in the order of the plan."""

    cells: list[Cell]

    @property
    def trained(self) -> "Study":
        """Its cells that train a network."""
        return self.doing(TRAINING)

    @property
    def inference(self) -> "Study":
        """Its cells that predict."""
        return self.doing(INFERENCE)

    @property
    def operations(self) -> "Study":
        """Its cells that call a basic operation."""
        return self.doing(OPERATION)

    def doing(self, kind: Kind) -> "Study":
        """Its cells of one kind."""
        return self._by_kind[kind]

    def compared_as(self, kind: Kind) -> "Study":
        """Its cells that are compared with cells of one kind; to those that train belong the
        programs that name their network and data."""
        return Study([c for c in self.cells if self._counterparts.get(c.plan.name, c).kind == kind])

    @cached_property
    def _counterparts(self) -> dict[str, PlannedCell]:
        return counterparts([cell.plan for cell in self.cells])

    @cached_property
    def _by_kind(self) -> dict[Kind, "Study"]:
        return {kind: Study([c for c in self.cells if c.kind == kind]) for kind in OF_ALL}

    @cached_property
    def series(self) -> list[Series]:
        return list(dict.fromkeys(cell.series for cell in self.cells))

    @cached_property
    def runs(self) -> list[Result]:
        return [run for cell in self.cells for run in cell.runs]

    @cached_property
    def round_seconds(self) -> float:
        """How long one run of every cell takes: the sum of the cells' medians."""
        times = [[sum(run.phases.values()) for run in cell.runs] for cell in self.cells]
        return sum(median(seconds) for seconds in times if seconds)

    def by_facet(self) -> dict[tuple[str, str, str], dict[int, list[Cell]]]:
        """Cells by facet and batch size; batch sizes ascend."""
        groups: dict[tuple[str, str, str], dict[int, list[Cell]]] = {
            cell.facet: {} for cell in self.cells
        }
        for cell in sorted(self.cells, key=lambda cell: cell.batch_size):
            groups[cell.facet].setdefault(cell.batch_size, []).append(cell)
        return groups

    def comparable(self) -> list[list[Cell]]:
        """The groups of cells that may be compared, each in order of the plan."""
        cells = {cell.plan.name: cell for cell in self.cells}
        groups = comparable(cell.plan for cell in self.cells)
        return [[cells[plan.name] for plan in group] for group in groups]

    def why_empty(self, metric: str) -> str | None:
        """The reasons why no run has this metric; None when one has.

        Where runs are ok, theirs: that the other ones failed does not explain a missing sensor.
        """
        if not self.runs:
            return "the study trains no network"
        if not all(metric in reasons for reasons in self._reasons):
            return None
        all_reasons = self._reasons_of_ok or self._reasons
        return "; ".join(dict.fromkeys(reasons[metric] for reasons in all_reasons))

    @cached_property
    def _reasons(self) -> list[dict[str, str]]:
        return each_once(run.reasons for run in self.runs)

    @cached_property
    def _reasons_of_ok(self) -> list[dict[str, str]]:
        return each_once(run.reasons for run in self.runs if run.status == "ok")


def _distinguishing(plan: list[PlannedCell]) -> tuple[str, ...]:
    """The factors in which cells of one framework, style, environment, facet, batch size and
    workload differ."""
    groups: dict[tuple[str, ...], list[PlannedCell]] = defaultdict(list)
    for cell in plan:
        groups[tuple(cell.factors.get(name, "") for name in (*GROUP, "workload"))].append(cell)
    return tuple(
        name
        for name in plan[0].factors
        if name not in (*GROUP, "workload")
        and any(len({cell.factors[name] for cell in group}) > 1 for group in groups.values())
    )


def _flags(path: Path) -> dict[str, list[str]]:
    """By cell, the flags that the study adds to its runs, from the summary."""
    by_cell: dict[str, str] = {}
    try:
        (_, header), *rows = rows_of(read_text(path, REMAKE))
        if missing := {"cell", "flags"} - set(header):
            raise ValueError(f"columns are missing: {', '.join(sorted(missing))}")
        for line, row in rows:
            if len(row) != len(header):
                raise ValueError(f"line {line} is damaged")
            by_cell[row[header.index("cell")]] = row[header.index("flags")]
    except ValueError as fault:
        raise InputError(path, str(fault), REMAKE) from None
    return {
        name: [flag for flag in OF_CELLS if flag in text.split()] for name, text in by_cell.items()
    }


class StudyBuilder:
    """Makes a study of its plan and of records that are given cell by cell, in order of the plan.

    It keeps a part of each record, and reasons that are equal in several of them once.
    """

    def __init__(self, plan: list[PlannedCell]) -> None:
        self.distinguishing = _distinguishing(plan)
        self.reasons: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self.blocks: dict[tuple[int, str], int] = {}
        self.cells: list[Cell] = []

    def add(self, cell: PlannedCell, records: Iterable[dict[str, Any]]) -> None:
        """Add the next cell with its records, which have the flags of the study too."""
        values = tuple(cell.factors[name] for name in self.distinguishing)
        stack = cell.stack
        series = Series(
            stack.framework, self.distinguishing, values, stack.environment, stack.style
        )
        self.cells.append(Cell(cell, series, list(map(self._result, records))))

    def _result(self, record: dict[str, Any]) -> Result:
        metrics = record["metrics"].items()
        execution = record["provenance"]["start"].get("execution") or ""
        block = self.blocks.setdefault((record["repeat"], execution), len(self.blocks) + 1)
        reasons = {name: metric["reason"] for name, metric in metrics if "reason" in metric}
        return Result(
            repeat=record["repeat"],
            block=block,
            execution=execution,
            status=record["status"],
            reason=record["reason"],
            flags=list(record["flags"]),
            values={name: metric["value"] for name, metric in metrics},
            reasons=self.reasons.setdefault(tuple(reasons.items()), reasons),
            losses=[epoch["loss"] for epoch in record["losses"]],
            phases=record["phases"],
            provenance=record["provenance"],
            log_tail=record.get("log_tail", []),
            reports=record.get("reports", []),
            evaluations=[(point["seconds"], point["accuracy"]) for point in record["evaluations"]],
        )

    def study(self) -> Study:
        """The study of all cells that were added."""
        return Study(self.cells)


def read_study(
    plan_path: Path, tables: Path, records: Path, interleaved: Sequence[Interleaved] = ()
) -> Study:
    """Read a study from its plan, its tables and its records, and what was measured in turn.

    Raises:
        InputError: one of them is missing or damaged, or they do not belong together.
    """
    plan = read_plan(plan_path)
    table_path = tables / "summary.csv"
    added = _flags(table_path)
    builder = StudyBuilder(plan)
    for cell, cell_records in read_records(plan, records):
        if cell.name not in added:
            cause = f"it lacks {cell.name}"
            raise InputError(table_path, cause, REMAKE)
        for record in cell_records:
            record["flags"] += added[cell.name]
        builder.add(cell, cell_records)
    study = builder.study()
    runs = ((cell.plan.name, run.provenance) for cell in study.cells for run in cell.runs)
    least = least_readings(runs, interleaved)
    for run in study.runs:
        run.flags.extend([CORES_APART] * were_apart(run.provenance, least))
    return study


def each_once(objects: Iterable[T]) -> list[T]:
    """Each object once, in order of first use; of equal ones all."""
    return list({id(item): item for item in objects}.values())


def distinct(values: Iterable[Any]) -> list[Any]:
    """The different values (anything JSON can hold), in order of first use."""
    by_text: dict[str, Any] = {}
    for value in each_once(values):  # most are shared
        by_text.setdefault(json.dumps(value, sort_keys=True), value)
    return list(by_text.values())


def machines(study: Study) -> list[dict[str, Any]]:
    """The different machines of the study's runs."""
    return distinct(run.provenance["machine"] for run in study.runs)


def describe_machine(machine: dict[str, Any]) -> str:
    """A machine in a few words, from what is known about it."""
    words = [machine.get("cpu_model") or "unknown CPU"]
    words.append(f"{machine['logical_cores']} logical cores")
    if machine.get("memory_mib"):
        words.append(f"{machine['memory_mib'] / 1024:.1f} GiB")
    gpus = [
        g.get("name", "GPU") if isinstance(g, dict) else str(g) for g in machine.get("gpus", [])
    ]
    words += [name if count == 1 else f"{count} x {name}" for name, count in Counter(gpus).items()]
    return ", ".join(words)
