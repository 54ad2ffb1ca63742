"""Write the tables of run files, of turns and of profiles in docs/contracts.md from their types."""

import argparse
import re
from typing import Any

from touchstone.files import with_section
from touchstone.paths import ROOT
from touchstone.schema import events, interleaved, profile, spec
from touchstone.schema.values import type_name

PAGE = ROOT / "docs/contracts.md"
PARTS = (
    spec.Factors, spec.Network, spec.Parameter, spec.Data, spec.Optimizer, spec.Schedule,
    spec.Augmentation, spec.Execution, spec.TrainingPhases, spec.TimedPhases, spec.Limits,
    spec.Trial, spec.Calls, spec.ParitySteps,
)  # fmt: skip


def specs() -> str:
    """A table for each kind of spec, then one for each kind of object in them."""
    kinds = [_table(f"`{kind}`: {cls.__name__}", cls) for kind, cls in spec.KINDS.items()]
    return "\n".join([*kinds, *(_table(cls.__name__, cls) for cls in PARTS)])


def turns() -> str:
    """A table for what is measured in turn."""
    parts = (
        interleaved.Interleaved, interleaved.MeasuredSet, interleaved.Turns, interleaved.Round,
        interleaved.Slice, interleaved.Waiting,
    )  # fmt: skip
    return "\n".join(_table(cls.__name__, cls) for cls in parts)


def profiles() -> str:
    """A table for a profile, and one for its layers."""
    return "\n".join(_table(cls.__name__, cls) for cls in (profile.Profile, profile.LayerTime))


def kinds_of_events() -> str:
    """A table for each event."""
    return "\n".join(_table(f"`{name}`", cls) for name, cls in events.KINDS.items())


def _table(title: str, cls: Any) -> str:
    """The fields of a class, with what the lines `name: text` of its docstring say of them.

    Raises:
        KeyError: the docstring says nothing of a field.
    """
    docstring = cls.__doc__ or ""
    meanings = dict(re.findall(r"^ *(\w+): (.+)$", docstring, re.MULTILINE))
    rows = [f"| `{name}` | {_type(cls, name)} | {meanings[name]} |" for name in cls.__annotations__]
    head = [f"**{title}.** {docstring.splitlines()[0]}", "", "| field | value | meaning |"]
    return "\n".join([*head, "| --- | --- | --- |", *rows]) + "\n"


def _type(cls: Any, name: str) -> str:
    words = type_name(cls.__annotations__[name])
    if cls._field_defaults.get(name, "") is None:  # it is not written where it is null
        return words.replace(" or null", ", or absent")
    return words


def page_with_tables(page: str) -> str:
    """docs/contracts.md with its sections as the types have them."""
    page = with_section(page, "spec", specs())
    page = with_section(page, "events", kinds_of_events())
    page = with_section(page, "turns", turns())
    return with_section(page, "profile", profiles())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> None:
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
