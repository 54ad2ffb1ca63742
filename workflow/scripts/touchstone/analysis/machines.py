"""Several machines' results, cell by cell, against the first of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml

from touchstone.analysis.again import Kept
from touchstone.analysis.compare_results import (
    Change,
    ResultsFolder,
    compare,
    fingerprints,
    results_of,
)
from touchstone.results.bundle import CONFIG, FRESH, unpack
from touchstone.results.certificates import read_certificates
from touchstone.results.files import InputError, read_text
from touchstone.results.gathering import gather
from touchstone.results.metrics import METRICS
from touchstone.results.study import Cell, Result, Study
from touchstone.results.tables import counted
from touchstone.safe_text import csv_of
from touchstone.schema.status import STATUSES
from touchstone.statistics.intervals import SESSION_SD, Ratio, summarise, unpaired_ratio
from touchstone.yaml_file import parsed

COLUMNS = (
    *("cell", "machine", "reference", "metric", "unit", "status", "n", "median", "min", "max"),
    *("ratio", "low", "high", "p_value", "detectable", "verdict", "why", "differences", "flags"),
)
RENAME = "Give one another name: snakemake bundle --config machine=NAME"


class Machine(NamedTuple):
    """One machine's results: from where, what it is, and its runs."""

    name: str
    source: str
    manifest: dict[str, Any]
    study: Study
    fingerprints: dict[str, dict[str, str]]
    kept: Kept

    @property
    def cells(self) -> dict[str, Cell]:
        """Its cells by name, in the order of its plan."""
        return {cell.plan.name: cell for cell in self.study.cells}

    def results(self, metric: str) -> ResultsFolder:
        """Its values of one metric, as `compare` takes them."""
        return results_of(self.study, Path(self.source), metric, self.fingerprints)


def read_machines(bundles: Sequence[tuple[str, Path]], scratch: Path) -> list[Machine]:
    """Read bundles, each given with the name that messages call it by.

    Args:
        scratch: an empty folder, in which they are unpacked.

    Raises:
        InputError: one cannot be used, or two are of the same machine or of the same runs.
    """
    machines: list[Machine] = []
    for number, (source, path) in enumerate(bundles):
        folder = scratch / str(number)
        manifest = unpack(path, folder)
        runs = _digests(manifest)
        for other in machines:
            if shared := runs & _digests(other.manifest):
                cause = f"{len(shared)} of its runs are those of {other.source} too"
                raise InputError(source, cause, "Name each machine's bundle once")
            if other.name == manifest["machine"]["name"]:
                cause = f"its machine has the name of the one in {other.source}, {other.name!r}"
                raise InputError(source, cause, RENAME)
        try:
            certificates = read_certificates(sorted((folder / "parity").glob("*.json")))
            study = gather(folder / "plan.tsv", folder / "records", folder / "tables", certificates)
            datasets = {cell.plan.settings.dataset for cell in study.cells}
            prints = fingerprints(folder / "data", datasets)
            kept = _kept(folder / CONFIG)
        except InputError as error:
            cause = str(error).replace(f"{folder}/", "").rstrip(".")
            raise InputError(source, cause, FRESH) from None
        name = manifest["machine"]["name"]
        machines.append(Machine(name, source, manifest, study, prints, kept))
    return machines


def _kept(path: Path) -> Kept:
    """The configuration that a machine's report keeps. Raises InputError."""
    try:
        return Kept.of(parsed(read_text(path, FRESH))[0])
    except (yaml.YAMLError, AttributeError):
        raise InputError(path, "not a mapping of settings", FRESH) from None


def _digests(manifest: dict[str, Any]) -> set[str]:
    files = manifest["files"].items()
    return {file["sha256"] for name, file in files if name.startswith("records/")}


# What lawrence2017 shows of a run


def total_time(run: Result) -> float | None:
    """Seconds of all phases of an ok run, from the framework's import to the evaluation."""
    return sum(run.phases.values()) if run.status == "ok" else None


def epoch_time(cell: Cell, run: Result) -> float | None:
    """Seconds of training per epoch, the first step and the warm-up included."""
    total = run.values["training_time"]
    if cell.plan.settings.steps:  # of which its epochs are but a bound
        return None
    return None if total is None else total / cell.plan.settings.epochs


class Quantity(NamedTuple):
    """One of the quantities that are shown for every machine, and how a run has it."""

    name: str
    label: str
    of: Callable[[Cell, Result], float | None]

    def values(self, cell: Cell) -> list[float]:
        """Its values over the runs of a cell, as far as there are any."""
        return [value for run in cell.runs if (value := self.of(cell, run)) is not None]


QUANTITIES = (
    Quantity("epoch_time", "Time per epoch (s)", epoch_time),
    Quantity("total_time", "Total time (s)", lambda cell, run: total_time(run)),
    Quantity("test_accuracy", "Test accuracy", lambda cell, run: run.values["test_accuracy"]),
)
EPOCH_TIME = QUANTITIES[0]


class Speedup(NamedTuple):
    """Of one cell: the machine that was slowest, and every machine's runs against it."""

    slowest: str
    runs: dict[str, list[float]]
    ratio: dict[str, Ratio | None]


def speedup(machines: Sequence[Machine], cell: str) -> Speedup | None:
    """How much faster than on the slowest machine an epoch of the cell is on each.

    The slowest is the one with the largest median. A run's speed-up is that median over the run's
    own time; the ratio is judged as of two sittings. None where fewer than two machines have
    numbers.
    """
    times = {
        machine.name: values
        for machine in machines
        if cell in machine.cells and (values := EPOCH_TIME.values(machine.cells[cell]))
    }
    if len(times) < 2:
        return None
    slowest = max(times, key=lambda name: median(times[name]))
    reference = median(times[slowest])
    return Speedup(
        slowest,
        {name: [reference / value for value in values] for name, values in times.items()},
        {
            name: None if name == slowest else unpaired_ratio(times[slowest], values)
            for name, values in times.items()
        },
    )


# The table of all metrics


def all_cells(machines: Sequence[Machine]) -> list[str]:
    """The names of the cells of all machines, in the order of the first plan that has them."""
    return list(dict.fromkeys(name for machine in machines for name in machine.cells))


def against_first(machines: Sequence[Machine], metric: str) -> dict[str, dict[str, Change]]:
    """By machine and cell, each other machine's change against the first, which is `old`.

    Runs of different machines are never pairs: they are judged as two sittings.
    """
    first, *others = machines
    reference = first.results(metric)
    return {
        machine.name: {
            change.cell: change
            for change in compare(
                reference,
                machine.results(metric),
                metric,
                SESSION_SD,
                (first.name, machine.name),
            )
        }
        for machine in others
    }


class Against(NamedTuple):
    """What the changes of a machine's cells show together.

    verdicts: cells by verdict
    ratios: the smallest and the largest; None where no cell has one
    differences: cells by what differs
    """

    cells: int
    verdicts: dict[str, int]
    ratios: tuple[float, float] | None
    differences: dict[str, int]


def summary(changes: Collection[Change]) -> Against:
    """The changes of a machine against the first, counted."""
    verdicts = Counter(sorted(change.verdict for change in changes))
    ratios = [change.ratio.value for change in changes if change.ratio]
    span = (min(ratios), max(ratios)) if ratios else None
    differences = Counter(text for change in changes for text in change.differences)
    return Against(len(changes), verdicts, span, differences)


def as_table(machines: Sequence[Machine]) -> str:
    """Every cell, metric and machine as CSV; accuracies and losses have no ratio."""
    lines: list[Sequence[object]] = [COLUMNS]
    for metric, definition in METRICS.items():
        changes = against_first(machines, metric) if definition.unit != "1" else {}
        for name in all_cells(machines):
            for machine in machines:
                cell = machine.cells.get(name)
                if cell is None:
                    continue
                values = summarise(cell.values(metric))
                change = changes.get(machine.name, {}).get(name)
                ratio = change.ratio if change else None
                low, high = (ratio.interval() if ratio else None) or (None, None)
                numbers = [values.median, values.min, values.max]
                judged = [ratio.value, low, high, ratio.p_value, ratio.detectable] if ratio else []
                judged += [None] * (5 - len(judged))
                lines.append(
                    [
                        *(name, machine.name, machines[0].name, metric, definition.unit),
                        *(counted((run.status for run in cell.runs), STATUSES), values.n),
                        *("" if n is None else repr(float(n)) for n in (*numbers, *judged)),
                        *((change.verdict, change.why) if change else ("", "")),
                        "; ".join(change.differences) if change else "",
                        counted(cell.flags),
                    ]
                )
    return csv_of(lines)


# The rows of the page


def throughput_rows(
    machines: Sequence[Machine],
    names: Iterable[str],
    changes: Mapping[str, Mapping[str, Change]],
) -> list[dict[str, Any]]:
    """A row per cell: for every machine its throughput, and its ratio to the first's."""
    rows = []
    for name in names:
        entries = []
        for machine in machines:
            cell = machine.cells.get(name)
            values = cell.values("throughput") if cell else []
            change = changes.get(machine.name, {}).get(name)
            entries.append(
                {
                    "median": median(values) if values else None,
                    "n": len(values),
                    "range": (min(values), max(values)) if len(values) > 1 else None,
                    "words": ", ".join(cell.words("throughput")) if cell else "not planned",
                    "flags": counted(cell.flags) if cell else "",
                    "change": change,
                }
            )
        rows.append({"cell": name, "entries": entries})
    return rows


def time_rows(machines: Sequence[Machine], names: Iterable[str]) -> list[dict[str, Any]]:
    """A row per cell and machine: the quantities of the figure."""
    rows = []
    for name in names:
        gain = speedup(machines, name)
        here = [machine for machine in machines if name in machine.cells]
        for machine in here:
            cell = machine.cells[name]
            medians = [
                median(values) if (values := quantity.values(cell)) else None
                for quantity in QUANTITIES
            ]
            rows.append(
                {
                    "cell": name,
                    "span": len(here) if machine is here[0] else 0,
                    "machine": machine.name,
                    "medians": medians,
                    "words": ", ".join(cell.words("training_time")),
                    "slowest": gain is not None and gain.slowest == machine.name,
                    "ratio": gain.ratio.get(machine.name) if gain else None,
                    "speedup": median(gain.runs[machine.name])
                    if gain and machine.name in gain.runs
                    else None,
                }
            )
    return rows
