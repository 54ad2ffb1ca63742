"""Draw the figures of a gathered study, as SVG and PNG, with their captions."""

import argparse
from pathlib import Path

from touchstone.analysis.comparison import speeds_in_turn
from touchstone.analysis.profile import layer_profiles
from touchstone.plan.setting import TRAINING
from touchstone.report.figures.render import drawing, make_figures, render
from touchstone.results import digests
from touchstone.results.files import write_atomic, write_json
from touchstone.results.interleaved import read_interleaved
from touchstone.results.profiles import read_profiles
from touchstone.results.study import read_study


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument(
        "--interleaved", type=Path, nargs="*", default=[], help="of what was measured in turn"
    )
    parser.add_argument("--profiles", type=Path, help="folder of the profiles")
    parser.add_argument("--output", type=Path, required=True, help="folder of the figures")


def run(arguments: argparse.Namespace) -> None:
    interleaved = read_interleaved(arguments.interleaved)
    study = read_study(arguments.plan, arguments.tables, arguments.records, interleaved)
    found = read_profiles(arguments.profiles, [cell.plan.name for cell in study.cells])
    profiles = layer_profiles(study, found)
    digests.warn_of(arguments.interleaved)
    captions = {}
    written = [arguments.output / "captions.json"]
    in_turn = speeds_in_turn(study.compared_as(TRAINING), interleaved)
    with drawing():
        for drawn in make_figures(study, profiles, in_turn):
            captions[drawn.name] = drawn.texts
            for kind, image in render(drawn.figure).items():
                written.append(arguments.output / f"{drawn.name}.{kind}")
                write_atomic(written[-1], image)
            if drawn.narrow:
                image = render(drawn.narrow, ["svg"])["svg"]
                written.append(arguments.output / f"{drawn.name}-narrow.svg")
                write_atomic(written[-1], image)
    write_json(written[0], captions)
    digests.write(arguments.output, written)
