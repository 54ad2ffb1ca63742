"""Make tables and findings of the planned records. Exit 1, with one line, if one is missing."""

import argparse
from pathlib import Path

from touchstone.analysis import findings_tables
from touchstone.analysis.findings import compute
from touchstone.analysis.findings_file import write_findings
from touchstone.datasets import data_report
from touchstone.plan import frameworks
from touchstone.results import digests
from touchstone.results.certificates import read_certificates
from touchstone.results.gathering import gather
from touchstone.results.interleaved import read_interleaved
from touchstone.results.max_batch import read_max_batches
from touchstone.results.profiles import read_profiles

TABLES = (
    *("measurements", "summary", "comparisons", "scaling"),
    *("precision", "bottleneck", "trials", "profile"),
)
"""What is written here; other commands write more into the same folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--findings", type=Path, required=True, help="findings.json to write")
    parser.add_argument(
        "--certificates", type=Path, nargs="*", default=[], help="of the study's networks"
    )
    parser.add_argument(
        "--interleaved", type=Path, nargs="*", default=[], help="of what was measured in turn"
    )
    parser.add_argument(
        "--max-batches", type=Path, help="folder of the searches for the largest batch"
    )
    parser.add_argument(
        "--profiles", type=Path, help="folder of the profiles; write profile.csv too"
    )
    parser.add_argument(
        "--scaling", action="store_true", help="write scaling.csv too: speed-up by replicas"
    )
    parser.add_argument(
        "--data", type=Path, nargs="*", default=[], help="the data reports of its data sets"
    )


def run(arguments: argparse.Namespace) -> None:
    folder = arguments.output
    certificates = read_certificates(arguments.certificates)
    searches = read_max_batches(arguments.max_batches)
    released = {name: frameworks.released(name) for name in frameworks.adapters()}
    interleaved = read_interleaved(arguments.interleaved)
    study = gather(
        arguments.plan,
        arguments.records,
        folder,
        certificates,
        searches,
        released,
        interleaved,
    )
    searched = arguments.max_batches.glob("*.json") if arguments.max_batches else ()
    digests.warn_of([*arguments.certificates, *arguments.interleaved, *searched])
    profiles = read_profiles(arguments.profiles, [cell.plan.name for cell in study.cells])
    findings = compute(
        study,
        certificates,
        searches,
        released,
        interleaved,
        profiles,
        data_report.read_all(arguments.data),
    )
    findings_tables.write(
        findings, folder, scaling=arguments.scaling, profile=bool(arguments.profiles)
    )
    write_findings(findings, arguments.findings)
    tables = (path for path in folder.iterdir() if path.stem in TABLES)
    digests.write(folder, [*tables, arguments.findings])
