"""Judge a published study that was done again: its claims, tables and figures, and their page."""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from touchstone.analysis.again import Kept
from touchstone.analysis.machines import Machine, read_machines
from touchstone.analysis.styles import gaps_of
from touchstone.paths import ROOT
from touchstone.plan.model import Cell
from touchstone.plan.read import ConfigError, read
from touchstone.plan.study import make_plan, whole_cells
from touchstone.published.dossier import DossierError, read_dossier
from touchstone.published.page import OtherMachine, make
from touchstone.published.table import PublishedError, read_table
from touchstone.results import digests
from touchstone.results.bundle import pack
from touchstone.results.files import write_atomic
from touchstone.results.interleaved import measured, read_interleaved
from touchstone.results.study import Study, read_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of tables and figures")
    parser.add_argument("--page", type=Path, required=True, help="the page to write")
    parser.add_argument(
        "--interleaved", type=Path, nargs="*", default=[], help="of what was measured in turn"
    )


def run(arguments: argparse.Namespace) -> None:
    try:
        config = read(arguments.config)
        done = make_plan(config, ROOT)
        wholes = whole_cells(done, config, ROOT)
        left_out = len(make_plan({**config, "scale": "paper"}, ROOT).cells) - len(done.cells)
        dossier = read_dossier(ROOT / f"config/claims/{done.study.study}.yaml")
        table = read_table(ROOT / "config/published" / dossier.published)
    except (ConfigError, DossierError, PublishedError) as error:
        sys.exit(f"error: {error}")
    interleaved = read_interleaved(arguments.interleaved)
    study = read_study(arguments.plan, arguments.tables, arguments.records, interleaved)
    turns = list(filter(None, map(measured, interleaved)))
    others = [
        _other(machine, wholes)
        for machine in _machines(arguments.plan.parent, done.study.compare_with)
    ]
    folder = os.path.relpath(arguments.output, arguments.page.parent)
    result = make(
        done.study.title,
        Kept.of(config),
        done.study.scale,
        (done.whole_repeats, done.study.repeats),
        table,
        dossier,
        study,
        wholes,
        folder,
        others,
        turns,
        gaps_of(study, interleaved),
        left_out,
    )
    for name, content in result.files.items():
        write_atomic(arguments.output / name, content)
    write_atomic(arguments.page, result.page)
    files = [arguments.output / name for name in result.files]
    digests.write(arguments.output, [*files, arguments.page])


def _machines(results: Path, bundles: Sequence[str]) -> list[Machine]:
    """The other machines of these bundles; one that has our own runs is refused."""
    if not bundles:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        own = Path(scratch) / "own.zip"
        pack(results, own)
        given = [(f"{results}/", own), *((name, Path(name)) for name in bundles)]
        return read_machines(given, Path(scratch))[1:]


def _other(machine: Machine, wholes: Mapping[str, Cell]) -> OtherMachine:
    """What a bundle has of the cells of this study; a cell's name says all of its settings."""
    cells = [cell for cell in machine.study.cells if cell.plan.name in wholes]
    return OtherMachine(machine.name, Study(cells))
