"""The three tables of the planned records."""

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from touchstone.measure.trials import fastest
from touchstone.plan.names import stack_of
from touchstone.results.certificates import Certificates, proof
from touchstone.results.files import (
    write_atomic,
)
from touchstone.results.interleaved import compare_with_turns, turns_of
from touchstone.results.max_batch import METRIC, UNIT, MaxBatch, of_cell
from touchstone.results.metrics import CENSORED, METRICS
from touchstone.results.planned import (
    COMPARED,
    FACTORS,
    PlannedCell,
    comparable,
    kind_of,
    read_plan,
    read_records,
)
from touchstone.safe_text import csv_of
from touchstone.schema.interleaved import Interleaved
from touchstone.schema.spec import PINNED, Trial
from touchstone.schema.status import STATUSES
from touchstone.schema.values import from_json
from touchstone.statistics.groups import Group
from touchstone.statistics.intervals import UNDECIDED, summarise

MEASUREMENTS = (
    *FACTORS,
    *("cell", "repeat", "status", "trained_mode", "best_chose"),
    *("metric", "unit", "value", "censored_at", "flags", "reason"),
)
SUMMARY = (
    *FACTORS,
    *("cell", "metric", "unit", "status", "n", "median", "mean", "min", "max", "sd", "cv", "flags"),
    *("censored", "trained_modes", "best_chose"),
)
COMPARISONS = (
    *(name for name in FACTORS if name not in COMPARED),
    *COMPARED,
    *(f"reference_{name}" for name in COMPARED),
    *("cell", "reference_cell"),
    *("metric", "unit", "n", "ratio", "low", "high", "detectable", "detectable_low"),
    *("detectable_high", "verdict", "indicative", "remarks", "flags", "reference_flags", "basis"),
)
REMARKED = ("machine", "software")
"""The parts of a provenance that the remarks on a comparison come from."""
PARITY_NOT_SHOWN = "parity_not_shown"
DIFFERENT_ERA = "different_era"
STUDY_FLAGS = {
    PARITY_NOT_SHOWN: "No certificate says that this framework computes this network as the"
    " reference does; there is none in a precision of products with fewer bits than fp32.",
    "different_machine": "The two cells of a comparison did not run on the same machines: their"
    " ratio is also one of machines.",
    DIFFERENT_ERA: "The framework was released more than five years before another one of the"
    " study, or the two cells of a comparison use CUDA libraries of different major versions: their"
    " ratio is also one of eras.",
}
"""What the study adds to the flags of records: the first and the last to runs, the last two to
comparisons."""
ERA = 60
"""Months between the releases of two frameworks, beyond which they are of different eras."""


def counted(words: Iterable[str], order: Iterable[str] = ()) -> str:
    """Words with their counts, `ok 2, timeout 1`, in the given order, then alphabetical."""
    counts = Counter(words)
    first = [word for word in order if word in counts]
    rest = sorted(counts.keys() - set(first))
    return ", ".join(f"{word} {counts[word]}" for word in first + rest)


def shared(provenance: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """A provenance whose parts are kept once for all that are equal; `seen` holds them."""
    return {name: seen.setdefault(repr(part), part) for name, part in provenance.items()}


def remarks(ours: Iterable[dict[str, Any]], theirs: Iterable[dict[str, Any]]) -> list[str]:
    """What two cells' provenances differ in that makes their ratio more than one of frameworks."""
    sides = [list(ours), list(theirs)]
    machines = [[run["machine"] for run in side] for side in sides]
    eras = [{_cuda(run["software"]) for run in side} - {None} for side in sides]
    apart = any(one not in machines[0] for one in machines[1]) or any(
        one not in machines[1] for one in machines[0]
    )
    return ["different_machine"] * apart + [DIFFERENT_ERA] * (
        bool(eras[0] and eras[1]) and eras[0] != eras[1]
    )


def of_older_eras(released: dict[str, str | None]) -> set[str]:
    """The frameworks whose release lies more than `ERA` months before another's.

    `released` has by framework its month, `YYYY-MM`, or None where that is not known.
    """
    months = {
        framework: 12 * int(month[:4]) + int(month[5:])
        for framework, month in released.items()
        if month
    }
    latest = max(months.values(), default=0)
    return {framework for framework, month in months.items() if latest - month > ERA}


def _cuda(software: dict[str, Any]) -> str | None:
    """The major version of the CUDA libraries, where the framework tells it."""
    found = re.match(r"\d+", str(software.get("cuda") or ""))
    return found[0] if found else None


def trained_mode(provenance: dict[str, Any]) -> str:
    """The mode that was read back from the framework, empty where the run did not come to that."""
    return str(provenance["settings"].get("effective", {}).get("mode", ""))


def trials_of(provenance: dict[str, Any]) -> list[Trial]:
    """The trials of a run, in their order; none unless its cell has the mode `best`."""
    return [from_json(Trial, trial) for trial in provenance.get("trials", [])]


def tried(trial: Trial, first: Trial) -> str:
    """What a trial tried, `static, 1 thread`: threads and waiting where they are not those of the
    run's `first` one, which are the cell's own."""
    words, threads = [trial.mode], trial.threads
    if threads != first.threads:
        words.append(f"{threads} thread{'' if threads == 1 else 's'}")
    if trial.wait_policy != first.wait_policy:
        words.append(f"{trial.wait_policy} waiting")
    return ", ".join(words)


def chosen(provenance: dict[str, Any]) -> str:
    """What a run of the mode `best` chose; empty where no trial passed, and in another mode."""
    trials = trials_of(provenance)
    best = fastest(trials)
    return tried(best, trials[0]) if best else ""


def counted_choices(provenances: Iterable[dict[str, Any]]) -> str:
    """What runs chose, with the number of runs: `hybrid (2); static, 1 thread (1)`."""
    counts = Counter(filter(None, map(chosen, provenances)))
    return "; ".join(f"{choice} ({counts[choice]})" for choice in sorted(counts))


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


@lru_cache(maxsize=4096)
def _fields(*values: str | int | None) -> str:
    """Two values or more as a part of a line of CSV; what rows share is made once."""
    return csv_of([values]).removesuffix("\n")


def _flags(record: dict[str, Any], parity: bool, older: bool) -> list[str]:
    return [*record["flags"], *[PARITY_NOT_SHOWN] * (not parity), *[DIFFERENT_ERA] * older]


Keep = Callable[[PlannedCell, list[dict[str, Any]]], None]
"""Gets a planned cell with its records."""


class _Compared(NamedTuple):
    """What comparisons need of a cell: values by metric and block, provenances, flags."""

    blocks: dict[str, dict[int, float]]
    provenances: list[dict[str, Any]]
    flags: str


def gather(
    plan_path: Path,
    records_folder: Path,
    output: Path,
    certificates: Certificates,
    max_batches: Sequence[MaxBatch] = (),
    released: Mapping[str, str | None] = MappingProxyType({}),
    interleaved: Sequence[Interleaved] = (),
    keep: Keep = lambda cell, records: None,
) -> None:
    """Write `measurements.csv`, `summary.csv` and `comparisons.csv` of the planned records.

    A row of measurements is one metric of one run. A row of the summary is one metric of one
    cell over all values that there are: `n` counts them, `status` counts the runs; where the
    largest batch was searched for, a last row has it, and the outcome of the search. A row of
    comparisons is one metric's ratio between two cells, the one planned later over the one
    planned earlier, from the blocks that have both (docs/statistics.md). `released` has the
    month of each framework's release, for the flag of those that are of another era. Where the
    cells were measured in turn, as `interleaved` says, the ratios of throughput are from there.
    `keep` gets each cell with its records, to which the flags of the study were added.
    """
    measurements, summary = io.StringIO(), io.StringIO()
    measurements.write(_fields(*MEASUREMENTS) + "\n")
    summary.write(_fields(*SUMMARY) + "\n")
    plan = read_plan(plan_path)
    # When an environment of the user's own was released is not known.
    frameworks = {c.factors["framework"] for c in plan if c.factors["environment"] == PINNED}
    older = of_older_eras({name: released.get(name) for name in frameworks})
    grouped = {cell.name for group in comparable(plan) for cell in group}
    kept: dict[str, _Compared] = {}
    seen: dict[str, Any] = {}
    for cell, records in read_records(plan, records_folder):
        factors = [cell.factors[name] for name in FACTORS]
        stack = stack_of(cell.factors["framework"], cell.factors["environment"])
        parity = proof(
            certificates, cell.factors["network"], stack, cell.factors["precision"]
        ).shown
        for record in records:
            # An operation is compared with double precision in its own run.
            shown = parity or record["metrics"]["deviation"]["value"] is not None
            record["flags"] = _flags(record, shown, stack in older)
            choice = (trained_mode(record["provenance"]), chosen(record["provenance"]))
            head = _fields(*factors, cell.name, record["repeat"], record["status"], *choice)
            flags = ", ".join(record["flags"])
            for name, metric in record["metrics"].items():
                unit, tail = _fields(name, metric["unit"]), _fields(flags, metric.get("reason"))
                numbers = f"{_number(metric['value'])},{_number(metric.get('censored_at'))}"
                measurements.write(f"{head},{unit},{numbers},{tail}\n")
        status = counted((record["status"] for record in records), STATUSES)
        flags = counted(flag for record in records for flag in record["flags"])
        runs = [record["provenance"] for record in records]
        choices = (counted(filter(None, map(trained_mode, runs))), counted_choices(runs))
        head = _fields(*factors, cell.name)
        for name, metric in METRICS.items():
            found = [record["metrics"][name]["value"] for record in records]
            beyond = found.count(None) if name in CENSORED else 0
            n, *spread = summarise([value for value in found if value is not None], beyond)
            censored = sum("censored_at" in record["metrics"][name] for record in records)
            unit, count = _fields(name, metric.unit), _fields(status, n)
            values, ending = ",".join(map(_number, spread)), _fields(flags, censored, *choices)
            summary.write(f"{head},{unit},{count},{values},{ending}\n")
        if one := of_cell(max_batches, cell.factors):
            n, *spread = summarise([] if one.value is None else [one.value])
            unit, count = _fields(METRIC, UNIT), _fields(one.status, n)
            values, ending = ",".join(map(_number, spread)), _fields(flags, 0, *choices)
            summary.write(f"{head},{unit},{count},{values},{ending}\n")
        keep(cell, records)
        if cell.name in grouped:
            blocks = {name: _by_block(records, name) for name in METRICS}
            provenances = [
                shared({key: record["provenance"][key] for key in REMARKED}, seen)
                for record in records
            ]
            kept[cell.name] = _Compared(blocks, provenances, flags)
    write_atomic(output / "measurements.csv", measurements.getvalue())
    write_atomic(output / "summary.csv", summary.getvalue())
    write_atomic(output / "comparisons.csv", _comparisons(plan, kept, interleaved))


def _by_block(records: list[dict[str, Any]], metric: str) -> dict[int, float]:
    values = {record["repeat"]: record["metrics"][metric]["value"] for record in records}
    if metric in CENSORED and None in values.values():
        return {}  # the runs that have a value are the quick ones: no fair sample
    return {repeat: value for repeat, value in values.items() if value is not None}


def _comparisons(
    plan: Sequence[PlannedCell], cells: dict[str, _Compared], interleaved: Sequence[Interleaved]
) -> str:
    """The table of all pairs of comparable cells, for every metric that has a scale of ratios."""
    table = io.StringIO()
    table.write(_fields(*COMPARISONS) + "\n")
    groups = list(comparable(plan))
    # Accuracies and losses have no meaningful ratio.
    metrics = [name for name, metric in METRICS.items() if metric.unit != "1"]
    models = {
        name: _models(groups, cells, name, interleaved if name == "throughput" else ())
        for name in metrics
    }
    for number, group in enumerate(groups):
        for reference, cell in combinations(group, 2):
            ours, theirs = cells[cell.name], cells[reference.name]
            remark = ", ".join(remarks(ours.provenances, theirs.provenances))
            same = [cell.factors[name] for name in FACTORS if name not in COMPARED]
            own = [c.factors[name] for c in (cell, reference) for name in COMPARED]
            head = _fields(*same, *own, cell.name, reference.name)
            for name in metrics:
                model, basis = models[name][number]
                ratio = model.ratio(cell.name, reference.name)
                if ratio is None:
                    continue
                low, high = ratio.interval() or (None, None)
                detectable = ratio.detectable, *(ratio.detectable_limits or (None, None))
                numbers = ",".join(map(_number, (ratio.value, low, high, *detectable)))
                verdict = (ratio.verdict(name, UNDECIDED), "yes" if ratio.indicative else "no")
                unit = _fields(name, METRICS[name].unit, ratio.n)
                tail = _fields(*verdict, remark, ours.flags, theirs.flags, basis)
                table.write(f"{head},{unit},{numbers},{tail}\n")
    return table.getvalue()


def _models(
    groups: Sequence[Sequence[PlannedCell]],
    cells: dict[str, _Compared],
    metric: str,
    interleaved: Sequence[Interleaved],
) -> list[tuple[Group, str]]:
    """A model of each group, as the page has it: training, inference and operations apart; with
    what it rests on, `turns` or `runs`."""
    found: dict[int, tuple[Group, str]] = {}
    kinds = [kind_of(group[0]) for group in groups]
    for kind in set(kinds):
        numbers = [number for number, one in enumerate(kinds) if one == kind]
        values = [{c.name: cells[c.name].blocks[metric] for c in groups[i]} for i in numbers]
        turns = turns_of(values, interleaved)
        bases = ["turns" if one else "runs" for one in turns]
        models = zip(compare_with_turns(values, turns), bases, strict=True)
        found |= dict(zip(numbers, models, strict=True))
    return [found[number] for number in range(len(groups))]
