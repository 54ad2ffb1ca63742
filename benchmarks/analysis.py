"""How long tables, figures and report of a large study take, from made-up records.

    python benchmarks/analysis.py [--cells 9999] [--folder KEPT]

Every cell has three repeats. The records are those of tests/fixtures/runs.py, each with numbers
of its own, with as many packages as an environment has.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from fixtures.runs import FACTORS, cell_name, make_record, write_plan
from touchstone.paths import CLI
from touchstone.results import digests

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
REPEATS = 3


def make(root: Path, count: int) -> None:
    """A plan of `count` cells and their records: learning rates x batch sizes x frameworks."""
    rates = range(1, count // (8 * len(FRAMEWORKS)) + 2)
    cells: list[dict[str, Any]] = [
        {"framework": f, "batch_size": 2**b, "learning_rate": r / 1000}
        for r, b, f in product(rates, range(8), FRAMEWORKS)
    ][:count]
    patterns = {
        framework: make_record(
            root / "runs", root / "patterns", framework=framework, epochs=8, train_examples=8000
        )
        for framework in FRAMEWORKS
    }
    for cell in cells:
        factors = {**FACTORS, **cell}
        name = cell_name(factors)
        folder = root / "records" / name
        folder.mkdir(parents=True)
        noise = random.Random(name)
        for repeat in range(1, REPEATS + 1):
            record = patterns[cell["framework"]]
            metrics = {
                key: metric
                if metric["value"] is None
                else {**metric, "value": metric["value"] * noise.uniform(0.98, 1.02)}
                for key, metric in record["metrics"].items()
            }
            provenance = {**record["provenance"], "run": f"results/runs/{name}/rep{repeat}"}
            packages = [f"package-{i}=={i}.0.0" for i in range(40)]
            provenance["software"] = {**provenance["software"], "packages": packages}
            provenance["start"] = {**provenance["start"], "position": noise.randrange(10**6)}
            own = {"cell": name, "repeat": repeat, "factors": factors, "metrics": metrics}
            text = json.dumps({**record, **own, "provenance": provenance}, indent=2)
            path, run = folder / f"rep{repeat}.json", root / "runs" / name / f"rep{repeat}"
            path.write_text(text + "\n")
            run.mkdir(parents=True, exist_ok=True)
            digests.write(run, [path])
    write_plan(root / "plan.tsv", cells, REPEATS)
    (root / "config.resolved.yaml").write_text("title: Large\n")


def measured(script: str, *arguments: str) -> str:
    """What a script of the workflow takes: seconds, of them on a core, and memory."""
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, str(CLI), script, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {script} failed")
    seconds, cpu = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
    return f"{script:10} {seconds:6.1f} s  {cpu:6.1f} CPU-s  {usage.ru_maxrss / 1024:6.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=9999)
    parser.add_argument("--folder", type=Path, help="keep the study here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.folder or Path(temporary)
        if not (root / "plan.tsv").exists():
            make(root, options.cells)
        plan = ["--plan", f"{root}/plan.tsv", "--records", f"{root}/records"]
        findings = ["--findings", f"{root}/findings.json"]
        print(f"{options.cells} cells, {options.cells * REPEATS} records")
        for script, arguments in (
            ("gather", [*plan, "--output", f"{root}/tables", *findings]),
            ("plot", [*plan, "--tables", f"{root}/tables", "--output", f"{root}/figures"]),
            (
                "report",
                [*findings, "--figures", f"{root}/figures", "--output", f"{root}/index.html"]
                + ["--config", f"{root}/config.resolved.yaml"],
            ),
        ):
            print(measured(script, *arguments), flush=True)
        print(f"the page: {(root / 'index.html').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
