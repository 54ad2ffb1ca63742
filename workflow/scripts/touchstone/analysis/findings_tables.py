"""The tables of the findings, in CSV and in Markdown; docs/contracts.md has their columns."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from touchstone.analysis.bottleneck_model import Bottleneck
from touchstone.analysis.findings_model import Findings, TrialSummary
from touchstone.analysis.part import RatioEstimate
from touchstone.analysis.profile_model import LayerProfile, ProfiledCell
from touchstone.results.files import write_atomic
from touchstone.results.planned import FACTORS
from touchstone.results.tables import counted
from touchstone.safe_text import csv_of
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import NO_DIFFERENCE, TOO_FEW, UNDECIDED

PLACE = ("framework", "environment", "style", "network", "dataset", "device", "batch_size")
"""The factors that every table in Markdown shows."""


class Column(NamedTuple):
    """A column of a table: its name, and the value of a row, None where there is none.

    `shown`: the table in Markdown has it too.
    """

    name: str
    value: Callable[[Findings, Any], object]
    shown: bool = False


class Table(NamedTuple):
    """A table: its name, its columns, its rows, and what Markdown has for no row.

    The `cell` of a row is the name of its cell.
    """

    name: str
    columns: Sequence[Column]
    rows: Callable[[Findings], Sequence[Any]]
    empty: str = ""


def write(findings: Findings, folder: Path, *, scaling: bool, profile: bool) -> None:
    """Write `precision`, `bottleneck` and `trials`, each as .csv and .md, into the folder, and on
    request `scaling.csv` and `profile.csv`."""
    for table in (PRECISION, BOTTLENECK, TRIALS):
        write_atomic(folder / f"{table.name}.csv", as_csv(table, findings))
        write_atomic(folder / f"{table.name}.md", as_markdown(table, findings))
    for table in [SCALING] * scaling + [PROFILE] * profile:
        write_atomic(folder / f"{table.name}.csv", as_csv(table, findings))


def as_csv(table: Table, findings: Findings) -> str:
    """All columns of a table."""
    header = [column.name for column in table.columns]
    rows = table.rows(findings)
    return csv_of([header, *([c.value(findings, row) for c in table.columns] for row in rows)])


def as_markdown(table: Table, findings: Findings) -> str:
    """The columns of a table that are shown, numbers with four digits."""
    rows = table.rows(findings)
    if not rows:
        return f"{table.empty}\n"
    shown = [column for column in table.columns if column.shown]
    lines = [[column.name.replace("_", " ") for column in shown], ["---"] * len(shown)]
    lines += [[_text(column.value(findings, row)) for column in shown] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


# Columns


def _fields(*names: str, of: str = "", shown: bool = False) -> list[Column]:
    """Columns with the names of fields of their rows, or of the rows' field `of`."""

    def column(name: str) -> Column:
        field = attrgetter(f"{of}.{name}" if of else name)
        return Column(name, lambda _, row: field(row), shown)

    return list(map(column, names))


def _factor(name: str, of: str = "cell") -> Callable[[Findings, Any], str]:
    return lambda findings, row: findings.cell[getattr(row, of)].factors[name]


def _factors(without: str = "", shown: Sequence[str] = PLACE) -> list[Column]:
    return [Column(name, _factor(name), name in shown) for name in FACTORS if name != without]


def _median(metric: str, of: str = "cell") -> Callable[[Findings, Any], float | None]:
    def value(findings: Findings, row: Any) -> float | None:
        summary = findings.cell[getattr(row, of)].metrics.get(metric)
        return summary.median if summary else None

    return value


def _ratio(name: str, of: str, shown: bool = False) -> list[Column]:
    """A ratio: blocks, value and the ends of the interval."""

    def column(name: str, field: str, missing: int | None = None) -> Column:
        return Column(name, lambda _, row: getattr(getattr(row, of), field, missing), shown)

    names = {"n": "n", name: "value", "low": "low", "high": "high"}
    return [column(*pair, missing=0 if pair[1] == "n" else None) for pair in names.items()]


def _verdict(ratio: RatioEstimate | None) -> str:
    """The verdict in the words of tables."""
    if ratio is None:
        return TOO_FEW
    return NO_DIFFERENCE if ratio.verdict == UNDECIDED else ratio.verdict


def _flags(of: str = "cell") -> Callable[[Findings, Any], str]:
    return lambda findings, row: counted(findings.cell[getattr(row, of)].flags)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# Tables

PRECISION = Table(
    "precision",
    (
        *_factors(without="precision"),
        Column("precision", _factor("precision"), shown=True),
        Column("reference_precision", _factor("precision", "reference")),
        Column("cell", lambda _, gain: gain.cell),
        Column("reference_cell", lambda _, gain: gain.reference),
        Column("status", lambda of, gain: counted(of.cell[gain.cell].outcomes, STATUSES)),
        *_ratio("throughput_ratio", "throughput", shown=True),
        Column(
            "verdict",
            lambda _, gain: _verdict(gain.throughput) if gain.throughput else None,
            shown=True,
        ),
        Column("test_accuracy", _median("test_accuracy"), shown=True),
        Column("reference_test_accuracy", _median("test_accuracy", "reference")),
        *_fields("accuracy_change", shown=True),
        *_fields("accuracy_low", "accuracy_high"),
        *_fields("memory_metric", "memory", "reference_memory"),
        *_fields("memory_ratio", shown=True),
        Column("flags", _flags()),
    ),
    lambda findings: findings.precision,
    "No cells of this study differ by precision only.",
)

SIGNS = {
    "input_share": "reading",
    "cpu_time_of_reading": "CPU time of reading",
    "copy_share": "PCIe link",
    "launch_share": "batch size",
    "gpu_idle": "idle GPU",
    "busy_cores": "busy cores",
    "switches_per_core": "context switches",
    "share_of_peak": "measured peak",
}
"""The kind of evidence on a bottleneck by the name of its column."""
SIGNS_SHOWN = {
    *("input_share", "launch_share", "launch_share_low", "launch_share_high", "gpu_idle"),
    *("busy_cores", "switches_per_core", "share_of_peak"),
}


def _signs() -> Iterator[Column]:
    """For each kind of evidence its estimate and the ends of its interval."""

    def value(kind: str, field: str) -> Callable[[Findings, Bottleneck], float | None]:
        return lambda _, bottleneck: next(
            (getattr(sign, field) for sign in bottleneck.evidence if sign.kind == kind), None
        )

    for name, kind in SIGNS.items():
        for field, column in ("value", name), ("low", f"{name}_low"), ("high", f"{name}_high"):
            yield Column(column, value(kind, field), column in SIGNS_SHOWN)


BOTTLENECK = Table(
    "bottleneck",
    (
        *_factors(shown=(*PLACE, "precision", "input")),
        *_fields("cell"),
        *_fields("verdict", "why", shown=True),
        Column("throughput", _median("throughput")),
        *_fields("resident_cell"),
        *_ratio("throughput_ratio", "throughput")[1:],
        *_signs(),
        Column("cpu_utilization", _median("cpu_utilization")),
        *_fields("bottleneck", shown=True),
        Column("flop_rate", _median("flop_rate")),
        *_fields("peak_flop_rate", "share_of_peak_missing"),
        Column("flags", _flags()),
    ),
    lambda findings: findings.bottlenecks,
    "This study trains no network.",
)


class _CellTrial(NamedTuple):
    """A trial by a run of a cell."""

    cell: str
    trial: TrialSummary


def _trials(findings: Findings) -> list[_CellTrial]:
    """The trials of each run, in order of the plan and of repeats."""
    place = {cell.name: number for number, cell in enumerate(findings.cells)}
    rows = [_CellTrial(c.cell, trial) for c in findings.choices for trial in c.trials]
    return sorted(rows, key=lambda row: (place[row.cell], row.trial.repeat))


TRIALS = Table(
    "trials",
    (
        *_factors(without="mode"),
        *_fields("cell"),
        *_fields("repeat", "mode", "threads", "wait_policy", of="trial", shown=True),
        Column("chosen", lambda _, row: _yes(row.trial.chosen), shown=True),
        *_fields("status", of="trial", shown=True),
        *_fields("reason", of="trial"),
        *_fields("throughput", of="trial", shown=True),
        Column("ratio_to_default", lambda _, row: row.trial.ratio, shown=True),
        *_fields("low", "high", of="trial", shown=True),
        *_fields("sets", "chosen_is_faster_by", "first_step_time", "files", of="trial"),
    ),
    _trials,
    "No cell of this study has the mode best.",
)

SCALING = Table(
    "scaling",
    (
        *_factors(),
        Column("scaling", lambda _, scaling: scaling.kind),
        *_fields("nodes", "replicas", "resources", "cell"),
        Column("reference_cell", lambda _, scaling: scaling.baseline),
        Column("throughput", _median("throughput")),
        Column("reference_throughput", _median("throughput", "baseline")),
        *_ratio("speedup", "speedup"),
        *_fields("efficiency", "efficiency_low", "efficiency_high"),
        Column("verdict", lambda _, scaling: _verdict(scaling.speedup)),
        Column(
            "indicative",
            lambda _, scaling: _yes(scaling.speedup is None or scaling.speedup.indicative),
        ),
        *_fields("reason"),
        Column("flags", _flags()),
        Column("reference_flags", _flags("baseline")),
    ),
    lambda findings: findings.scaling,
)

OTHER = "(other)"
"""The row of a profile for what is no layer's."""


class _Layer(NamedTuple):
    """A row of a profile: layers that are computed together, what is no layer's, or the cell only,
    where there is no profile. Times are in seconds."""

    cell: str
    status: str
    reason: str | None
    step_s: float | None = None
    profiled_step_s: float | None = None
    layer: str | None = None
    op: str | None = None
    forward_s: float | None = None
    backward_s: float | None = None
    total_s: float | None = None
    share: float | None = None


def _layers(findings: Findings) -> list[_Layer]:
    """The layers of each cell and what is no layer's, in order of the plan."""
    profiles = {cell.cell: (cell, group) for group in findings.profiles for cell in group.cells}
    named = [cell.name for cell in findings.cells if cell.name in profiles]
    return [row for name in named for row in _layers_of(*profiles[name])]


def _layers_of(cell: ProfiledCell, group: LayerProfile) -> Iterator[_Layer]:
    empty = _Layer(cell.cell, cell.status, cell.reason, cell.step, cell.profiled_step)
    if cell.step is None:
        yield empty
        return
    for row in group.rows:
        if times := row.seconds.get(cell.cell):
            yield empty._replace(
                layer=" + ".join(row.layers),
                op=" + ".join(row.ops),
                forward_s=times.forward,
                backward_s=times.backward,
                total_s=(times.forward or 0.0) + (times.backward or 0.0),
                share=times.share,
            )
    yield empty._replace(layer=OTHER, total_s=cell.other, share=cell.other_share)


PROFILE = Table(
    "profile",
    (
        *_factors(),
        *_fields("cell", "layer", "op", "forward_s", "backward_s", "total_s", "share"),
        *_fields("step_s", "profiled_step_s", "status", "reason"),
    ),
    _layers,
)
