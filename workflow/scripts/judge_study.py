"""Judge a published study that was done again: its claims, tables and figures, and their page."""

import argparse
import sys
from pathlib import Path

from analyse.files import exit_with, write_atomic
from analyse.study import read_study
from plan.study import ConfigError, make_plan, read
from studies.dossier import DossierError, read_dossier
from studies.page import make
from studies.published import PublishedError, read_table

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.tsv")
    parser.add_argument("--config", type=Path, required=True, help="the resolved configuration")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--records", type=Path, required=True, help="folder of the records")
    parser.add_argument("--output", type=Path, required=True, help="folder of tables and figures")
    parser.add_argument("--page", type=Path, required=True, help="the page to write")
    arguments = parser.parse_args()
    try:
        config = read(arguments.config)
        done = make_plan(config, ROOT)
        whole = make_plan({**config, "scale": "paper"}, ROOT)
        dossier = read_dossier(ROOT / f"config/claims/{done.study.study}.yaml")
        table = read_table(ROOT / "config/published" / dossier.published)
    except (ConfigError, DossierError, PublishedError) as error:
        sys.exit(f"error: {error}")
    study = read_study(arguments.plan, arguments.tables, arguments.records)
    cells = {
        name: (full, short)
        for full, (name, short) in zip(whole.cells.values(), done.cells.items(), strict=True)
    }
    folder = Path("..") / arguments.output.relative_to(arguments.page.parents[1])
    result = make(
        done.study.title,
        done.study.scale,
        (whole.study.repeats, done.study.repeats),
        table,
        dossier,
        study,
        [cells[cell.plan.name] for cell in study.cells],
        folder.as_posix(),
    )
    for name, content in result.files.items():
        write_atomic(arguments.output / name, content)
    write_atomic(arguments.page, result.page)


if __name__ == "__main__":
    exit_with(main)
