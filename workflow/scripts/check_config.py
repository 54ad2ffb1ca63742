"""Check a configuration file as it would be used on top of the default study, and count it."""

import argparse
import os
import sys
from pathlib import Path

from snakemake.utils import update_config

from plan.estimate import estimate
from plan.study import ConfigError, make_plan, read

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    try:
        overlay = read(parser.parse_args().file)
        config = read(ROOT / "config/config.yaml")
        update_config(config, overlay)
        plan = make_plan(config, ROOT)
    except ConfigError as fault:
        sys.exit(f"error: {fault}")
    print(f"{plan.study.study}: {len(plan.cells)} cells, {len(plan.order)} runs")
    runs = dict.fromkeys(plan.cells, plan.study.repeats)
    print(estimate(plan, runs, ROOT / "config/datasets", os.cpu_count() or 1).text)


if __name__ == "__main__":
    main()
