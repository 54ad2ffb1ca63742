"""Our runs against loops that an expert of the framework would write, as ratios.

Ours is a whole run: spec, supervisor, sensors, runtime, adapter. An expert's is the program
`expert_<framework>.py`, which uses none of our code and has a few prepared batches in memory.
It is tried with several settings first, and the fastest is kept; ours has the mode that is the
adapter's own choice. The two then run in turn, each in a fresh process with the same steps, cores,
threads and wait policy: all on one core, where the CPU time per image is what competing
processes move least, and on all cores, where what counts is the wall clock.

The results file holds every run. A row that is made again replaces the one of before, so rows
can be made one at a time; the tables are of all that the file holds.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow/scripts"))

from analyse.record import build_record  # noqa: E402
from analyse.run import read_run  # noqa: E402
from analyse.statistics import paired_ratio  # noqa: E402
from in_env import ensure  # noqa: E402
from measure.supervisor import cores, machine_to_itself, supervise, thread_variables  # noqa: E402
from plan import frameworks  # noqa: E402
from plan.model import Cell  # noqa: E402
from plan.spec import make_spec  # noqa: E402

RUNTIME = ROOT / "workflow/scripts/frameworks/runtime.py"
ENVIRONMENTS = Path(os.environ.get("TOUCHSTONE_ENVS", ROOT / ".venvs"))
NOISE_LIMIT = 0.10
"""Largest share of the machine's CPU time that others may use in a window (docs/contracts.md)."""
GOAL = 0.97
"""No ratio of speeds is to be under it; what is asked of first step and memory is `MOST`."""
MOST = 1.10
LEAST_STEPS = 3
"""Measured steps of a window, however long they take."""
BATCHES = 8
"""Batches of noise that either side trains on."""


class Case(NamedTuple):
    """A network with its data set and batch size."""

    dataset: str
    batch_size: int


CASES = {
    "lenet5": Case("mnist-5k", 64),
    "alexnet-cifar": Case("synthetic", 128),
    "resnet20-cifar": Case("synthetic", 128),
    "resnet50-cifar": Case("synthetic", 32),
    "vgg16-cifar": Case("synthetic", 32),
    "resnet50": Case("synthetic-224", 8),
}


class Length(NamedTuple):
    """Steps of a run behind its first one: warm-up, measured, and between two waits."""

    warmup: int
    measured: int
    group: int
    epochs: int
    batches: int


class Seen(NamedTuple):
    """What one run showed.

    `speed` is in images/s, `efficiency` in images per CPU second, `first_step` in s, `memory`
    (the largest resident size) in MiB; `others` is the share of the machine's CPU time that
    other processes used in the measured window.
    """

    speed: float
    efficiency: float
    first_step: float
    memory: float
    others: float


FIELDS = ("network", "batch_size", "framework", "cores", "pair", "side", "choice", *Seen._fields)
"""Columns of the results file; `choice` is our mode, or what the expert's program calls it."""


def length_of(steps_per_second: float, warmup_seconds: float, seconds: float) -> Length:
    """How long a run is in which a step takes about as long as in the trial.

    Our runs train whole epochs of at most `BATCHES` batches: the steps are rounded up to them.
    """
    warmup = max(1, math.ceil(warmup_seconds * steps_per_second))
    measured = max(LEAST_STEPS, math.ceil(seconds * steps_per_second))
    batches = min(BATCHES, 1 + warmup + measured)
    epochs = math.ceil((1 + warmup + measured) / batches)
    # Some 50 ms of steps, as in our runs: the expert looks at the loss as often as we do.
    group = max(1, min(warmup, round(0.05 * steps_per_second)))
    return Length(warmup, epochs * batches - 1 - warmup, group, epochs, batches)


def share_of_others(machine: float, own: float, seconds: float, machine_cores: int) -> float:
    """The share of a machine's CPU time that others used, from CPU seconds of all and of one."""
    return max(machine - own, 0.0) / (seconds * machine_cores)


def increase(column: list[tuple[float, float]], begin: float, end: float) -> float:
    """By how much a cumulative column of (time, value) rises, linear between its samples."""
    import numpy as np

    times, values = zip(*column, strict=True)
    first, last = np.interp([begin, end], times, values)
    return float(last - first)


def python_of(framework: str) -> str:
    return str(ensure(ROOT / f"envs/{framework}.yaml", ENVIRONMENTS))


def our_spec(framework: str, network: str, threads: int | None, mode: str, length: Length) -> Any:
    """The spec of a run of ours of that length, on noise."""
    case = CASES[network]
    cell = Cell(
        framework=framework, network=network, dataset=case.dataset, input="synthetic", mode=mode,
        batch_size=case.batch_size, learning_rate=1e-3, epochs=length.epochs, threads=threads,
        warmup_steps=length.warmup, warmup_seconds=0.0,
    )  # fmt: skip
    spec = make_spec(cell, 1, ROOT)
    spec["data"]["train_examples"] = length.batches * case.batch_size
    spec["data"]["test_examples"] = case.batch_size
    return spec


def ours(framework: str, network: str, threads: int | None, mode: str, length: Length) -> Seen:
    """A whole run of ours."""
    spec = our_spec(framework, network, threads, mode, length)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.json").write_text(json.dumps(spec))
        command = [python_of(framework), str(RUNTIME), *(f"{name}/{f}" for f in FILES)]
        supervise(spec, command, folder, folder / "train.log")
        record, run = build_record(folder), read_run(folder)
    if record["status"] != "ok":
        raise RuntimeError(f"our {network} in {framework}: {record['status']}, {record['reason']}")
    measured = next(e for e in run.of("phase") if e["name"] == "measured")
    edges = measured["begin"], measured["end"]
    seconds = edges[1] - edges[0]
    own = increase(run.telemetry["cpu_seconds"], *edges)
    busy = increase(run.telemetry["machine_cpu_seconds"], *edges)
    peak = max(v for t, v in run.telemetry["host_memory_high_water"] if t <= edges[1] + 0.1)
    return Seen(
        measured["examples"] / seconds,
        measured["examples"] / own,
        record["metrics"]["first_step_time"]["value"],
        peak,
        share_of_others(busy, own, seconds, os.cpu_count() or 1),
    )


FILES = ("spec.json", "events.jsonl")


def ask(framework: str, threads: int | None, **question: Any) -> Any:
    """What an expert's program answers; docs in benchmarks/expert.py.

    It has a session of its own, as our runner has: Linux shares a core out among sessions.
    """
    used = cores(threads)
    question["threads"] = len(used)
    program = Path(__file__).parent / f"expert_{framework}.py"
    ended = subprocess.run(
        [python_of(framework), str(program), json.dumps(question)],
        env={**os.environ, **thread_variables(len(used), "passive")}, capture_output=True,
        text=True, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, used),
    )  # fmt: skip
    if ended.returncode:
        raise RuntimeError(f"{program.name} failed:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def expert(framework: str, network: str, threads: int | None, choice: str, length: Length) -> Seen:
    """A run of the expert's program."""
    size = CASES[network].batch_size
    answer = ask(
        framework, threads, network=network, batch_size=size, batches=length.batches,
        group=length.group, warmup=length.warmup, measured=length.measured, candidate=choice,
    )  # fmt: skip
    images, seconds = length.measured * size, answer["seconds"]
    own = answer["cpu_seconds"]
    others = share_of_others(answer["busy_seconds"], own, seconds, os.cpu_count() or 1)
    return Seen(images / seconds, images / own, answer["first_step"], answer["memory_peak"], others)


def trial(framework: str, network: str, arguments: argparse.Namespace) -> tuple[str, float]:
    """The expert's fastest candidate, and its steps per CPU second, on one core.

    Raises LookupError if the expert has not written the network, RuntimeError if it is not of
    our graph's size.
    """
    size = CASES[network].batch_size
    answer = ask(
        framework, 1, network=network, batch_size=size, batches=2, group=1,
        seconds=arguments.trial_seconds, thorough=arguments.thorough, candidate=None,
    )  # fmt: skip
    rates: dict[str, float] = answer["rates"]
    if not rates:
        raise LookupError(f"{network} in {framework}: the expert has no program")
    choice = max(rates, key=lambda name: rates[name])
    told = ", ".join(f"{name} {rate:.4g}" for name, rate in rates.items())
    print(f"{network} in {framework}, the expert's steps per CPU second: {told}", flush=True)
    mode = frameworks.modes(framework)[0]
    graph = our_spec(framework, network, 1, mode, length_of(1.0, 1.0, 1.0))["network"]
    if answer["size"] != [graph["parameter_count"], graph["macs"]]:
        raise RuntimeError(
            f"expert_{framework}.py: {network} has {answer['size']} parameters and "
            f"multiply-accumulates, ours {graph['parameter_count']} and {graph['macs']}"
        )
    return choice, rates[choice]


def start_up(framework: str) -> float:
    """Seconds of the command that makes a run, from its start to the run's first step, without
    the framework's import and the network's build: what is ours."""
    with tempfile.TemporaryDirectory() as name:
        cell = Cell(
            framework=framework, network="lenet5", dataset="mnist-5k", input="synthetic",
            mode=frameworks.modes(framework)[0], epochs=1,
        )  # fmt: skip
        command = [
            sys.executable, str(ROOT / "workflow/scripts/train.py"), "--cell",
            cell.model_dump_json(), "--repeat", "1", "--attempt", "1", "--run", name,
            "--log", f"{name}/train.log",
        ]  # fmt: skip
        variables = {"TOUCHSTONE_DEPLOYMENT": "venv", "TOUCHSTONE_ENVS": str(ENVIRONMENTS)}
        begin = time.monotonic()
        subprocess.run(
            command,
            env={**os.environ, **variables},
            cwd=name,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        run = read_run(Path(name))
    phases = {e["name"]: e for e in run.of("phase")}
    theirs = sum(phases[p]["end"] - phases[p]["begin"] for p in ("import", "build"))
    return float(phases["first_step"]["begin"] - begin - theirs)


def make_row(
    framework: str, network: str, arguments: argparse.Namespace
) -> Iterable[dict[str, Any]]:
    """All runs of a framework and a network, as rows of the results file."""
    choice, rate = trial(framework, network, arguments)
    mode = frameworks.modes(framework)[0]
    for threads in arguments.cores:
        used = len(cores(threads))
        length = length_of(rate * used, arguments.warmup, arguments.seconds)
        sides: dict[str, tuple[Callable[..., Seen], str]] = {
            "ours": (ours, mode),
            "expert": (expert, choice),
        }
        for pair in range(1, arguments.pairs + 1):
            for side, (run, how) in sides.items():
                seen = run(framework, network, threads, how, length)
                told = network, CASES[network].batch_size, framework, used, pair, side, how
                row = dict(zip(FIELDS, (*told, *seen), strict=True))
                print(
                    f"  {used} of {os.cpu_count()} cores, pair {pair}, {side:6} ({how}): "
                    f"{seen.speed:,.1f} images/s, {seen.efficiency:,.1f} per CPU second, first "
                    f"step {seen.first_step:.2f} s, {seen.memory:,.0f} MiB, "
                    f"others {seen.others:.0%}",
                    flush=True,
                )
                yield row


class Compared(NamedTuple):
    """Ours / expert of one figure: median of the pairs' ratios, and the t interval or None."""

    median: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        between = f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else ""
        return f"{self.median:.2f}{between}"


def compare(rows: list[dict[str, Any]], figure: str) -> Compared:
    """The ratio of one figure over the pairs of one table row."""
    sides = [
        {int(row["pair"]): float(row[figure]) for row in rows if row["side"] == side}
        for side in ("ours", "expert")
    ]
    ratio = paired_ratio(*sides)
    if ratio is None:
        raise ValueError(f"no pair has a positive {figure} on both sides")
    pairs = sides[0].keys() & sides[1].keys()
    return Compared(median(sides[0][i] / sides[1][i] for i in pairs), ratio.interval())


def verdict(ratio: Compared, noise: float) -> str:
    """Whether a ratio of speeds reaches `GOAL`; a miss is called only on a quiet machine."""
    low, high = ratio.interval or (ratio.median, ratio.median)
    if noise > NOISE_LIMIT:
        return "met, noisy" if low >= GOAL else "noisy"
    return "met" if low >= GOAL else "miss" if high < GOAL else "open"


def verdict_on_costs(first_step: Compared, memory: Compared, noise: float) -> str:
    """Whether the ratios of first step and memory keep to `MOST`; noise moves the first alone."""
    over = ["memory"] if memory.median > MOST else []
    if first_step.median > MOST:
        over.insert(0, "first step, noisy" if noise > NOISE_LIMIT else "first step")
    return ", ".join(over) or "met"


def middle(rows: list[dict[str, Any]], side: str, figure: str) -> float:
    return median(float(row[figure]) for row in rows if row["side"] == side)


def tables(rows: list[dict[str, Any]]) -> str:
    """The two tables of all rows of a results file, Markdown."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["network"], row["batch_size"], row["framework"], row["cores"]
        groups.setdefault(tuple(map(str, key)), []).append(row)
    speeds = [
        "| network | framework | cores | ours / expert, images/s | images per CPU second | ours, "
        "images/s | expert, images/s | others | goal |",
        "|" + " --- |" * 9,
    ]
    rest = [
        "| network | framework | cores | ours | expert | first step | ours, s | peak memory | "
        "ours, MiB | goal |",
        "|" + " --- |" * 10,
    ]
    for (network, size, framework, used), group in groups.items():
        wall, cpu = compare(group, "speed"), compare(group, "efficiency")
        noise = max(float(row["others"]) for row in group)
        # On one core what competes for it is in the wall clock alone.
        judged = verdict(cpu if used == "1" else wall, noise)
        name = f"{network} b{size} | {framework} | {used}"
        speeds.append(
            f"| {name} | {wall} | {cpu} | {middle(group, 'ours', 'speed'):,.1f} | "
            f"{middle(group, 'expert', 'speed'):,.1f} | {noise:.0%} | {judged} |"
        )
        choices = {str(row["side"]): str(row["choice"]) for row in group}
        first, memory = compare(group, "first_step"), compare(group, "memory")
        rest.append(
            f"| {name} | {choices['ours']} | {choices['expert']} | {first} | "
            f"{middle(group, 'ours', 'first_step'):.2f} | {memory} | "
            f"{middle(group, 'ours', 'memory'):,.0f} | {verdict_on_costs(first, memory, noise)} |"
        )
    return "\n".join([*speeds, "", *rest])


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a results file; none if there is no file. Exits if it is another file."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            sys.exit(f"error: {path}: not a results file of this program; name another --output")
        return list(reader)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the results file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with open(draft, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


def without(rows: list[dict[str, Any]], made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that `made` does not make anew: those of other networks, frameworks, cores."""
    key = ("network", "framework", "cores")
    anew = {tuple(str(row[name]) for name in key) for row in made}
    return [row for row in rows if tuple(str(row[name]) for name in key) not in anew]


def parsed() -> argparse.Namespace:
    experts = sorted(
        path.stem.removeprefix("expert_") for path in Path(__file__).parent.glob("expert_*.py")
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--framework", nargs="+", choices=experts, default=experts)
    parser.add_argument("--cores", choices=("one", "all", "both"), default="both")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="a measured window, about")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before it, about")
    parser.add_argument("--trial-seconds", type=float, default=1.5, help="of each candidate")
    parser.add_argument(
        "--thorough", action="store_true", help="try also what takes minutes to compile"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench.csv")
    parser.add_argument("--table", action="store_true", help="run nothing, print the file's tables")
    parser.add_argument(
        "--start", action="store_true",
        help="run no pairs, but time our command up to a run's first step",
    )  # fmt: skip
    arguments = parser.parse_args()
    if arguments.pairs < 1 or min(arguments.seconds, arguments.trial_seconds) <= 0:
        parser.error("--pairs, --seconds and --trial-seconds want numbers above 0")
    arguments.output = arguments.output.absolute()
    arguments.cores = {"one": [1], "all": [None], "both": [1, None]}[arguments.cores]
    return arguments


def main() -> None:
    arguments = parsed()
    rows = read(arguments.output)
    if arguments.start:
        for framework in arguments.framework:
            times = sorted(start_up(framework) for _ in range(arguments.pairs))
            spread = f"({times[0]:.2f} to {times[-1]:.2f})"
            print(f"{framework:12} {median(times):.2f} s  {spread}", flush=True)
        return
    if not arguments.table:
        with tempfile.TemporaryDirectory() as folder, machine_to_itself():
            os.chdir(folder)  # the supervisor keeps the order of runs in the working folder
            for network in arguments.network:
                for framework in arguments.framework:
                    try:
                        made = list(make_row(framework, network, arguments))
                    except LookupError as missing:
                        print(missing, flush=True)
                        continue
                    rows = without(rows, made) + made
                    write(arguments.output, rows)
    print(tables(rows))


if __name__ == "__main__":
    main()
