"""Execute a study again and again, and count where one execution contradicts all of them together.

    python benchmarks/executions.py run FOLDER --executions 10 [--load] [--study FILE]
    python benchmarks/executions.py judge FOLDER [--truth FOLDER]
    python benchmarks/executions.py agree FOLDER

`run` executes the default study, or that of FILE, from scratch in copies of this project. It keeps
the results of each in FOLDER/1, FOLDER/2 and so on, and goes on where it ended. With `--load`
another program burns one core on and off. `judge` takes the mean of each ratio over all executions
of FOLDER, or of the one of `--truth`, and counts the executions whose interval lies beside it,
whose order is another, or that leave a clear difference open. `agree` compares the ratios from
turns with those from the training runs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from math import exp, log
from pathlib import Path
from statistics import fmean

from turns import load

from touchstone.analysis.findings_file import read_findings
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.part import RatioEstimate
from touchstone.environments import ENVS, installed
from touchstone.paths import ROOT

PROJECT = ("config", "envs", "profiles", "workflow")
CLEAR = 1.15
"""The smallest ratio about which an execution must not be undecided."""

Pair = tuple[str, str]


def execute(study: Path | None, target: Path) -> None:
    """Execute a study in a copy of the project, and keep what it says in `target`."""
    with tempfile.TemporaryDirectory() as folder:
        for name in PROJECT:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, Path(folder, name), ignore=ignored)
        command = [sys.executable, "-m", "snakemake", "--cores", "all", "--quiet", "all"]
        if study:
            command += ["--configfile", str(study.absolute())]
        variables = {**os.environ, ENVS: str(installed())}
        subprocess.run(command, cwd=folder, env=variables, check=True)
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(Path(folder, "results"), part)  # FOLDER may be on another disk
        part.rename(target)


def run(folder: Path, executions: int, wanted: bool, study: Path | None) -> None:
    """Execute a study until `folder` has so many executions."""
    for number in range(1, executions + 1):
        target = folder / str(number)
        if not target.exists():
            with load(wanted, number):
                execute(study, target)
            print(f"execution {number} of {executions} is in {target}", flush=True)


def found_in(folder: Path) -> dict[str, Findings]:
    """The findings of all executions in a folder, by name of the execution."""
    paths = sorted(folder.glob("*/findings.json"), key=lambda path: int(path.parent.name))
    if not paths:
        sys.exit(f"error: {folder} has no execution; `run` makes them")
    return {path.parent.name: read_findings(path) for path in paths}


def ratios(findings: Findings) -> dict[Pair, RatioEstimate]:
    """The ratios that have an interval: first / second, by their names in order of the alphabet."""
    found = dict[Pair, RatioEstimate]()
    for pair in (pair for one in findings.comparisons for pair in one.pairs):
        ratio = pair.ratio
        if ratio is None or ratio.low is None or ratio.high is None:
            continue
        if pair.faster < pair.slower:
            found[pair.faster, pair.slower] = ratio
        else:
            turned = {"value": 1 / ratio.value, "low": 1 / ratio.high, "high": 1 / ratio.low}
            found[pair.slower, pair.faster] = ratio.model_copy(update=turned)
    return found


def holds(estimate: RatioEstimate, value: float) -> bool:
    """Whether a value lies in the interval of a ratio, which there is."""
    assert estimate.low is not None and estimate.high is not None
    return estimate.low <= value <= estimate.high


def agree(folder: Path) -> None:
    """Print the ratios of each comparison from turns and from the training runs, and count how
    often one way's estimate lies in the other's interval."""
    for name, findings in found_in(folder).items():
        for one in findings.comparisons:
            print(f"execution {name}, {one.network}: ratio in turns, in training runs")
            both = list[tuple[RatioEstimate, RatioEstimate]]()
            for pair in one.pairs:
                turns, runs = pair.ratio, pair.runs_ratio
                if turns and runs and None not in (turns.low, runs.low):
                    both.append((turns, runs))
                    print(f"{pair.faster} / {pair.slower}: {_shown(turns)}, {_shown(runs)}")
            in_runs = sum(holds(runs, turns.value) for turns, runs in both)
            in_turns = sum(holds(turns, runs.value) for turns, runs in both)
            most = max((abs(log(turns.value / runs.value)) for turns, runs in both), default=0)
            print(f"of {len(both)} ratios {in_runs} in turns lie in the interval of the runs, "
                  f"{in_turns} in runs in that of the turns; the two differ by a factor of "
                  f"{exp(most):.2f} or less\n")  # fmt: skip


def _shown(ratio: RatioEstimate) -> str:
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def pooled(executions: Iterable[Findings]) -> dict[Pair, float]:
    """The geometric mean of each ratio over the executions."""
    values: dict[Pair, list[float]] = {}
    for each in executions:
        for pair, ratio in ratios(each).items():
            values.setdefault(pair, []).append(log(ratio.value))
    return {pair: exp(fmean(logs)) for pair, logs in values.items()}


def faults(said: dict[Pair, RatioEstimate], truth: dict[Pair, float]) -> Iterator[str]:
    """What is wrong with the ratios of an execution."""
    for pair, true in truth.items():
        if pair not in said:
            yield "no interval"
            continue
        low, high = said[pair].low, said[pair].high
        assert low is not None and high is not None
        if not holds(said[pair], true):
            yield "beside the truth"
        if low > 1 > true or high < 1 < true:
            yield "wrong order"
        if low <= 1 <= high and max(true, 1 / true) > CLEAR:
            yield "undecided"


def judge(folder: Path, truth_folder: Path) -> None:
    """Print the ratios of each execution, count their faults, and list what limits the cells."""
    truth = pooled(found_in(truth_folder).values())
    executions = found_in(folder)
    counted, limits = Counter[str](), dict[str, Counter[str]]()
    print("| execution |", " | ".join(f"{a} / {b}" for a, b in truth), "| trust | faults |")
    print("| --- " * (len(truth) + 3) + "|")
    print("| truth |", " | ".join(f"{value:.3f}" for value in truth.values()), "| | |")
    for name, findings in executions.items():
        said = ratios(findings)
        wrong = list(faults(said, truth))
        counted.update(wrong)
        ends = (f"{said[pair].low:.3f} to {said[pair].high:.3f}" if pair in said else "-"
                for pair in truth)  # fmt: skip
        trust = findings.answer.trust.level if findings.answer.trust else "-"
        print("|", name, "|", " | ".join(ends), "|", trust, "|", ", ".join(wrong), "|")
        for one in findings.bottlenecks:
            limits.setdefault(one.cell, Counter())[one.verdict] += 1
    print(f"\nFaults among {len(executions) * len(truth)} ratios: {dict(counted) or 'none'}")
    for cell, verdicts in limits.items():
        print(f"What limits {cell}:", ", ".join(f"{verdicts[v]} times {v}" for v in verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("run", "judge", "agree"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--executions", type=int, default=10, help="of `run`")
    parser.add_argument("--load", action="store_true", help="of `run`: beside another program")
    parser.add_argument("--study", type=Path, help="of `run`: the configuration; the default study")
    parser.add_argument(
        "--truth", type=Path, help="of `judge`: executions with the true ratios; FOLDER's own"
    )
    options = parser.parse_args()
    if options.what == "run":
        run(options.folder, options.executions, options.load, options.study)
    elif options.what == "judge":
        judge(options.folder, options.truth or options.folder)
    else:
        agree(options.folder)


if __name__ == "__main__":
    main()
