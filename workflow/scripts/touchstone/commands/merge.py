"""Put several machines' results side by side: a page, a section for a report, table and figure."""

import argparse
import tempfile
from pathlib import Path

from touchstone.analysis.machines import as_table, read_machines
from touchstone.paths import snakemake
from touchstone.report.figures.machines import draw_machines
from touchstone.report.figures.render import drawing, render
from touchstone.report.inline import data_uri
from touchstone.report.machines import make_pages
from touchstone.results import digests
from touchstone.results.bundle import pack
from touchstone.results.files import InputError, write_atomic

GROUP = "Machines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", type=Path, nargs="*", help="the first is the reference")
    parser.add_argument("--own", type=Path, help="a results folder that comes before them")
    parser.add_argument("--machine", help="the name of the machine that made it")
    parser.add_argument("--output", type=Path, required=True, help="folder of what is made")


def run(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        bundles = [(path.name, path) for path in arguments.bundles]
        if arguments.own:
            path = Path(scratch) / "own.zip"
            pack(arguments.own, path, arguments.machine)
            bundles.insert(0, (f"{arguments.own}/", path))
        if len(bundles) < 2:
            raise InputError(
                "bundles",
                f"{len(bundles)} to compare, it takes two",
                f"Name them: {snakemake()} merge --config bundles=ONE.zip,OTHER.zip",
            )
        machines = read_machines(bundles, Path(scratch))
        with drawing():
            figure, texts = draw_machines(machines)
            images = render(figure)
        section, page = make_pages(machines, data_uri(images["svg"].decode()), texts)
    files: dict[str, str | bytes] = {f"machines.{kind}": images[kind] for kind in images}
    files |= {"machines.csv": as_table(machines), "section.html": section, "index.html": page}
    for name, content in files.items():
        write_atomic(arguments.output / name, content)
    digests.write(arguments.output, [arguments.output / name for name in files])
    print(f"{len(machines)} machines side by side: {arguments.output / 'index.html'}")
