"""Write the report of a study from its findings: one page of HTML that needs no network."""

import argparse
from pathlib import Path

import yaml

from touchstone.analysis.findings_file import read_findings
from touchstone.analysis.findings_model import Findings
from touchstone.report.page import make_report
from touchstone.results import digests
from touchstone.results.files import REMAKE, InputError, read_text, write_atomic
from touchstone.yaml_file import parsed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--findings", type=Path, required=True, help="findings.json")
    parser.add_argument("--figures", type=Path, required=True, help="folder of the figures")
    parser.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    parser.add_argument("--machines", type=Path, help="HTML of the comparison of machines")


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
    page = make_report(
        findings,
        arguments.figures,
        title=str(config.get("title") or config.get("study") or "Benchmark"),
        config_name=arguments.config.name,
        config_text=config_text,
        machines_section=(
            read_text(arguments.machines, "Run the workflow again") if arguments.machines else ""
        ),
        changed=_changed(findings, arguments.findings.parent),
        pages=sorted(
            page.name for page in arguments.output.parent.glob("*.html") if page != arguments.output
        ),
    )
    write_atomic(arguments.output, page)


def _changed(findings: Findings, results: Path) -> list[str]:
    """The files that are not what their stage wrote; those of runs if a run is flagged so."""
    stages = digests.OF_STAGES if digests.EDITED in findings.flags else digests.SMALL_STAGES
    return [path.relative_to(results).as_posix() for path in digests.changed_in(results, stages)]
