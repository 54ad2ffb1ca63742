"""A claim of a published study, and the comparisons that test it, as its file has them.

docs/adding.md explains every key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from touchstone.published.numbers_said import Word, bounds_of, order_of_magnitude

Level = str | int | float
Where = dict[str, Level | list[Level]]
"""Factors with the level, or the levels, that they may have."""

OTHERS = "others"
"""In an order: all levels that it does not name."""
MOST, SOME = "most", "some"
"""Shares of groups: more than one half, and at least one."""


class Strict(BaseModel):
    """A mapping of the file: unknown keys and other types than those declared are faults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class Relative(Strict):
    """Figures `of` divided by the figures `to` that have the same level of every factor `alike`.

    The quotient has the factors of the figure `of`.
    """

    of: Where
    to: Where
    alike: list[str]


Number = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(e[0-9]+)?$")]
"""A number with the digits that the source's text gives."""
Tolerance = Annotated[float, Field(ge=0)]
"""A share; of accuracies a difference."""


class _Test(Strict):
    """A comparison. Groups are the figures `where` that share every factor of `by`.

    It holds where at least `share` of the groups do. Figures that have all the levels of a mapping
    of `without` do not count. With `relative` the figures are ratios: gains from a second GPU, say.
    """

    metric: str
    by: list[str] = []
    where: Where = {}
    without: list[Where] = []
    relative: Relative | None = None
    share: Annotated[float, Field(gt=0, le=1)] | Literal["most", "some"] = 1.0


class _Bounded(_Test):
    """A comparison whose number lies between `least` and `most`.

    Where the source's text says a number of one machine, `number` has it with its digits, or the
    ends of a range, and `word` the word before it; the bounds follow from these.
    """

    least: float | None = None
    most: float | None = None
    number: Number | Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    word: Word | None = None

    @property
    def numbers(self) -> list[str]:
        """The number that the text says, or the two ends of a range; none, if it says none."""
        return [self.number] if isinstance(self.number, str) else self.number or []

    def bounds(self, exact: bool) -> tuple[float | None, float | None]:
        """The least and the most that figures may be.

        `exact` are figures of the source, and those that are counted and alike on every machine.
        """
        if not self.numbers:
            return self.least, self.most
        said = bounds_of(self.numbers, self.word)
        return said if exact else order_of_magnitude(said)

    @model_validator(mode="after")
    def _bounded(self) -> _Bounded:
        if bool(self.numbers) == (self.least is not None or self.most is not None):
            raise ValueError("give least, most or both, or the number that the source says")
        if self.word and not self.numbers:
            raise ValueError("word: there is no number that it is before; give one")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least {self.least:g} is more than most {self.most:g}; swap them")
        return self


class RatioTest(_Bounded):
    """`of` / `to` lies between the bounds, both widened by `tolerance`, a share.

    `other` is the metric of the figures `to`, where it is another one.
    """

    kind: Literal["ratio"]
    of: Where
    to: Where
    other: str | None = None
    tolerance: Tolerance = 0.0


class ValueTest(_Bounded):
    """Each figure itself lies between the bounds, in the unit of the metric."""

    kind: Literal["value"]


class TrendTest(_Test):
    """The metric along a factor of numbers: docs/adding.md says what the words mean."""

    kind: Literal["trend"]
    along: str
    expect: Literal["rises", "falls", "peaks", "dips", "level", "saturates"]
    tolerance: Tolerance = 0.0


class EndsTest(_Bounded):
    """The figure at the last level of `along` / that at the first lies between the bounds."""

    kind: Literal["ends"]
    along: str


class ExtremeTest(_Test):
    """`level` of `factor` has, or has not, the largest or smallest figure of its group.

    With `places` it is one of so many. With `margin` it is so many times the others, or the others
    are so many times it.
    """

    kind: Literal["extreme"]
    factor: str
    level: Level
    expect: Literal["largest", "smallest", "not largest", "not smallest"]
    places: Annotated[int, Field(ge=1)] = 1
    margin: Annotated[float, Field(ge=1)] = 1.0


class OrderTest(_Test):
    """The levels of `factor` come in this order, the largest figure first.

    Levels in one list of `order` may come in any order among themselves; `others` are all that it
    does not name. A group has to have all of them in this order; with `each: pair` every pair that
    `order` orders is a group.
    """

    kind: Literal["order"]
    factor: str
    order: Annotated[list[list[Level]], Field(min_length=2)]
    each: Literal["group", "pair"] = "group"


class SpreadTest(_Bounded):
    """The largest / the smallest figure over the levels of `across` lies between the bounds."""

    kind: Literal["spread"]
    across: str


class MeanTest(_Bounded):
    """The figure of `level` of `factor` / the mean of its group lies between the bounds."""

    kind: Literal["mean"]
    factor: str
    level: Level


class GainTest(_Test):
    """The step from the second of `steps` to the third gains less than that from the first.

    The second and the third share every factor of `alike`, which the first may lack.
    """

    kind: Literal["gain"]
    alike: list[str] = []
    steps: Annotated[list[Where], Field(min_length=3, max_length=3)]
    tolerance: Tolerance = 0.0


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
    RatioTest
    | ValueTest
    | TrendTest
    | EndsTest
    | ExtremeTest
    | OrderTest
    | SpreadTest
    | MeanTest
    | GainTest
    | RankTest,
    Field(discriminator="kind"),
]


class Claim(Strict):
    """A claim in our words.

    `source` is its place in the source. `ours` says what in its tests is our choice and not the
    source's. `own_table` is what the source's own figures make of it, computed by hand. `needs`
    are settings that a scale of the study must not change. A claim with `stand_in` was measured
    on a GPU; where there is none, the same comparisons of CPU figures take its place.
    `not_comparable` is why no other machine's figures can be compared with what it says.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    statement: str
    source: str
    ours: str | None = None
    own_table: Literal["holds", "fails", "cannot tell", "no figures"] | None = None
    needs: list[str] = []
    stand_in: bool = False
    tests: list[Test] = []
    untested: str | None = None
    not_comparable: str | None = None

    @model_validator(mode="after")
    def _tested(self) -> Claim:
        if bool(self.tests) == bool(self.untested):
            raise ValueError("give tests, or the reason why it is untested")
        if self.stand_in and self.tests == [on_cpu(test) for test in self.tests]:
            raise ValueError("stand_in: no test names device gpu; name it, or leave stand_in out")
        return self


HOSTS = {"gpu_memory": "host_memory", "gpu_memory_per_gpu": "host_memory_run"}
"""By metric of a GPU's memory, that of the host's over the same time."""


def on_cpu(test: Test) -> Test:
    """The same comparison of figures on a CPU, of the host's memory in place of the GPU's."""
    content: Any = _with_cpu(test.model_dump())
    if content != test.model_dump():
        content["metric"] = HOSTS.get(content["metric"], content["metric"])
    return type(test).model_validate(content)


def _with_cpu(content: Any) -> Any:
    if isinstance(content, list):
        return [_with_cpu(part) for part in content]
    if isinstance(content, dict):
        return {
            key: "cpu" if (key, value) == ("device", "gpu") else _with_cpu(value)
            for key, value in content.items()
        }
    return content


def compares(test: Test, factor: str) -> bool:
    """Whether a comparison sets figures of several levels of a factor against each other."""
    if factor in test.by or factor in _own_factors(test):
        return True
    levels = [getattr(test, side, {}).get(factor) for side in ("of", "to")]
    return None not in levels and levels[0] != levels[1]


def _own_factors(test: Test) -> list[str]:
    """The factors over whose levels a comparison goes."""
    return [
        getattr(test, name) for name in ("along", "factor", "across", "over") if hasattr(test, name)
    ]


def factors_named(test: Test) -> list[str]:
    """Every factor that a comparison names."""
    names = [*test.by, *(name for where in [*wheres(test), *test.without] for name in where)]
    if test.relative:
        names += test.relative.alike
    names += getattr(test, "alike", [])
    return names + _own_factors(test)


def wheres(test: Test) -> Iterator[Where]:
    """Every mapping of a comparison that says which figures it asks for."""
    yield test.where
    if test.relative:
        yield test.relative.of
        yield test.relative.to
    for name in ("of", "to"):
        if hasattr(test, name):
            yield getattr(test, name)
    yield from getattr(test, "steps", [])


def levels_named(claim: Claim, factor: str) -> list[str]:
    """The levels of a factor that the comparisons of a claim name, in order of first use."""
    levels: dict[str, None] = {}
    for test in claim.tests:
        for where in wheres(test):
            wanted = where.get(factor, [])
            for level in wanted if isinstance(wanted, list) else [wanted]:
                levels[str(level)] = None
        if getattr(test, "factor", None) == factor:
            tiers = getattr(test, "order", [[getattr(test, "level", "")]])
            levels |= dict.fromkeys(str(level) for tier in tiers for level in tier if level)
    return [level for level in levels if level != OTHERS]


def metrics_named(claim: Claim) -> set[str]:
    """The metrics that the comparisons of a claim name."""
    metrics = {test.metric for test in claim.tests}
    return metrics | {o for test in claim.tests if (o := getattr(test, "other", None))}
