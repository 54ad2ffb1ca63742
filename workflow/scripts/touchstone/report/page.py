"""The report: one page that answers, shows its evidence, and loads nothing.

It is made from the findings (analysis/findings.py) and the figures, and computes nothing.
"""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from touchstone.analysis.findings_model import Findings
from touchstone.report.rendering import templates
from touchstone.report.sections import answer, numbers, outcomes, parity, setup, speed, workloads
from touchstone.report.text import blocks_text, dot, full_label, interval_text, number, ratio_text
from touchstone.results.files import InputError, parse_json, read_text
from touchstone.results.study import describe_machine

SECTIONS = (answer, outcomes, speed, parity, numbers, workloads, setup)
FIGURES = ("throughput", "test_accuracy", "training_loss", "cpu_utilization", "host_memory")
WIDE = 460.0  # points; half of the page is 33.5 rem of 12 points


def _figures(folder: Path) -> list[dict[str, Any]]:
    """The figures with their texts, images as data URIs; InputError when one is missing.

    A figure that does not fit into half of the page is `wide`.
    """
    remedy = "Make the figures again with plot"
    path = folder / "captions.json"
    try:
        captions = parse_json(read_text(path, remedy))
        more = [name for name in captions if name not in FIGURES]
        figures = [{"name": name, **captions[name]} for name in (*FIGURES, *more)]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not the captions of this version ({error})", remedy) from None
    for figure in figures:
        svg = read_text(folder / f"{figure['name']}.svg", remedy)
        width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', svg)
        figure["wide"] = width is None or float(width[1]) > WIDE
        figure["uri"] = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    return figures


def make_report(
    findings: Findings,
    figures: Path,
    *,
    title: str,
    config_name: str,
    config_text: str,
    machines_section: str = "",
    pages: Sequence[str] = (),
) -> str:
    """The page as HTML.

    Args:
        figures: folder made by the command `plot`.
        title: of the study.
        config_name: file name of the resolved configuration.
        config_text: its content, quoted in full.
        machines_section: HTML of the comparison with other machines, if there is one.
        pages: files of pages on published studies, in the same folder as this page.

    Raises:
        InputError: a figure or the captions are missing.
    """
    environment = templates()
    functions = (ratio_text, interval_text, blocks_text, number, dot, full_label)
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals["describe"] = describe_machine
    values: dict[str, Any] = {}
    for section in SECTIONS:
        values |= section.view(findings)
    return environment.get_template("report.html.j2").render(
        values,
        title=title,
        figures=_figures(figures),
        machines_section=Markup(machines_section),
        pages=pages,
        config_name=config_name,
        config_text=config_text,
    )
