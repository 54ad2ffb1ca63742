"""Writes the three tables of the planned records, and keeps the study that they show."""

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from touchstone.files import replacement
from touchstone.results.certificates import Certificates, proof_of
from touchstone.results.cores import CORES_APART, least_readings, were_apart
from touchstone.results.files import write_atomic
from touchstone.results.max_batch import METRIC, UNIT, MaxBatch, of_cell
from touchstone.results.metrics import CENSORED, METRICS, SPEED_OF, directions
from touchstone.results.models import has_ratios, models_of
from touchstone.results.planned import (
    COMPARED,
    FACTORS,
    PlannedCell,
    read_plan,
    read_records,
)
from touchstone.results.study import Study, StudyBuilder
from touchstone.results.tables import (
    COMPARISONS,
    DIFFERENT_ERA,
    MEASUREMENTS,
    PARITY_NOT_SHOWN,
    SUMMARY,
    chosen,
    counted,
    counted_choices,
    of_older_eras,
    remarks,
    trained_mode,
)
from touchstone.safe_text import csv_of
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.spec import PINNED
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import UNDECIDED, summarise

"""What turns measure: of networks, and of operations."""


def gather(
    plan_path: Path,
    records_folder: Path,
    output: Path,
    certificates: Certificates,
    max_batches: Sequence[MaxBatch] = (),
    released: Mapping[str, str | None] = MappingProxyType({}),
    interleaved: Sequence[Interleaved] = (),
) -> Study:
    """Write `measurements.csv`, `summary.csv` and `comparisons.csv` of the planned records.

    A row of measurements is one metric of one run. A row of the summary is one metric of one
    cell over all values that there are: `n` counts them, `status` counts the runs; where the
    largest batch was searched for, a last row has it, and the outcome of the search. A row of
    comparisons is one metric's ratio between two cells, the one planned later over the one
    planned earlier, from the blocks that have both (docs/statistics.md). `released` has the
    month of each framework's release, for the flag of those that are of another era. Where the
    cells were measured in turn, as `interleaved` says, the ratios of throughput are from there.

    Returns:
        The study, whose runs have the flags of the study too.
    """
    plan = read_plan(plan_path)
    # When an environment of the user's own was released is not known.
    frameworks = {c.settings.framework for c in plan if c.settings.environment == PINNED}
    older = of_older_eras({name: released.get(name) for name in frameworks})
    builder = StudyBuilder(plan)
    runs = ((cell.name, record["provenance"]) for cell, record in _each(plan, records_folder))
    least = least_readings(runs, interleaved)
    with (
        replacement(output / "measurements.csv") as measurements_path,
        replacement(output / "summary.csv") as summary_path,
        measurements_path.open("w", encoding="utf-8") as measurements,
        summary_path.open("w", encoding="utf-8") as summary,
    ):
        measurements.write(_fields(*MEASUREMENTS) + "\n")
        summary.write(_fields(*SUMMARY) + "\n")
        for cell, records in read_records(plan, records_folder):
            stack = str(cell.stack)
            parity = proof_of(certificates, cell.settings, stack).shown
            for record in records:
                # An operation is compared with double precision in its own run.
                shown = parity or record["metrics"]["deviation"]["value"] is not None
                record["flags"] += [PARITY_NOT_SHOWN] * (not shown)
                record["flags"] += [DIFFERENT_ERA] * (stack in older)
                record["flags"] += [CORES_APART] * were_apart(record["provenance"], least)
                measurements.writelines(_measurements(cell, record))
            summary.writelines(_summary(cell, records, of_cell(max_batches, cell.factors)))
            builder.add(cell, records)
    study = builder.study()
    write_atomic(output / "comparisons.csv", _comparisons(study, interleaved))
    return study


def _each(plan: Sequence[PlannedCell], folder: Path) -> Iterator[tuple[PlannedCell, Any]]:
    for cell, records in read_records(plan, folder):
        yield from ((cell, record) for record in records)


@lru_cache(maxsize=4096)
def _fields(*values: str | int | None) -> str:
    """Two values or more as a part of a line of CSV; what rows share is made once."""
    return csv_of([values]).removesuffix("\n")


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _measurements(cell: PlannedCell, record: dict[str, Any]) -> Iterator[str]:
    """The rows of a run."""
    factors = [cell.factors[name] for name in FACTORS]
    choice = (trained_mode(record["provenance"]), chosen(record["provenance"]))
    head = _fields(*factors, cell.name, record["repeat"], record["status"], *choice)
    flags = ", ".join(record["flags"])
    for name, metric in record["metrics"].items():
        unit, tail = _fields(name, metric["unit"]), _fields(flags, metric.get("reason"))
        numbers = f"{_number(metric['value'])},{_number(metric.get('censored_at'))}"
        yield f"{head},{unit},{numbers},{tail}\n"


def _summary(
    cell: PlannedCell, records: list[dict[str, Any]], search: MaxBatch | None
) -> Iterator[str]:
    """The rows of a cell, with that of the search for its largest batch."""
    status = counted((record["status"] for record in records), STATUSES)
    flags = counted(flag for record in records for flag in record["flags"])
    runs = [record["provenance"] for record in records]
    choices = (counted(filter(None, map(trained_mode, runs))), counted_choices(runs))
    head = _fields(*(cell.factors[name] for name in FACTORS), cell.name)
    for name, metric in METRICS.items():
        numbers = [record["metrics"][name]["value"] for record in records]
        beyond = numbers.count(None) if name in CENSORED else 0
        n, *spread = summarise([value for value in numbers if value is not None], beyond)
        censored = sum("censored_at" in record["metrics"][name] for record in records)
        unit, count = _fields(name, metric.unit), _fields(status, n)
        values, ending = ",".join(map(_number, spread)), _fields(flags, censored, *choices)
        yield f"{head},{unit},{count},{values},{ending}\n"
    if search:
        n, *spread = summarise([] if search.value is None else [search.value])
        unit, count = _fields(METRIC, UNIT), _fields(search.status, n)
        values, ending = ",".join(map(_number, spread)), _fields(flags, 0, *choices)
        yield f"{head},{unit},{count},{values},{ending}\n"


def _comparisons(study: Study, interleaved: Sequence[Interleaved]) -> str:
    """The table of all pairs of comparable cells, for every metric that has a scale of ratios."""
    table = io.StringIO()
    table.write(_fields(*COMPARISONS) + "\n")
    groups = study.comparable()
    models = {
        name: models_of(groups, name, interleaved)
        for name in METRICS
        if has_ratios(name)
        and (study.why_empty(name) is None or (name in SPEED_OF.values() and interleaved))
    }
    for number, group in enumerate(groups):
        for reference, cell in combinations(group, 2):
            provenances = ([run.provenance for run in side.runs] for side in (cell, reference))
            remark = ", ".join(remarks(*provenances))
            flags, reference_flags = counted(cell.flags), counted(reference.flags)
            names = cell.plan.name, reference.plan.name
            same = [cell.plan.factors[name] for name in FACTORS if name not in COMPARED]
            own = [c.plan.factors[name] for c in (cell, reference) for name in COMPARED]
            head = _fields(*same, *own, *names)
            for name, fitted in models.items():
                model = fitted[number]
                ratio = model.group.ratio(*names)
                if ratio is None:
                    continue
                low, high = ratio.interval() or (None, None)
                detectable = ratio.detectable, *(ratio.detectable_limits or (None, None))
                numbers = ",".join(map(_number, (ratio.value, low, high, *detectable)))
                verdict = (
                    ratio.verdict(directions(name), UNDECIDED),
                    "yes" if ratio.indicative else "no",
                )
                unit = _fields(name, METRICS[name].unit, ratio.n)
                tail = _fields(*verdict, remark, flags, reference_flags, model.basis)
                table.write(f"{head},{unit},{numbers},{tail}\n")
    return table.getvalue()
