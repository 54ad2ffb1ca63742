"""What two installations that were measured in turn show, configuration by configuration."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from touchstone.analysis.compare_results import NOT_COMPARABLE, Change, Run, differences_of
from touchstone.plan.names import framework_name
from touchstone.results.interleaved import Measured, compare_turns, measured
from touchstone.schema.events import Event, Software, Start
from touchstone.schema.interleaved import Interleaved
from touchstone.statistics.groups import Group

OLD, NEW = "old", "new"
"""The names of the two installations in turns and in the text."""


class Recorded(NamedTuple):
    """What an installation's runner recorded of a configuration; empty if it recorded nothing.

    Attributes:
        framework: its name.
        version: of the framework.
        others: by name, versions of Python and of the libraries that it uses.
    """

    framework: str = ""
    version: str = ""
    others: Mapping[str, Any] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Recorded":
        """What a runner's events say."""
        found = cls()
        for event in events:
            if isinstance(event, Start):
                found = found._replace(others={**found.others, "python": event.python})
            elif isinstance(event, Software):
                found = found._replace(
                    framework=event.framework,
                    version=event.version,
                    others={**found.others, **event.others},
                )
        return found

    @property
    def provenance(self) -> dict[str, Any]:
        """As the record of a run has it."""
        return {"machine": {}, "software": {"version": self.version, **self.others}}


class Configuration(NamedTuple):
    """A configuration of which two installations took turns.

    unit: of its speeds
    device: on which it computes, in words
    sides: by the names `OLD` and `NEW`
    """

    turns: Interleaved
    unit: str
    device: str
    sides: Mapping[str, Recorded]


def changes_in_turn(configurations: Sequence[Configuration]) -> list[Change]:
    """The throughput of `NEW` / that of `OLD` of each configuration, by its own interval."""
    found = [None if one.turns.excluded else measured(one.turns) for one in configurations]
    models = iter(compare_turns([one for one in found if one]))
    return [
        _change(one, turns, next(models)) if turns else _left_out(one)
        for one, turns in zip(configurations, found, strict=True)
    ]


def _left_out(one: Configuration) -> Change:
    why = "; ".join(f"{side}: {reason}" for side, reason in one.turns.excluded.items())
    return Change(one.turns.group, [], [], None, NOT_COMPARABLE, why or "no set was measured", [])


def _change(one: Configuration, turns: Measured, model: Group) -> Change:
    ratio = model.ratio(NEW, OLD)
    assert ratio and ratio.error is not None, "three sets or more have an interval"
    speeds = [list(turns.speeds[name].values()) for name in (OLD, NEW)]
    old, new = (
        [Run("ok", one.unit, speed, "", [], one.sides[name].provenance) for speed in values]
        for name, values in zip((OLD, NEW), speeds, strict=True)
    )
    ratio = ratio._replace(groups=1)
    values = speeds[0], speeds[1]
    verdict = ratio.verdict()
    differences = differences_of(old, new)
    return Change(
        one.turns.group, old, new, ratio, verdict, "", differences, values, basis_of(turns)
    )


def basis_of(turns: Measured) -> str:
    """`5 sets, 18 of 20 rounds`, and why to trust them less."""
    trust = ""
    if turns.disturbed:
        used = f"other programs used the cores in {turns.disturbed} of these"
        trust = f"; {used}, so trust this less"
    elif turns.apart:
        trust = f"; the hypervisor had moved the cores apart in {turns.apart} of these"
    return f"{turns.sets} sets, {turns.rounds} of {turns.all_rounds} rounds{trust}"


def heading(configurations: Sequence[Configuration]) -> str:
    """`PyTorch 2.9.1 -> 2.13.0 on the CPU`, as the runners recorded it; empty if none did."""
    for one in configurations:
        old, new = one.sides[OLD], one.sides[NEW]
        if old.version and new.version:
            name = framework_name(new.framework)
            return f"{name} {old.version} -> {new.version} on {one.device}"
    return ""
