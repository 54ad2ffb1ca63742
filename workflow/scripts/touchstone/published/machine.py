"""A study's tables of its machine, its software and its frameworks, filled from the runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from touchstone.datasets import catalogue
from touchstone.paths import ROOT
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.published.dossier import Dossier, MachineTable
from touchstone.published.entries import in_source_words
from touchstone.published.exports import csv_of, escaped, latex_of, markdown_of
from touchstone.published.points import SPEED, Level, Point, factors_of
from touchstone.results.study import Cell as MeasuredCell
from touchstone.results.study import Result, Study, machines

LIBRARIES = {
    "version": "version",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "onednn": "oneDNN",
    "mkl": "MKL",
    "numpy": "NumPy",
}
"""What a framework says of itself in the event `software`, and what we call it."""
SETTINGS = {
    "mode": "execution mode",
    "layout": "layout",
    "precision": "precision",
    "threads": "threads",
    "inter_op_threads": "threads between operations",
    "deterministic": "deterministic algorithms",
}
"""What is read back from the live framework, and what we call it."""


IMPERATIVE = ("eager_channels_last", "eager", "imperative")
"""The execution modes that run one operation after the other; the others run a graph."""
DEVICES = ("cpu", "gpu")


class Context(NamedTuple):
    """What the facts of a table are taken from.

    `wholes` has by name of a cell what it is in the whole study; `published` are the figures.
    """

    study: Study
    wholes: Mapping[str, Cell]
    published: Sequence[Point]
    dossier: Dossier


class Fact(NamedTuple):
    """What is so of one column's machine or framework; where nothing is known, the reason."""

    what: str
    of: str
    here: str | None
    reason: str | None = None


class Side(NamedTuple):
    """A place in a table: the source's words, ours, and why we have none."""

    published: str | None
    here: str | None
    reason: str | None


class Sheet(NamedTuple):
    """A table of facts: a row for each `what`, a column for each `of`.

    It is `two_sided` where the source's words are next to ours.
    """

    table: MachineTable
    rows: list[str]
    columns: list[str]
    sides: dict[tuple[str, str], Side]
    two_sided: bool

    @property
    def notes(self) -> list[str]:
        """The reasons, each once, in order."""
        return list(dict.fromkeys(side.reason for side in self.sides.values() if side.reason))

    def text(self, what: str, of: str) -> str:
        """A place in words: published / here, and the number of its note."""
        side = self.sides.get((what, of), Side(None, None, None))
        words = side.here or "–"
        if side.reason:
            words += f" [{self.notes.index(side.reason) + 1}]"
        return f"{side.published or '–'} / {words}" if self.two_sided else words


def sheet(table: MachineTable, context: Context) -> Sheet:
    """A table as the dossier asks for it, with what the runs of the study say."""
    facts = list(FACTS[table.show](context))
    words_of = dict(table.published)
    if table.show == "available":
        words_of |= _available_there(context.published)
    columns = list(dict.fromkeys(fact.of for fact in facts))
    rows = list(dict.fromkeys(fact.what for fact in facts))
    if {*rows} <= {*words_of}:
        rows = list(words_of)  # in the source's order
    by_place = {(fact.what, fact.of): fact for fact in facts}
    for what, theirs in words_of.items():
        rows += [what] if what not in rows else []
        columns += [of for of in theirs if of not in columns] if isinstance(theirs, dict) else []
    sides = {}
    for what in rows:
        words = words_of.get(what)
        for of in columns:
            published = words.get(of) if isinstance(words, dict) else words
            fact = by_place.get((what, of)) or Fact(what, of, None, _why_not(of, by_place))
            sides[what, of] = Side(published, fact.here, None if fact.here else fact.reason)
    return Sheet(table, rows, columns, sides, bool(words_of))


def _why_not(of: str, places: Iterable[tuple[str, str]]) -> str:
    there = any(column == of for _, column in places)
    return "nothing tells it" if there else f"{of} is not in this study"


def _hardware(context: Context) -> Iterator[Fact]:
    study = context.study
    hosts = machines(study)
    for number, machine in enumerate(hosts, 1):
        of = "this machine" if len(hosts) == 1 else f"machine {number}"
        run = next(run for run in study.runs if run.provenance["machine"] == machine)
        why = run.provenance.get("unknown", {})

        def fact(what: str, key: str, here: Any, of: str = of, why: dict[str, str] = why) -> Fact:
            text = None if here is None else str(here)
            return Fact(what, of, text, why.get(f"machine.{key}", "the record does not say"))

        cores = machine.get("physical_cores"), machine.get("logical_cores")
        counts = [
            f"{n} {kind}" for n, kind in zip(cores, ("physical", "logical"), strict=True) if n
        ]
        size, limit = machine.get("memory_mib"), machine.get("memory_limit_mib")
        gpus = machine.get("gpus") or []
        names = [f"{gpu['name']}, {gpu['memory_mib'] / 1024:.0f} GiB" for gpu in gpus]
        yield fact("processor", "cpu_model", machine.get("cpu_model"))
        yield fact("cores", "physical_cores", ", ".join(counts) or None)
        yield fact("core quota", "cpu_quota_cores", machine.get("cpu_quota_cores"))
        yield fact("clock governor", "governor", machine.get("governor"))
        yield fact("memory", "memory_mib", f"{size / 1024:.1f} GiB" if size else None)
        yield fact("memory limit", "memory_limit_mib", f"{limit / 1024:.1f} GiB" if limit else None)
        yield fact("disks", "disks", machine.get("disks"))
        yield fact("board", "board", machine.get("board"))
        yield fact("GPU", "gpus", "; ".join(names) or None)
        drivers = dict.fromkeys(str(gpu["driver"]) for gpu in gpus if gpu.get("driver"))
        yield fact("GPU driver", "gpus", "; ".join(drivers) or None)
        yield fact("operating system", "os", machine.get("os"))
        yield fact("kernel", "kernel", machine.get("kernel"))
        yield fact("virtualisation", "virtualization", machine.get("virtualization"))


def _by_framework(study: Study) -> dict[str, list[Result]]:
    runs: dict[str, list[Result]] = {}
    for cell in study.cells:
        runs.setdefault(cell.series.framework, []).extend(cell.runs)
    return runs


def _software(context: Context) -> Iterator[Fact]:
    for framework, runs in _by_framework(context.study).items():
        records = [
            run.provenance["software"] for run in runs if "version" in run.provenance["software"]
        ]
        for key, what in LIBRARIES.items():
            if records:
                values = [record.get(key) for record in records]
                why = "its build has none" if key in records[0] else "the framework does not say"
                yield Fact(what, framework, _listed(values), why)
            else:
                yield Fact(what, framework, None, _never_began(framework, runs))


def _traits(context: Context) -> Iterator[Fact]:
    for framework, runs in _by_framework(context.study).items():
        modes = frameworks.modes(framework)
        devices = [name.upper() for name in DEVICES if frameworks.is_installable(framework, name)]
        yield Fact("language", framework, "Python")  # in which every adapter is written
        yield Fact("hardware", framework, ", ".join(devices))
        for kind, imperative in (("imperative", True), ("symbolic", False)):
            of_kind = ", ".join(mode for mode in modes if (mode in IMPERATIVE) == imperative)
            yield Fact(kind, framework, of_kind or None, "its adapter has no such mode")
        yield Fact("record format", framework, frameworks.record_format(framework))
        records = [
            effective
            for run in runs
            if (effective := run.provenance.get("settings", {}).get("effective"))
        ]
        for key, what in SETTINGS.items():
            why = "it cannot be read back" if records else _never_began(framework, runs)
            yield Fact(what, framework, _listed(record.get(key) for record in records), why)


def _parameters(context: Context) -> Iterator[Fact]:
    """Batch size, steps and learning rate with which each network is trained on its data."""
    texts: dict[tuple[str, str], list[str]] = {}
    for measured in context.study.cells:
        cell, row = measured.plan.settings, _row(context, measured)
        facts = {
            "batch size": cell.batch_size,
            "steps": cell.steps or cell.epochs * _steps_of_epoch(cell),
            "learning rate": cell.learning_rate,
        }
        for what, value in facts.items():
            texts.setdefault((row, what), []).append(f"{value:.10g}")
    for (row, what), values in texts.items():
        yield Fact(row, what, _listed(values))


def _available(context: Context) -> Iterator[Fact]:
    """Which framework trains which network on which data."""
    places: dict[tuple[str, str], list[Result]] = {}
    for cell in context.study.cells:
        places.setdefault((_row(context, cell), cell.series.framework), []).extend(cell.runs)
    for (row, framework), runs in places.items():
        trained = any(run.status == "ok" for run in runs)
        reasons = dict.fromkeys(run.reason or run.status for run in runs)
        yield Fact(row, framework, "yes" if trained else None, "; ".join(reasons))


def _available_there(published: Sequence[Point]) -> dict[str, str | dict[str, str]]:
    """The same in the source: where it has a speed."""
    rows: dict[str, dict[str, str]] = {}
    for point in published:
        if point.metric == SPEED and point.row:
            factors = point.row.factors
            row = rows.setdefault(_named(factors), {})
            framework = str(factors["framework"])
            row[framework] = "yes" if point.values else row.get(framework, "no")
    return {**rows}


def _row(context: Context, cell: MeasuredCell) -> str:
    """The data and network of a cell, in the source's words."""
    return _named(in_source_words(factors_of(context.wholes[cell.plan.name]), context.dossier))


def _named(factors: Mapping[str, Level]) -> str:
    return f"{factors['dataset']}, {factors['network']}"


def _steps_of_epoch(cell: Cell) -> int:
    return cell.batches(catalogue.load(cell.dataset, ROOT / "config/datasets").splits.train).steps


FACTS = {
    "hardware": _hardware,
    "software": _software,
    "frameworks": _traits,
    "parameters": _parameters,
    "available": _available,
}
"""What yields the facts of a table, by its `show`."""


def _listed(values: Iterable[Any]) -> str | None:
    """The different values in words; of a switch, yes or no."""
    words = {True: "yes", False: "no"}
    shown = [words[v] if isinstance(v, bool) else str(v) for v in values if v is not None]
    return ", ".join(dict.fromkeys(shown)) or None


def _never_began(framework: str, runs: Iterable[Result]) -> str:
    reasons = dict.fromkeys(run.reason or run.status for run in runs)
    return f"no run of {framework} began: {'; '.join(reasons)}"


def as_csv(grid: Sheet) -> str:
    """The table with a row for each place."""
    columns = ("what", "of", "published", "here", "reason")
    return csv_of(columns, ((*place, *side) for place, side in grid.sides.items()))


def as_markdown(grid: Sheet) -> str:
    """The table in its layout, its reasons below it."""
    rows = [[what, *(grid.text(what, of) for of in grid.columns)] for what in grid.rows]
    below = ["", "Each cell: published / here."] if grid.two_sided else []
    below += ["", *(f"[{place}] {text}." for place, text in enumerate(grid.notes, 1))]
    return markdown_of(grid.table.title, ["", *grid.columns], rows, below)


def as_latex(grid: Sheet) -> str:
    """The table as LaTeX (booktabs)."""
    kind = ": published / here" if grid.two_sided else ""
    rows = [
        [escaped(what), *(escaped(grid.text(what, of).replace("–", "--")) for of in grid.columns)]
        for what in grid.rows
    ]
    heads = ["", *map(escaped, grid.columns)]
    notes = " ".join(f"[{place}] {text}." for place, text in enumerate(grid.notes, 1))
    return latex_of(f"{grid.table.title}{kind}.", heads, rows, "l" * len(heads), notes)
