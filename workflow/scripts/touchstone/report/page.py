"""The report: one page with the answer and its evidence, which needs no network.

It formats the findings (analysis/findings.py) and the figures, and computes nothing.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from touchstone.analysis.again import Kept
from touchstone.analysis.findings_model import Findings
from touchstone.plan.names import framework_name, mode_name
from touchstone.report.inline import data_uri
from touchstone.report.rendering import templates
from touchstone.report.sections import (
    answer,
    numbers,
    outcomes,
    parity,
    profile,
    reported,
    setup,
    speed,
    strip,
    verdict,
    warnings,
    workloads,
)
from touchstone.report.text import (
    blocks_text,
    dot,
    facet_text,
    full_label,
    interval_text,
    number,
    ratio_text,
)
from touchstone.results.files import REMAKE, InputError, parse_json, read_text
from touchstone.results.study import describe_machine

SECTIONS = (
    answer,
    verdict,
    strip,
    outcomes,
    speed,
    parity,
    numbers,
    profile,
    workloads,
    reported,
    setup,
)
# Of training; a study that trains nothing has none of them.
FIGURES = (
    "throughput",
    "test_accuracy",
    "training_loss",
    "memory_speed",
    "phases",
    "cpu_utilization",
    "host_memory",
)
WIDE = 460.0  # points; half of the page is 33.5 rem of 12 points


def _figures(folder: Path) -> list[dict[str, Any]]:
    """The figures with their texts, images as data URIs; InputError when one is missing.

    A figure that does not fit into half of the page is `wide`; `narrow` is a version of it for a
    phone, empty where there is none.
    """
    remedy = REMAKE
    path = folder / "captions.json"
    try:
        captions = parse_json(read_text(path, remedy))
        more = [name for name in captions if name not in FIGURES]
        figures = [{"name": name, **captions[name]} for name in (*FIGURES, *more)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(path, f"not the captions of this version ({error})", remedy) from None
    for figure in figures:
        svg = read_text(folder / f"{figure['name']}.svg", remedy)
        width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', svg)
        figure["wide"] = width is None or float(width[1]) > WIDE
        figure["uri"] = data_uri(svg)
        narrow = folder / f"{figure['name']}-narrow.svg"
        figure["narrow"] = data_uri(read_text(narrow, remedy)) if narrow.exists() else ""
    return figures


def make_report(
    findings: Findings,
    figures: Path,
    *,
    title: str,
    kept: Kept,
    config_name: str,
    config_text: str,
    machines_section: str = "",
    shared: str = "../",
    study_page: str = "",
    list_page: str = "",
    price_per_hour: str = "",
    changed: Sequence[str] = (),
) -> str:
    """The page as HTML.

    Args:
        figures: folder written by the command `plot`.
        title: of the study.
        kept: its configuration, with which runs are repeated.
        config_name: file name of the resolved configuration.
        config_text: its content, quoted in full.
        machines_section: HTML of the comparison with other machines, if there is one.
        shared: the way from the page to the results folder, with a slash at its end.
        study_page: the page on a published study, if there is one.
        list_page: the page on all studies, if there is one.
        price_per_hour: of the machine, as `0.40 USD`, if the study says it.
        changed: files of the results that are not what their stage wrote.

    Raises:
        InputError: a figure or the captions are missing.
    """
    environment = templates()
    functions = (
        *(ratio_text, interval_text, blocks_text, number, dot, full_label, facet_text),
        *(framework_name, mode_name),
    )
    environment.globals |= {function.__name__: function for function in functions}
    environment.filters["framework_name"] = framework_name
    environment.globals["describe"] = describe_machine
    values: dict[str, Any] = {}
    for section in SECTIONS:
        values |= section.view(findings)
    values["glance"] = verdict.glance(findings, price_per_hour)
    values["price_per_hour"] = price_per_hour
    values["choices"] = speed.choices(findings, shared)
    values["warnings"] = warnings.of_changed(changed)
    values["alerts"] = warnings.of_study(findings, kept)
    values["cautions"] = warnings.cautions(findings.disturbed, findings.doubts, kept)
    drawn = _figures(figures)
    if not findings.cells_of("training"):
        drawn = [figure for figure in drawn if figure["name"] not in FIGURES]
    return environment.get_template("report.html.j2").render(
        values,
        title=title,
        figures=drawn,
        machines_section=Markup(machines_section),
        shared=shared,
        study_page=study_page,
        list_page=list_page,
        config_name=config_name,
        config_text=config_text,
    )
