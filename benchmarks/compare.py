"""Our runs against loops that an expert of the framework would write, and against a user's program,
as ratios.

Ours is a whole run: spec, supervisor, sensors, runtime, adapter, with the settings that a study has
where it says nothing. An expert's is `expert_<framework>.py`, which uses none of our code, has a
few prepared batches in memory, and the way to train, number of threads and waiting that were the
fastest in short trials on so many cores. A user's is `user_<framework>.py`, written as the
framework's examples are and started with a plain environment; beside it ours takes shuffled
batches from memory, as it does. Where the expert chose other threads or waiting than a study has,
or another of our modes is faster, ours runs with these too. The sides run in turn, each in a fresh
process: all on one core, where the CPU time per image is what competing processes move least, and
on all cores, where what counts is the wall clock.

The results file holds every run. A row that is made again replaces the one of before, so rows
can be made one at a time; the tables are of all that the file holds.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from touchstone.datasets import formats
from touchstone.environments import ensure
from touchstone.measure.supervisor import cores, machine_to_itself, supervise, thread_variables
from touchstone.paths import CLI, ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.results.record import build_record
from touchstone.results.run_files import read_run
from touchstone.schema.limits import NOISE_LIMIT
from touchstone.statistics.intervals import NO_DIFFERENCE, paired_ratio

ENVIRONMENTS = Path(os.environ.get("TOUCHSTONE_ENVS", ROOT / ".venvs"))
GOAL = 0.97
"""No ratio of speeds is to be under it; what is asked of first step and memory is `MOST`."""
MOST = 1.10
LEAST_STEPS = 3
"""Measured steps of a window, however long they take."""
BATCHES = 8
"""Batches of noise that ours and the expert train on."""
EPOCH = 64
"""Batches of an epoch, at most, of the user's program and of ours beside it."""
WAITING = ("default", "passive", "active")
CLEARLY = 1.02
"""How many times as fast another setting than the usual one must be in trials to be chosen."""
NEAR = 0.8
"""The share of the best rate from which on a setting is tried twice."""
THOROUGH = ("compile", "xla")
"""Modes of ours that take minutes to compile."""
VARIABLES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "XLA_", "JAX_", "TF_",
    "TORCH", "MXNET_", "NPROC", "PYTHON",
)  # fmt: skip
"""How variables begin that change what a program does: none comes from whoever runs this."""


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
    "lstm-text": Case("synthetic-text", 64),
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

    `speed` is in images/s, `efficiency` in images per CPU second, `first_step` in s (None of the
    user's program, which does not look), `memory` (the largest resident size) in MiB; `others` is
    the share of the machine's CPU time that other processes used in the measured window.
    """

    speed: float
    efficiency: float
    first_step: float | None
    memory: float
    others: float


class Setting(NamedTuple):
    """How a side trains: our mode or the expert's candidate, threads, and how idle ones wait."""

    way: str
    threads: int
    waiting: str = "default"

    def __str__(self) -> str:
        waiting = "" if self.waiting == "default" else f", {self.waiting}"
        return f"{self.way}, {self.threads} thread{'s' * (self.threads > 1)}{waiting}"


FIELDS = ("network", "batch_size", "framework", "cores", "pair", "side", "choice", *Seen._fields)
"""Columns of the results file; `choice` is the side's setting."""


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


def length_in_epochs(steps_per_second: float, warmup_seconds: float, seconds: float) -> Length:
    """The same in whole epochs, of at most `EPOCH` batches, of which the user's program knows."""
    measured = max(LEAST_STEPS, math.ceil(seconds * steps_per_second))
    batches = min(EPOCH, measured)
    warmup = max(1, math.ceil(warmup_seconds * steps_per_second / batches))
    epochs = math.ceil(measured / batches)
    return Length(warmup * batches - 1, epochs * batches, 1, warmup + epochs, batches)


def share_of_others(machine: float, own: float, seconds: float, machine_cores: int) -> float:
    """The share of a machine's CPU time that others used, from CPU seconds of all and of one."""
    return max(machine - own, 0.0) / (seconds * machine_cores)


def increase(column: list[tuple[float, float]], begin: float, end: float) -> float:
    """By how much a cumulative column of (time, value) rises, linear between its samples."""
    times, values = zip(*column, strict=True)
    first, last = np.interp([begin, end], times, values)
    return float(last - first)


def python_of(path: str) -> str:
    """The Python of an environment file of the project."""
    return str(ensure(ROOT / path, ENVIRONMENTS))


def records(framework: str, network: str, batches: int) -> Path:
    """A folder in this one with so many batches of noise in the framework's format, made once."""
    case, kind = CASES[network], frameworks.record_format(framework)
    data = spec_of(network)["data"]
    folder = Path(f"{kind}-{network}-{batches}").absolute()
    if not folder.exists():
        folder.mkdir()
        draws = np.random.default_rng(1)
        for split, count in (("train", batches * case.batch_size), ("test", case.batch_size)):
            images = draws.integers(0, 256, (count, *data["shape"]), np.uint8)
            labels = draws.integers(0, data["classes"], count).tolist()
            formats.load(kind).write(folder / split, zip(labels, images, strict=True))
    return folder


def spec_of(network: str) -> Any:
    """A spec with the graph and the data of a network."""
    cell = Cell(framework="pytorch", network=network, dataset=CASES[network].dataset)
    return make_spec(cell, 1, ROOT)


def our_spec(
    framework: str, network: str, setting: Setting, length: Length, source: str = "synthetic"
) -> Any:
    """The spec of a run of ours of that length on noise, `synthetic` or from `memory`."""
    case = CASES[network]
    cell = Cell(
        framework=framework, network=network, dataset=case.dataset, input=source,
        mode=setting.way, batch_size=case.batch_size, learning_rate=1e-3, epochs=length.epochs,
        threads=setting.threads, wait_policy=setting.waiting, warmup_steps=length.warmup,
        warmup_seconds=0.0,
    )  # fmt: skip
    spec = make_spec(cell, 1, ROOT)
    spec["data"]["train_examples"] = length.batches * case.batch_size
    spec["data"]["test_examples"] = case.batch_size
    if source == "memory":
        spec["data"]["folder"] = str(records(framework, network, length.batches))
    return spec


def ours(
    framework: str, network: str, setting: Setting, length: Length, source: str = "synthetic"
) -> Seen:
    """A whole run of ours."""
    spec = our_spec(framework, network, setting, length, source)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.json").write_text(json.dumps(spec))
        python = python_of(f"envs/{framework}.yaml")
        command = [python, str(RUNNER), *(f"{name}/{f}" for f in FILES)]
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


def ask(
    program: str, environment: str, used: list[int], variables: dict[str, str], **question: Any
) -> Any:
    """What a program answers on these cores; docs in benchmarks/program.py.

    It has a session of its own, as our runner has: Linux shares a core out among sessions.
    """
    path = Path(__file__).parent / f"{program}.py"
    ended = subprocess.run(
        [python_of(environment), str(path), json.dumps(question)],
        env={**os.environ, **variables}, capture_output=True, text=True, start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, used),
    )  # fmt: skip
    if ended.returncode:
        raise RuntimeError(f"{path.name} failed:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def ask_expert(
    framework: str, network: str, used: list[int], setting: Setting | None, **question: Any
) -> Any:
    """What the expert's program answers on a setting, or, without one, which it would try."""
    variables = thread_variables(setting.threads, setting.waiting) if setting else {}
    if setting:
        question.update(threads=setting.threads, batch_size=CASES[network].batch_size)
    return ask(
        f"expert_{framework}", f"envs/{framework}.yaml", used, variables, network=network,
        candidate=setting.way if setting else None, **question,
    )  # fmt: skip


def seen(answer: dict[str, Any], images: int) -> Seen:
    """What a program that trained so many images in its measured steps saw."""
    seconds, own = answer["seconds"], answer["cpu_seconds"]
    others = share_of_others(answer["busy_seconds"], own, seconds, os.cpu_count() or 1)
    return Seen(
        images / seconds, images / own, answer.get("first_step"), answer["memory_peak"], others
    )


def expert(framework: str, network: str, used: list[int], setting: Setting, length: Length) -> Seen:
    """A run of the expert's program."""
    answer = ask_expert(
        framework, network, used, setting, batches=length.batches, group=length.group,
        warmup=length.warmup, measured=length.measured,
    )  # fmt: skip
    return seen(answer, length.measured * CASES[network].batch_size)


USERS = {"jax": "benchmarks/flax.yaml"}
"""The environments in which users' programs run, where it is not the framework's own."""


def user(framework: str, network: str, used: list[int], length: Length) -> Seen:
    """A run of the user's program, started as a user starts it.

    Raises LookupError if it lacks the network, RuntimeError if it is not of our graph's size.
    """
    size, warmup = CASES[network].batch_size, (length.warmup + 1) // length.batches
    answer = ask(
        f"user_{framework}", USERS.get(framework, f"envs/{framework}.yaml"), used, {},
        network=network, batch_size=size, batches=length.batches, warmup_epochs=warmup,
        epochs=length.epochs - warmup,
    )  # fmt: skip
    if answer is None:
        raise LookupError(f"{network} in {framework}: the user has no program")
    require_size(f"user_{framework}.py", network, [answer["parameters"]])
    return seen(answer, length.measured * size)


def require_size(program: str, network: str, size: list[int]) -> None:
    """Raise RuntimeError if a network has not the parameters of our graph, or, where a program
    tells them, not its multiply-accumulates."""
    graph = spec_of(network)["network"]
    expected = [graph["parameter_count"], graph["macs"]][: len(size)]
    if size != expected:
        raise RuntimeError(
            f"{program}: {network} has {size} parameters and multiply-accumulates, ours {expected}"
        )


def fastest(try_: Callable[[Setting], float], possible: list[Setting]) -> Setting:
    """The setting with the highest rate in the trials; the first one if none is clearly faster.

    Those that are near the highest are tried once more, and have the better of their rates.
    """
    if len(possible) == 1:
        return possible[0]
    rates = {setting: try_(setting) for setting in possible}
    near = [one for one in possible if rates[one] > NEAR * max(rates.values())]
    for setting in near if len(near) > 1 else ():
        rates[setting] = max(rates[setting], try_(setting))
    best = max(possible, key=lambda setting: rates[setting])
    return best if rates[best] > CLEARLY * rates[possible[0]] else possible[0]


def settings(framework: str, way: str, used: int) -> list[Setting]:
    """One way to train with all numbers of threads and, where the framework heeds them, kinds of
    waiting."""
    counts = sorted({1, used // 2, used} - {0}, reverse=True)
    waiting = WAITING if used > 1 and frameworks.waits(framework) else WAITING[:1]
    return [Setting(way, threads, each) for threads in counts for each in waiting]


def choose(
    framework: str, network: str, used: list[int], arguments: argparse.Namespace
) -> tuple[Setting, float] | None:
    """The expert's fastest setting on these cores, and its steps per second; None if it has not
    written the network.

    First the ways to train are tried with all threads, then threads and waiting with the fastest.
    Raises RuntimeError if the network is not of our graph's size.
    """
    ways = ask_expert(framework, network, used, None, thorough=arguments.thorough)
    if not ways:
        return None
    speeds: dict[Setting, float] = {}

    def try_(setting: Setting) -> float:
        answer = ask_expert(
            framework, network, used, setting, batches=2, group=1, seconds=arguments.trial_seconds
        )
        require_size(f"expert_{framework}.py", network, answer["size"])
        speeds[setting] = answer["rate"]
        # As rows are judged: on one core by CPU time.
        rate = float(answer["efficiency" if len(used) == 1 else "rate"])
        print(f"  the expert, {setting}: {rate:.4g} steps/s", flush=True)
        return rate

    way = fastest(try_, [Setting(way, len(used)) for way in ways]).way
    best = fastest(try_, settings(framework, way, len(used)))
    if best not in speeds:
        try_(best)
    return best, speeds[best]


def tune(
    framework: str,
    network: str,
    used: list[int],
    chosen: Setting,
    arguments: argparse.Namespace,
    length: Length,
) -> Setting:
    """Ours with the threads and waiting of the expert, in the fastest of our modes."""
    modes = [
        mode for mode in frameworks.modes(framework) if arguments.thorough or mode not in THOROUGH
    ]

    def try_(setting: Setting) -> float:
        run = ours(framework, network, setting, length)
        rate = run.efficiency if len(used) == 1 else run.speed
        print(f"  ours, {setting}: {rate:,.4g} images/s", flush=True)
        return rate

    return fastest(try_, [Setting(mode, chosen.threads, chosen.waiting) for mode in modes])


def start_up(framework: str) -> float:
    """Seconds of the command that makes a run, from its start to the run's first step, without
    the framework's import and the network's build: what is ours."""
    with tempfile.TemporaryDirectory() as name:
        cell = Cell(
            framework=framework, network="lenet5", dataset="mnist-5k", input="synthetic",
            mode=frameworks.modes(framework)[0], epochs=1,
        )  # fmt: skip
        command = [
            sys.executable, str(CLI), "run", "--cell",
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
    """All runs of a framework and a network, as rows of the results file.

    Raises LookupError if neither the expert nor the user has written the network.
    """
    size = CASES[network].batch_size
    for threads in arguments.cores:
        used = cores(threads)
        print(f"{network} in {framework}, {len(used)} of {os.cpu_count()} cores", flush=True)
        sides = sides_of(framework, network, used, arguments)
        for pair in range(1, arguments.pairs + 1):
            order = list(sides)
            random.Random(pair).shuffle(order)
            for side in order:
                how, run = sides[side]
                found = run()
                values = network, size, framework, len(used), pair, side, how, *found
                row = dict(zip(FIELDS, values, strict=True))
                first = "" if found.first_step is None else f"first step {found.first_step:.2f} s, "
                print(
                    f"  pair {pair}, {side} ({how}): {found.speed:,.1f} images/s, "
                    f"{found.efficiency:,.1f} per CPU second, {first}{found.memory:,.0f} MiB, "
                    f"others {found.others:.0%}",
                    flush=True,
                )
                yield row


def sides_of(
    framework: str, network: str, used: list[int], arguments: argparse.Namespace
) -> dict[str, tuple[str, Callable[[], Seen]]]:
    """By its name, how each side of a row trains, and what runs it."""
    window = arguments.warmup, arguments.seconds
    usual = Setting(frameworks.modes(framework)[0], len(used))
    chosen = choose(framework, network, used, arguments)
    sides: dict[str, tuple[str, Callable[[], Seen]]] = {}
    trial = Length(BATCHES - 1, BATCHES, 1, 2, BATCHES)
    if chosen:
        setting, rate = chosen
        length = length_of(rate, *window)
        sides["ours"] = str(usual), lambda: ours(framework, network, usual, length)
        sides["expert"] = str(setting), lambda: expert(framework, network, used, setting, length)
        short = length_of(rate, arguments.trial_seconds / 2, arguments.trial_seconds)
        tuned = tune(framework, network, used, setting, arguments, short)
        if tuned != usual:
            sides["tuned"] = str(tuned), lambda: ours(framework, network, tuned, length)
        trial = length_in_epochs(rate, 0, arguments.trial_seconds)
    try:
        speed = user(framework, network, used, trial).speed
    except LookupError:
        if not chosen:
            raise
        return sides
    epochs = length_in_epochs(speed / CASES[network].batch_size, *window)
    sides["from memory"] = str(usual), lambda: ours(framework, network, usual, epochs, "memory")
    sides["user"] = "as its examples", lambda: user(framework, network, used, epochs)
    return sides


class Compared(NamedTuple):
    """Ours / theirs of one figure: median of the pairs' ratios, and the t interval or None."""

    median: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        between = f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else ""
        return f"{self.median:.2f}{between}"


def compare(
    rows: list[dict[str, Any]], figure: str, ours: str = "ours", theirs: str = "expert"
) -> Compared:
    """The ratio of one figure of two sides over the pairs of one table row."""
    sides = [
        {int(row["pair"]): float(row[figure]) for row in rows if row["side"] == side}
        for side in (ours, theirs)
    ]
    ratio = paired_ratio(*sides)
    if ratio is None:
        raise ValueError(f"no pair has a positive {figure} on both sides")
    pairs = sides[0].keys() & sides[1].keys()
    return Compared(median(sides[0][i] / sides[1][i] for i in pairs), ratio.interval())


def verdict(ratio: Compared, noise: float) -> str:
    """Whether a ratio to the expert reaches `GOAL`; a miss is called only on a quiet machine."""
    low, high = ratio.interval or (ratio.median, ratio.median)
    if noise > NOISE_LIMIT:
        return "met, noisy" if low >= GOAL else "noisy"
    return "met" if low >= GOAL else "miss" if high < GOAL else "open"


def verdict_on_user(ratio: Compared, noise: float) -> str:
    """Whether ours is slower than the user's program; none is called on a busy machine."""
    low, high = ratio.interval or (ratio.median, ratio.median)
    if noise > NOISE_LIMIT:
        return "noisy"
    return "slower" if high < 1 else "faster" if low > 1 else NO_DIFFERENCE


def verdict_on_costs(first_step: Compared, memory: Compared, noise: float) -> str:
    """Whether the ratios of first step and memory keep to `MOST`; noise moves the first alone."""
    over = ["memory"] if memory.median > MOST else []
    if first_step.median > MOST:
        over.insert(0, "first step, noisy" if noise > NOISE_LIMIT else "first step")
    return ", ".join(over) or "met"


def middle(rows: list[dict[str, Any]], side: str, figure: str) -> float:
    return median(float(row[figure]) for row in rows if row["side"] == side)


def tables(rows: list[dict[str, Any]]) -> str:
    """The tables of all rows of a results file, Markdown."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = row["network"], row["batch_size"], row["framework"], row["cores"]
        groups.setdefault(tuple(map(str, key)), []).append(row)
    speeds = [
        "| network | framework | cores | ours / expert, images/s | images per CPU second | at a "
        "study's defaults | ours, images/s | expert, images/s | others | goal |",
        "|" + " --- |" * 10,
    ]
    costs = [
        "| network | framework | cores | ours | expert | first step | ours, s | peak memory | "
        "ours, MiB | goal |",
        "|" + " --- |" * 10,
    ]
    users = [
        "| network | framework | cores | ours / user, images/s | images per CPU second | ours, "
        "images/s | user, images/s | others | ours is |",
        "|" + " --- |" * 9,
    ]
    for (network, size, framework, used), group in groups.items():
        name = f"{network} b{size} | {framework} | {used}"
        choices = {str(row["side"]): str(row["choice"]) for row in group}
        # On one core what competes for it is in the wall clock alone.
        judged = "efficiency" if used == "1" else "speed"
        if "expert" in choices:
            side = "tuned" if "tuned" in choices else "ours"
            noise = others(group, side, "ours", "expert")
            verdict_ = verdict(compare(group, judged, side), noise)
            speeds.append(
                f"| {name} | {compare(group, 'speed', side)} | "
                f"{compare(group, 'efficiency', side)} | {compare(group, judged)} | "
                f"{middle(group, side, 'speed'):,.1f} | {middle(group, 'expert', 'speed'):,.1f} | "
                f"{noise:.0%} | {verdict_} |"
            )
            first, memory = (compare(group, each, side) for each in ("first_step", "memory"))
            costs.append(
                f"| {name} | {choices[side]} | {choices['expert']} | {first} | "
                f"{middle(group, side, 'first_step'):.2f} | {memory} | "
                f"{middle(group, side, 'memory'):,.0f} | "
                f"{verdict_on_costs(first, memory, noise)} |"
            )
        if "user" in choices:
            noise = others(group, "from memory", "user")
            wall, cpu = (
                compare(group, each, "from memory", "user") for each in ("speed", "efficiency")
            )
            users.append(
                f"| {name} | {wall} | {cpu} | {middle(group, 'from memory', 'speed'):,.1f} | "
                f"{middle(group, 'user', 'speed'):,.1f} | {noise:.0%} | "
                f"{verdict_on_user(cpu if used == '1' else wall, noise)} |"
            )
    return "\n\n".join("\n".join(table) for table in (speeds, costs, users) if len(table) > 2)


def others(rows: list[dict[str, Any]], *sides: str) -> float:
    """The largest share of the machine's CPU time that others used beside these sides."""
    return max(float(row["others"]) for row in rows if row["side"] in sides)


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
    for name in [name for name in os.environ if name.startswith(VARIABLES)]:
        del os.environ[name]
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
