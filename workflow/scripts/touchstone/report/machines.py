"""The page of several machines: their results side by side."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from touchstone.analysis.doubts import disturbed_runs, doubts
from touchstone.analysis.machines import (
    QUANTITIES,
    Against,
    Machine,
    against_first,
    all_cells,
    summary,
    throughput_rows,
    time_rows,
)
from touchstone.report.figures.style import machine_styles
from touchstone.report.rendering import templates
from touchstone.report.sections.warnings import Alert, warnings
from touchstone.statistics.intervals import LEVEL, SESSION_SD

THERE = " on that machine, before you make its bundle again"
ROWS = 200
"""Cells that a table of the page has at most."""


def _answer(first: str, throughputs: Mapping[str, Against]) -> str:
    """What the throughputs show of each machine against the first, in words."""
    sentences = []
    for name, against in throughputs.items():
        counts = ", ".join(f"{verdict} in {n}" for verdict, n in against.verdicts.items())
        text = f"{name} against {first}, of {against.cells} cells: {counts}"
        if against.ratios:
            low, high = (f"{end:.2f}" for end in against.ratios)
            span = low if low == high else f"{low} to {high}"
            text += f"; throughput {span} times the first's"
        sentences.append(f"{text}.")
    return " ".join(sentences)


def _warnings(machine: Machine) -> list[Alert]:
    """The warnings of a machine's study, each with the machine's name; commands are for there."""
    alerts = warnings(disturbed_runs(machine.study), doubts(machine.study), machine.kept)
    return [
        alert._replace(
            fault=f"{machine.name}: {alert.fault}",
            remedy=alert.remedy.removesuffix(":") + f"{THERE}:" if alert.command else alert.remedy,
        )
        for alert in alerts
    ]


def make_pages(machines: Sequence[Machine], figure: str, texts: dict[str, str]) -> tuple[str, str]:
    """The comparison as a section for a report, and as a page of its own, both HTML.

    Args:
        figure: a data URI of the figure.
        texts: its `title`, `caption` and `alt`.
    """
    environment = templates()
    names = all_cells(machines)
    changes = against_first(machines, "throughput")
    against = {name: summary(of.values()) for name, of in changes.items()}
    values = {
        "machines": machines,
        "warnings": [alert for machine in machines for alert in _warnings(machine)],
        "styles": machine_styles(len(machines)),
        "answer": _answer(machines[0].name, against),
        "cells": len(names),
        "rows": throughput_rows(machines, names[:ROWS], changes),
        "times": time_rows(machines, names[:ROWS]),
        "quantities": QUANTITIES,
        "differences": {name: of.differences for name, of in against.items()},
        "figure": figure,
        "texts": texts,
        "level": LEVEL,
        "session_sd": SESSION_SD,
    }
    section = environment.get_template("machines.html.j2").render(values)
    studies = dict.fromkeys(str(machine.manifest["study"]) for machine in machines)
    page = environment.get_template("merged.html.j2").render(
        title=f"{', '.join(studies)} on {len(machines)} machines", section=Markup(section)
    )
    return section, page
