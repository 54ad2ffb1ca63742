"""Write the report of a study from its findings: one page of HTML that needs no network.

Next to the page are the tables and figures that it links to, and the study's configuration, so that
a later study changes none of them. `--list` writes the page on all studies that have a report.
"""

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from touchstone.analysis.again import CONFIG, Kept
from touchstone.analysis.findings_file import read_findings
from touchstone.report.page import make_report
from touchstone.report.studies import ENTRY, entry, make_list
from touchstone.results import digests
from touchstone.results.files import REMAKE, InputError, read_text, write_atomic, write_json
from touchstone.yaml_file import parsed

STUDY_PAGE = "study.html"
"""The page on a published study, next to its report."""
LINKED = re.compile(r'href="((?:tables|figures)/[^"/]+|findings\.json)"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--findings", type=Path, required=True, help="findings.json")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    parser.add_argument("--machines", type=Path, help="HTML of the comparison of machines")
    parser.add_argument(
        "--sources", type=Path, nargs="*", default=[],
        help="certificates, turns and searches for the largest batch that the findings are from",
    )  # fmt: skip
    parser.add_argument("--list", type=Path, help="the page on all studies, one folder above")


def run(arguments: argparse.Namespace) -> None:
    config_text = read_text(arguments.config, REMAKE)
    try:
        config, _ = parsed(config_text)
    except yaml.YAMLError as error:
        cause = f"not valid YAML ({' '.join(str(error).split())})"
        raise InputError(arguments.config, cause, REMAKE) from None
    if not isinstance(config, dict):
        raise InputError(arguments.config, "not a mapping of settings", REMAKE)
    findings = read_findings(arguments.findings)
    results, folder = arguments.findings.parent, arguments.output.parent
    title = str(config.get("title") or config.get("study") or "Benchmark")
    kept = Kept.of(config)
    cells = {cell.name for cell in findings.cells}
    sources = digests.Sources(kept.study, cells, arguments.sources)
    # Its last page is written again.
    changed = [name for name in sources.changed(results) if not name.startswith("report/")]
    page = make_report(
        findings,
        arguments.figures,
        title=title,
        kept=kept,
        config_name=arguments.config.name,
        config_text=config_text,
        machines_section=(
            read_text(arguments.machines, "Run the workflow again") if arguments.machines else ""
        ),
        shared=f"{os.path.relpath(results, folder)}/",
        study_page=STUDY_PAGE if (folder / STUDY_PAGE).exists() else "",
        list_page=os.path.relpath(arguments.list, folder) if arguments.list else "",
        price_per_hour=str(config.get("price_per_hour") or ""),
        changed=changed,
    )
    files: dict[str, str | bytes] = {**dict(_linked(page, results)), CONFIG: config_text}
    files[arguments.output.name] = page
    for name, content in files.items():
        write_atomic(folder / name, content)
    written = [folder / name for name in files]
    if arguments.list:
        written.append(folder / ENTRY)
        write_json(written[-1], entry(findings, title, kept, changed))
        write_atomic(arguments.list, make_list(arguments.list.parent))
        digests.write(arguments.list.parent, [arguments.list])
    digests.write(folder, written)


def _linked(page: str, results: Path) -> Iterator[tuple[str, bytes]]:
    """The tables and figures that a page links to."""
    for name in sorted(set(LINKED.findall(page))):
        try:
            yield name, (results / name).read_bytes()
        except OSError as error:
            raise InputError(results / name, f"cannot be read ({error})", REMAKE) from None
