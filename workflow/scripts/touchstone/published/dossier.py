"""What is known of a published study besides its figures: `config/claims/<study>.yaml`.

It says how the source's words read in ours, and which claims there are with the comparisons
that test them. docs/adding.md explains every key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from touchstone.errors import TouchstoneError
from touchstone.plan.model import Cell
from touchstone.published.claim_model import (
    HOSTS,
    OTHERS,
    Claim,
    Level,
    Strict,
    Test,
    Where,
    factors_named,
    metrics_named,
    wheres,
)
from touchstone.published.table import FACTORS
from touchstone.results.metrics import METRICS
from touchstone.yaml_file import parsed

BEYOND = {*FACTORS, *Cell.model_fields, "generation"}
"""Every factor that a figure, published or measured, may have; `generation` is a GPU's."""

PARAMETERS = "parameters"
"""The number of a network's parameters: a claim may be about it, though no run measures it."""


class DossierError(TouchstoneError, ValueError):
    """A file of claims is refused; the message lists every fault, its key and cause."""


class Reading(Strict):
    """One of our metrics that a published one is compared with.

    `unit` is the one to read the figures in, where the printed one cannot be, and `why` says so.
    `cells` are those of ours that have it in this sense: an accuracy after 10 epochs, say.
    `when` are the published figures that are read so; all of them, where it is empty.
    `not_comparable` is why the two sides are next to each other and not compared.
    """

    metric: str
    when: Where = {}
    cells: Where = {}
    unit: str | None = None
    why: str | None = None
    not_comparable: str | None = None


class Rule(Strict):
    """What the figures `when` are in our words: factors that replace or join the source's.

    `missing` is the reason why this workflow has nothing to compare them with.
    """

    when: Where
    is_: Annotated[dict[str, Level], Field(alias="is")] = {}
    missing: str | None = None


class Derived(Strict):
    """A figure computed from published ones of one cell: `of` / `per` x `times`."""

    metric: str
    of: str
    per: str
    times: float = 1.0


class Total(Strict):
    """A figure of ours that is a sum over the cells `where`: the seconds of one call of each.

    Or of `times` calls, or steps. There is one for every framework, device and precision; `is` are
    the factors it has besides.
    """

    metric: str
    where: Where
    is_: Annotated[dict[str, Level], Field(alias="is")]
    times: Annotated[float, Field(gt=0)] = 1.0


Name = Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]


class Sum(Strict):
    """A figure that is the sum of others: one of each of `parts`, with the same level of `alike`.

    A part names its metric and the factors of its figures. `is` are the factors of the sum.
    """

    metric: str
    parts: Annotated[list[Where], Field(min_length=2)]
    alike: list[str]
    is_: Annotated[dict[str, Level], Field(alias="is")] = {}

    @model_validator(mode="after")
    def _of_metrics(self) -> Sum:
        if any(not isinstance(part.get("metric"), str) for part in self.parts):
            raise ValueError("parts: a part names no metric; add `metric: NAME` to it")
        return self


class Layout(Strict):
    """A table as the study has it: published figures `where`, and cells of ours in `also`.

    `rows` and `columns` are factors; `metric` may be one of them. `called` has by factor a word
    for several of its levels, which are then in one row or column.
    """

    id: Name
    title: str
    where: Where = {}
    also: Where | None = None
    rows: Annotated[list[str], Field(min_length=1)]
    columns: Annotated[list[str], Field(min_length=1)]
    called: dict[str, dict[str, list[str]]] = {}

    def word(self, factor: str, level: str) -> str:
        """What a level of a factor is called in this table."""
        for word, levels in self.called.get(factor, {}).items():
            if level in levels:
                return word
        return level


class FigureSpec(Strict):
    """A figure: our `metric` over `x`, a factor of numbers (points) or of words (bars).

    Every level of `series` has its own colour: the framework's own, where it is that. Its number
    in the source is `number`, after that of its section where the study has `sections`.
    """

    id: Name
    title: str
    metric: str
    where: Where = {}
    also: Where | None = None
    x: str
    series: str
    number: str | None = None


class Section(Strict):
    """The number that the source's section about figures `when` has, which begins theirs."""

    number: str
    when: dict[str, str]


class Curves(Strict):
    """A figure of the training losses of our cells `where`, by epoch.

    Every level of `series`, a factor of numbers, has a shade of its own. `source` says what the
    source has instead of figures to put beside them.
    """

    id: Name
    title: str
    where: Where
    series: str
    source: str
    number: str | None = None


class MachineTable(Strict):
    """A table of the source about what it measured on and how, filled from the runs made here.

    `show` says what is in it; `published` are the source's words for a fact, the same for all
    columns or for each its own. Which framework has which network is known from the figures.
    """

    id: Name
    title: str
    show: Literal["frameworks", "hardware", "software", "parameters", "available"]
    published: dict[str, str | dict[str, str]] = {}


class Comparability(Strict):
    """Whether, or in what, figures of the source and ours may be compared, and why."""

    what: str
    comparable: str
    why: str


class LeftOut(Strict):
    """A table or figure of the source that the page has not, and why."""

    what: str
    why: str


class Dossier(Strict):
    """A file of claims: the published table, how to read it, the claims, tables and figures.

    `each` repeats the figures for every combination of these factors that the table has, and
    `sections` number them. `further`
    are metrics of ours that the source has not, for tables of our own. A claim may be about these,
    or about any metric that we measure.
    """

    published: str
    metrics: dict[str, list[Reading]]
    tables: list[Layout] = []
    figures: list[FigureSpec] = []
    each: list[str] = []
    sections: list[Section] = []
    left_out: list[LeftOut] = []
    machine: list[MachineTable] = []
    curves: list[Curves] = []
    comparable: list[Comparability] = []
    derived: list[Derived] = []
    totals: list[Total] = []
    sums: list[Sum] = []
    further: list[str] = []
    cells: list[Rule] = []
    claims: list[Claim]

    @property
    def claimed(self) -> set[str]:
        """The metrics that the claims name, those of a host that stand in for a GPU's, and those of
        which their figures are sums."""
        of_sums = {str(part["metric"]) for total in self.sums for part in total.parts}
        metrics = of_sums.union(*(metrics_named(claim) for claim in self.claims))
        stood_in = set().union(*(metrics_named(claim) for claim in self.claims if claim.stand_in))
        return metrics | {host for metric, host in HOSTS.items() if metric in stood_in}

    @model_validator(mode="after")
    def _known(self) -> Dossier:
        faults = [f"further: no metric is named {m!r}" for m in self.further if m not in METRICS]
        metrics = {*METRICS, *(total.metric for total in self.totals)}
        for name, readings in self.metrics.items():
            for reading in readings:
                if reading.metric not in metrics and (reading.metric != name or reading.unit):
                    faults.append(f"metrics.{name}: no metric is named {reading.metric!r}")
        read = {reading.metric for readings in self.metrics.values() for reading in readings}
        faults += [
            f"totals: no metric of the source is read as {total.metric!r}"
            for total in self.totals
            if total.metric not in read
        ]
        ours = {*metrics, *read, PARAMETERS, *(derived.metric for derived in self.derived)}
        ours |= {total.metric for total in self.sums}
        for claim in self.claims:
            faults += [f"claim {claim.id}: {f}" for t in claim.tests for f in _level_faults(t)]
            faults += [
                f"claim {claim.id}: {metric!r} is not among the metrics"
                for metric in sorted(metrics_named(claim) - ours)
            ]
        faults += [
            f"{place}: unknown factor {key!r}"
            for place, keys in self._factors_named()
            for key in keys
            if key not in BEYOND and key != "metric"
        ]
        ids = Counter(claim.id for claim in self.claims)
        faults += [f"claim {key}: there twice" for key, times in sorted(ids.items()) if times > 1]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _factors_named(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Each place of the file with the factors that it names."""
        for name, readings in self.metrics.items():
            yield f"metrics.{name}", [key for r in readings for key in (*r.when, *r.cells)]
        for index, rule in enumerate(self.cells):
            yield f"cells[{index}]", [*rule.when, *rule.is_]
        for claim in self.claims:
            tested = [key for test in claim.tests for key in factors_named(test)]
            yield f"claim {claim.id}", [*claim.needs, *tested]
        for total_of in self.sums:
            keys = [key for part in total_of.parts for key in part]
            yield f"sums.{total_of.metric}", [*keys, *total_of.alike, *total_of.is_]
        for total in self.totals:
            yield total.metric, [*total.where, *total.is_]
        for curves in self.curves:
            yield curves.id, [*curves.where, curves.series]
        for table in self.tables:
            keys = [*table.rows, *table.columns, *table.called]
            yield table.id, [*table.where, *(table.also or {}), *keys]
        for figure in self.figures:
            yield figure.id, [*figure.where, *(figure.also or {}), figure.x, figure.series]
        for section in self.sections:
            yield f"sections.{section.number}", section.when


def _level_faults(test: Test) -> Iterator[str]:
    """Levels of a comparison that its factors cannot have, so that it would find no figure."""
    along = getattr(test, "along", None)
    if along in Cell.model_fields and not _is_number(along):
        yield f"along: {along} has words, and a trend goes along numbers"
    for where in [*wheres(test), *test.without]:
        for factor, wanted in where.items():
            words = _words_of(factor)
            for level in wanted if isinstance(wanted, list) else [wanted]:
                if words and level not in (*words, OTHERS):
                    yield f"{factor}: {level!r} is not among {', '.join(words)}"


def _words_of(factor: str) -> list[str]:
    """The words that a setting of a cell may be; none where it may be anything else."""
    field = Cell.model_fields.get(factor)
    words = get_args(field.annotation) if field else ()
    return [*words] if all(isinstance(word, str) for word in words) else []


def _is_number(factor: str) -> bool:
    """Whether a setting of a cell may be a number."""
    annotation: Any = Cell.model_fields[factor].annotation
    try:
        TypeAdapter(annotation).validate_python(1, strict=True)
    except ValidationError:
        return False
    return True


def claim_files(path: Path) -> list[Path]:
    """The files of claims beside the file of a study: those in the folder of its name."""
    return sorted(path.with_suffix("").glob("*.yaml"))


def read_dossier(path: Path) -> Dossier:
    """Read what is known of a study: its file, and the lists of claims in the folder of its name.

    Raises:
        DossierError: with every fault; a fault in a claim names the claim.
    """
    content = _read(path)
    files = claim_files(path)
    if files and isinstance(content, dict):
        claims = content.get("claims") or []
        if not isinstance(claims, list):
            raise DossierError(f"{path}: claims is not a list; begin every claim with `- id: NAME`")
        claims = list(claims)
        for file in files:
            more = _read(file)
            if not isinstance(more, list):
                raise DossierError(f"{file}: not a list; begin every claim with `- id: NAME`")
            claims += more
        content = {**content, "claims": claims}
    try:
        return Dossier.model_validate(content)
    except ValidationError as invalid:
        faults = "\n".join(
            f"  {_place(error['loc'], content)}: {error['msg']}" for error in invalid.errors()
        )
        raise DossierError(f"{path} has faults:\n{faults}") from None


def _read(path: Path) -> Any:
    """The content of a YAML file."""
    try:
        content, repeated = parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DossierError(f"{path}: {' '.join(str(error).split())}; mend that file") from None
    if repeated:
        cause = f"more than once in one mapping: {'; '.join(repeated)}"
        raise DossierError(f"{path}: {cause}; keep one each")
    return content


def _place(keys: tuple[str | int, ...], content: Any) -> str:
    """Where a fault is, in words; a claim has its own name in place of its number."""
    parts = list(map(str, keys)) or ["the file"]
    if parts[0] == "claims" and len(keys) > 1:
        claim = content["claims"][keys[1]]
        if isinstance(claim, dict) and "id" in claim:
            parts[:2] = [f"claim {claim['id']}"]
    return ".".join(parts)
