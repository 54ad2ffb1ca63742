"""What is known of a published study besides its figures: `config/claims/<study>.yaml`.

It says how the source's words read in ours, and which claims there are with the comparisons
that test them. docs/studies.md explains every key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from touchstone.plan.model import Cell
from touchstone.published.table import FACTORS
from touchstone.results.metrics import METRICS
from touchstone.yaml_file import parsed

Level = str | int | float
Where = dict[str, Level | list[Level]]
"""Factors with the level, or the levels, that they may have."""
BEYOND = {*FACTORS, *Cell.model_fields}
"""Every factor that a figure, published or measured, may have."""


class DossierError(ValueError):
    """A file of claims is refused; the message lists every fault, its key and cause."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class Reading(_Strict):
    """One of our metrics that a published one is compared with.

    `unit` is the one to read the figures in, where the printed one cannot be, and `why` says so.
    `cells` are those of ours that have it in this sense: an accuracy after 10 epochs, say.
    `when` are the published figures that are read so; all of them, where it is empty.
    """

    metric: str
    when: Where = {}
    cells: Where = {}
    unit: str | None = None
    why: str | None = None


class Rule(_Strict):
    """What the figures `when` are in our words: factors that replace or join the source's.

    `missing` is the reason why this workflow has nothing to compare them with.
    """

    when: Where
    is_: Annotated[dict[str, Level], Field(alias="is")] = {}
    missing: str | None = None


class Derived(_Strict):
    """A figure computed from published ones of one cell: `of` / `per` x `times`."""

    metric: str
    of: str
    per: str
    times: float = 1.0


class Total(_Strict):
    """A figure of ours that is a sum over the cells `where`: the seconds of one call of each.

    Or of `times` calls, or steps. There is one for every framework, device and precision; `is` are
    the factors it has besides.
    """

    metric: str
    where: Where
    is_: Annotated[dict[str, Level], Field(alias="is")]
    times: Annotated[float, Field(gt=0)] = 1.0


class _Test(_Strict):
    """A comparison. Groups are the figures `where` that share every factor of `by`.

    It holds where at least `share` of the groups do.
    """

    metric: str
    by: list[str] = []
    where: Where = {}
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class RatioTest(_Test):
    """`of` / `to` lies between `least` and `most`, both widened by `tolerance`, a share."""

    kind: Literal["ratio"]
    of: Where
    to: Where
    least: float | None = None
    most: float | None = None


class TrendTest(_Test):
    """The metric along a factor of numbers: docs/studies.md says what the words mean."""

    kind: Literal["trend"]
    along: str
    expect: Literal["rises", "falls", "peaks", "level"]


class ExtremeTest(_Test):
    """Of the levels of `factor`, `level` has, or has not, the largest value."""

    kind: Literal["extreme"]
    factor: str
    level: Level
    expect: Literal["largest", "not largest"]


class SpreadTest(_Test):
    """The largest / the smallest value over the levels of `across` is at most 1 + tolerance."""

    kind: Literal["spread"]
    across: str


class GainTest(_Test):
    """The step from the second of `steps` to the third gains less than that from the first.

    The second and the third share every factor of `alike`, which the first may lack.
    """

    kind: Literal["gain"]
    alike: list[str] = []
    steps: Annotated[list[Where], Field(min_length=3, max_length=3)]


class RankTest(_Test):
    """Figures `of` and `to` rank the levels of `over` alike, or, if `opposite`, reversed.

    `other` is the metric of the figures `to`, where it is another one.
    """

    kind: Literal["rank"]
    of: Where
    to: Where
    over: str
    other: str | None = None
    opposite: bool = False


Test = Annotated[
    RatioTest | TrendTest | ExtremeTest | SpreadTest | GainTest | RankTest,
    Field(discriminator="kind"),
]


class Claim(_Strict):
    """A claim in our words. `needs` are settings that a scale of the study must not change."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    statement: str
    source: str
    needs: list[str] = []
    tests: list[Test] = []
    untested: str | None = None

    @model_validator(mode="after")
    def _tested(self) -> Claim:
        if bool(self.tests) == bool(self.untested):
            raise ValueError("give tests, or the reason why it is untested")
        return self


Name = Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]


class Layout(_Strict):
    """A table as the study has it: published figures `where`, and cells of ours in `also`.

    `rows` and `columns` are factors; `metric` may be one of them.
    """

    id: Name
    title: str
    where: Where = {}
    also: Where | None = None
    rows: Annotated[list[str], Field(min_length=1)]
    columns: Annotated[list[str], Field(min_length=1)]


class FigureSpec(_Strict):
    """A figure: our `metric` over `x`, a factor of numbers (points) or of words (bars).

    Every level of `series` has its own colour: the framework's own, where it is that.
    """

    id: Name
    title: str
    metric: str
    where: Where = {}
    also: Where | None = None
    x: str
    series: str


class Curves(_Strict):
    """A figure of the training losses of our cells `where`, by epoch.

    Every level of `series`, a factor of numbers, has a shade of its own. `source` says what the
    source has instead of figures to put beside them.
    """

    id: Name
    title: str
    where: Where
    series: str
    source: str


class MachineTable(_Strict):
    """A table of the source about its machine or software, filled from the runs made here.

    `show` says what is in it; `published` are the source's words for a fact, the same for all
    columns or for each its own.
    """

    id: Name
    title: str
    show: Literal["frameworks", "hardware", "software"]
    published: dict[str, str | dict[str, str]] = {}


class Comparability(_Strict):
    """Whether, or in what, figures of the source and ours may be compared, and why."""

    what: str
    comparable: str
    why: str


class Dossier(_Strict):
    """A file of claims: the published table, how to read it, the claims, tables and figures.

    `each` repeats the figures for every combination of these factors that the table has. `further`
    are metrics of ours that the source has not, for tables of our own.
    """

    published: str
    metrics: dict[str, list[Reading]]
    tables: list[Layout] = []
    figures: list[FigureSpec] = []
    each: list[str] = []
    machine: list[MachineTable] = []
    curves: list[Curves] = []
    comparable: list[Comparability] = []
    derived: list[Derived] = []
    totals: list[Total] = []
    further: list[str] = []
    cells: list[Rule] = []
    claims: list[Claim]

    @model_validator(mode="after")
    def _known(self) -> Dossier:
        faults = [f"further: no metric is named {m!r}" for m in self.further if m not in METRICS]
        known = {*METRICS, *(one.metric for one in self.totals)}
        for name, readings in self.metrics.items():
            for one in readings:
                if one.metric not in known and (one.metric != name or one.unit):
                    faults.append(f"metrics.{name}: no metric is named {one.metric!r}")
        named: list[tuple[str, str]] = [
            (f"metrics.{name}", key)
            for name, readings in self.metrics.items()
            for one in readings
            for key in (*one.when, *one.cells)
        ]
        read = {one.metric for readings in self.metrics.values() for one in readings}
        faults += [
            f"totals: no metric of the source is read as {total.metric!r}"
            for total in self.totals
            if total.metric not in read
        ]
        for index, rule in enumerate(self.cells):
            named += [(f"cells[{index}]", key) for key in (*rule.when, *rule.is_)]
        for claim in self.claims:
            ours = {one.metric for readings in self.metrics.values() for one in readings}
            ours |= {one.metric for one in self.derived}
            named += [(f"claim {claim.id}", key) for key in claim.needs]
            for test in claim.tests:
                named += [(f"claim {claim.id}", key) for key in _factors(test)]
                other = getattr(test, "other", None)
                for metric in (test.metric, *([other] if other else [])):
                    if metric not in ours:
                        faults.append(f"claim {claim.id}: {metric!r} is not among the metrics")
        for curves in self.curves:
            named += [(curves.id, key) for key in (*curves.where, curves.series)]
        for total in self.totals:
            named += [(total.metric, key) for key in (*total.where, *total.is_)]
        layouts: list[Layout | FigureSpec] = [*self.tables, *self.figures]
        for shown in layouts:
            named += [(shown.id, key) for key in (*shown.where, *(shown.also or {}))]
            if isinstance(shown, Layout):
                named += [(shown.id, key) for key in (*shown.rows, *shown.columns)]
            else:
                named += [(shown.id, key) for key in (shown.x, shown.series)]
        faults += [
            f"{place}: unknown factor {key!r}"
            for place, key in named
            if key not in BEYOND and key != "metric"
        ]
        ids = [claim.id for claim in self.claims]
        faults += [
            f"claim {one}: there twice" for one in sorted({i for i in ids if ids.count(i) > 1})
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return self


def _factors(test: Any) -> list[str]:
    """Every factor that a test names."""
    found = [*test.by, *test.where]
    for name in ("of", "to"):
        found += getattr(test, name, {})
    for step in getattr(test, "steps", []):
        found += step
    return found + [
        getattr(test, n) for n in ("along", "factor", "across", "over") if hasattr(test, n)
    ]


def read_dossier(path: Path) -> Dossier:
    """Read a file of claims; raises DossierError."""
    try:
        content, repeated = parsed(path.read_text(encoding="utf-8"))
        if repeated:
            cause = f"more than once in one mapping: {'; '.join(repeated)}"
            raise DossierError(f"{path}: {cause}; keep one each")
        return Dossier.model_validate(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DossierError(f"{path}: {' '.join(str(error).split())}; mend that file") from None
    except ValidationError as invalid:
        faults = "\n".join(
            f"  {'.'.join(map(str, error['loc'])) or 'the file'}: {error['msg']}"
            for error in invalid.errors()
        )
        raise DossierError(f"{path} has faults:\n{faults}") from None
