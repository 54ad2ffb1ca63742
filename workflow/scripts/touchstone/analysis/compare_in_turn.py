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
        recorded = cls()
        for event in events:
            if isinstance(event, Start):
                recorded = recorded._replace(others={**recorded.others, "python": event.python})
            elif isinstance(event, Software):
                recorded = recorded._replace(
                    framework=event.framework,
                    version=event.version,
                    others={**recorded.others, **event.others},
                )
        return recorded

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
    results = [None if cell.turns.excluded else measured(cell.turns) for cell in configurations]
    models = iter(compare_turns([turns for turns in results if turns]))
    return [
        _change(cell, turns, next(models)) if turns else _left_out(cell)
        for cell, turns in zip(configurations, results, strict=True)
    ]


def _left_out(cell: Configuration) -> Change:
    why = "; ".join(f"{side}: {reason}" for side, reason in cell.turns.excluded.items())
    return Change(cell.turns.group, [], [], None, NOT_COMPARABLE, why or "no set was measured", [])


def _change(cell: Configuration, turns: Measured, model: Group) -> Change:
    ratio = model.ratio(NEW, OLD)
    assert ratio and ratio.error is not None, "three sets or more have an interval"
    speeds = [list(turns.speeds[name].values()) for name in (OLD, NEW)]
    old, new = (
        [Run("ok", cell.unit, speed, "", [], cell.sides[name].provenance) for speed in values]
        for name, values in zip((OLD, NEW), speeds, strict=True)
    )
    ratio = ratio._replace(groups=1)
    values = speeds[0], speeds[1]
    verdict = ratio.verdict()
    differences = differences_of(old, new)
    return Change(
        cell.turns.group, old, new, ratio, verdict, "", differences, values, basis_of(turns)
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
    for cell in configurations:
        old, new = cell.sides[OLD], cell.sides[NEW]
        if old.version and new.version:
            name = framework_name(new.framework)
            return f"{name} {old.version} -> {new.version} on {cell.device}"
    return ""
