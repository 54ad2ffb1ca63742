"""How long Snakemake takes to plan a study, against the same jobs made by rules that are empty.

    python benchmarks/planning.py [CELLS ...]        default: 500 1000 2000

A copy of the project gets a study of so many cells, each with three repeats, on synthetic
images. Its dry run is timed, and that of a Snakefile with the same files and wildcards and
nothing else: no params, functions, environments or priorities. Then all outputs are made, empty
and up to date, with Snakemake's own notes on them, and both dry runs are timed again.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SIZES = (500, 1000, 2000)
FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
REPEATS = 3
FIGURES = ("throughput", "cpu_utilization", "host_memory", "test_accuracy", "training_loss")
EMPTY = """
from pathlib import Path

RUNS = [tuple(line.split()) for line in Path("runs.txt").read_text().splitlines()]
FILES = ["spec.json", "events.jsonl", "telemetry.csv", "env.json"]


rule all:
    input:
        "results/config.resolved.yaml",
        "results/report/index.html",
        [f"results/runs/{cell}/rep{repeat}/events.jsonl" for cell, repeat in RUNS],


rule plan:
    output:
        "results/plan.tsv",
        "results/config.resolved.yaml",
    shell:
        "touch {output}"


rule train:
    output:
        expand("results/runs/{{cell}}/rep{{repeat}}/{file}", file=FILES),
    shell:
        "touch {output}"


rule parse_run:
    input:
        expand("results/runs/{{cell}}/rep{{repeat}}/{file}", file=FILES),
    output:
        "results/records/{cell}/rep{repeat}.json",
    shell:
        "touch {output}"


rule report:
    input:
        "results/plan.tsv",
        [f"results/records/{cell}/rep{repeat}.json" for cell, repeat in RUNS],
    output:
        "results/report/index.html",
    shell:
        "touch {output}"
"""


def study(cells: int) -> dict[str, object]:
    """A study of at least so many cells: frameworks x batch sizes x learning rates."""
    rates = -(-cells // (len(FRAMEWORKS) * 8))
    return {
        "study": "large", "title": "A large study", "repeats": REPEATS, "parity": False,
        "defaults": {"network": "lenet5", "dataset": "mnist-5k", "input": "synthetic"},
        "sweeps": [
            {
                "framework": list(FRAMEWORKS),
                "batch_size": [2**power for power in range(8)],
                "learning_rate": [(1 + rate) / 10_000 for rate in range(rates)],
            }
        ],
    }  # fmt: skip


def make(folder: Path, cells: int) -> None:
    """The project in `folder`/ours, the empty rules in `folder`/empty."""
    ours, empty = folder / "ours", folder / "empty"
    for name in ("config", "envs", "profiles", "workflow"):
        shutil.copytree(ROOT / name, ours / name, ignore=shutil.ignore_patterns("__pycache__"))
    (ours / "config/config.yaml").write_text(yaml.safe_dump(study(cells)))
    empty.mkdir()
    shutil.copytree(ROOT / "profiles", empty / "profiles")
    (empty / "Snakefile").write_text(EMPTY)
    from touchstone.plan.study import make_plan

    runs = make_plan(study(cells), ROOT).order
    (empty / "runs.txt").write_text("".join(f"{cell} {repeat}\n" for cell, repeat in runs))


def snakemake(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Seconds, seconds on a core, and MiB that Snakemake takes in a folder."""
    begin = time.monotonic()
    with open(folder / "snakemake.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake", *arguments], cwd=folder, stdout=log, stderr=log
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {(folder / 'snakemake.log').read_text()[-2000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    return time.monotonic() - begin, cpu, usage.ru_maxrss / 1024


def finish(folder: Path) -> None:
    """Make all outputs, and have Snakemake note that they are up to date."""
    runs = [line.split() for line in (folder / "empty/runs.txt").read_text().splitlines()]
    files = ["spec.json", "events.jsonl", "telemetry.csv", "env.json", "train.log"]
    figures = [f"figures/{figure}.{kind}" for figure in FIGURES for kind in ("svg", "png")]
    tables = [f"tables/{table}.csv" for table in ("measurements", "summary", "comparisons")]
    made = [*figures, *tables, "findings.json", "figures/captions.json"]
    made += [f"report/{file}" for file in ("index.html", "large/index.html", "large/answer.json")]
    made += ["plan.tsv"]
    made += [f"runs/{cell}/rep{repeat}/{file}" for cell, repeat in runs for file in files]
    made += [f"records/{cell}/rep{repeat}.json" for cell, repeat in runs]
    for name in ("ours", "empty"):
        for path in [folder / name / "results" / file for file in made]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (folder / name / "results/config.resolved.yaml").write_text("results_format: 2\n")
        snakemake(folder / name, "--touch")


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    print("cells   state        ours                          empty rules           ratio of CPU")
    for cells in sizes:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            make(folder, cells)
            for state in ("new", "up to date"):
                if state == "up to date":
                    finish(folder)
                ours, empty = (
                    snakemake(folder / name, "--dry-run", "--quiet") for name in ("ours", "empty")
                )
                columns = "   ".join(
                    "{:6.1f} s {:6.1f} CPU-s {:5.0f} MiB".format(*one) for one in (ours, empty)
                )
                print(f"{cells:5}   {state:10}   {columns}   {ours[1] / empty[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
