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

`--device gpu` compares with experts on one GPU, in the precision of `--precision`, on all cores.
Users' programs train on the CPU only.

The results file holds every run. A row that is made again replaces the one of before, so rows
can be made one at a time; the tables are of all that the file holds.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import comparison.sides
from comparison.cases import (
    BATCHES,
    CASES,
    FIELDS,
    Length,
    Seen,
    Setting,
    length_in_epochs,
    length_of,
)
from comparison.choice import choose, tune
from comparison.sides import expert, ours, start_up, user
from comparison.tables import read, tables, without, write

from touchstone.measure import skip
from touchstone.measure.launch import cores
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.paths import ROOT
from touchstone.plan import frameworks

VARIABLES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "XLA_", "JAX_", "TF_",
    "TORCH", "MXNET_", "NPROC", "PYTHON",
)  # fmt: skip
"""How variables begin that change what a program does: none comes from whoever runs this."""


ON_GPUS = ("jax", "pytorch", "tensorflow")
"""Frameworks whose experts have loops for a GPU."""


def make_row(
    framework: str, network: str, arguments: argparse.Namespace
) -> Iterable[dict[str, Any]]:
    """All runs of a framework and a network, as rows of the results file.

    Raises LookupError if neither the expert nor the user has written the network.
    """
    size = CASES[network].size(arguments.device)
    for threads in arguments.cores:
        used = cores(threads)
        place = f"gpu {arguments.precision}" if arguments.device == "gpu" else str(len(used))
        named = f", {place}" * (arguments.device == "gpu")
        print(f"{network} in {framework}, {len(used)} of {os.cpu_count()} cores{named}", flush=True)
        sides = sides_of(framework, network, used, arguments)
        for pair in range(1, arguments.pairs + 1):
            order = list(sides)
            random.Random(pair).shuffle(order)
            for side in order:
                how, run = sides[side]
                found = run()
                values = network, size, framework, place, pair, side, how, *found
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
    usual = Setting(
        frameworks.modes(framework)[0], len(used),
        device=arguments.device, precision=arguments.precision,
    )  # fmt: skip
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
    if arguments.device == "gpu":
        if not chosen:
            raise LookupError(f"{network} in {framework}: the expert has no program for it there")
        return sides
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


def parsed() -> argparse.Namespace:
    experts = sorted(
        path.stem.removeprefix("expert_") for path in Path(__file__).parent.glob("expert_*.py")
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--framework", nargs="+", choices=experts, default=experts)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument(
        "--precision", choices=("fp32", "tf32", "bf16"), default="fp32", help="on a GPU"
    )
    parser.add_argument(
        "--python", help="one that has the frameworks, in place of the project's environments"
    )
    parser.add_argument("--cores", choices=("one", "all", "both"), default="both", help="of a CPU")
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
    if arguments.device == "cpu" and arguments.precision != "fp32":
        parser.error("--precision is for --device gpu; on a CPU experts train in fp32")
    arguments.output = arguments.output.absolute()
    arguments.cores = {"one": [1], "all": [None], "both": [1, None]}[arguments.cores]
    if arguments.device == "gpu":
        arguments.cores = [None]
        arguments.framework = [name for name in arguments.framework if name in ON_GPUS]
        if not arguments.framework:
            parser.error(f"--device gpu: experts on GPUs are {', '.join(ON_GPUS)}")
    return arguments


def main() -> None:
    arguments = parsed()
    if not arguments.table and (why := skip.no_device(arguments.device)):
        sys.exit(f"error: {why}; `--device cpu` compares on the CPU")
    comparison.sides.own_python = arguments.python
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
