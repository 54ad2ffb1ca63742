"""What each setting of ours does to a run's speed, as ratios: with another choice / as we have it.

A run with one setting changed and one as a study has it take turns, each a whole run in a fresh
process, on noise. A change is made in the runner's own process, before the framework is imported;
so no adapter has to know of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from comparison.cases import CASES, Length, Setting, length_of
from comparison.sides import FILES, our_spec, python_of

from touchstone.measure.launch import cores
from touchstone.measure.machine_lock import machine_to_itself
from touchstone.measure.supervisor import supervise
from touchstone.paths import RUNNER
from touchstone.plan import frameworks
from touchstone.schema.spec import spec_to_json
from touchstone.statistics.intervals import paired_ratio

START = "import runpy, sys\nrunpy.run_path(sys.argv.pop(1), run_name='__main__')\n"
OWN_THREADS = (
    "import os\n"
    "for name in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):\n"
    "    os.environ.pop(name, None)\n"
)


class Change(NamedTuple):
    """One setting changed: in the spec, or by `code` that runs before the runner."""

    name: str
    code: str = ""
    waiting: str = "default"
    mode: str | None = None
    one_core: bool = False
    """Whether it can matter on one core too."""


WAITING = (Change("passive waiting", waiting="passive"), Change("active waiting", waiting="active"))
CHANGES = {
    "pytorch": (
        *WAITING,
        Change("one thread between operations", "import torch\ntorch.set_num_interop_threads(1)\n"),
    ),
    "tensorflow": (
        Change(
            "one thread between operations",
            "import tensorflow\ntensorflow.config.threading.set_inter_op_parallelism_threads(1)\n",
        ),
    ),
    "mxnet": (
        *WAITING,
        Change("its own number of threads", OWN_THREADS),
        Change(
            "a second team of threads",
            "import mxnet, numpy\nmxnet.nd.array(numpy.zeros(200001)).wait_to_read()\n",
        ),
    ),
    "jax": (
        Change(
            "no XLA_FLAGS",
            "import os\n"
            "kept = type(os.environ).__setitem__\n"
            "type(os.environ).__setitem__ = lambda self, name, value: (\n"
            "    None if name == 'XLA_FLAGS' else kept(self, name, value)\n"
            ")\n",
            one_core=True,
        ),
    ),
    "cntk": (*WAITING, Change("mkl_avx2", mode="mkl_avx2", one_core=True)),
}
USUAL = Change("as a study has it")
LENGTH = Length(8, 8, 1, 3, 8)
"""Of the run that shows how fast a step is."""


def speed(framework: str, network: str, used: int, change: Change, length: Length) -> float:
    """Images/s of a run. Raises RuntimeError if it measured nothing."""
    mode = change.mode or frameworks.modes(framework)[0]
    setting = Setting(mode, used, change.waiting)
    spec = our_spec(framework, network, setting, length)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
        python = python_of(f"envs/{framework}.yaml")
        files = [str(folder / file) for file in FILES]
        command = [python, "-c", change.code + START, str(RUNNER), *files]
        # A setting that is not as asked ends the run as an error, after it was measured.
        supervise(spec, command, folder, folder / "train.log", final=True)
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        log = (folder / "train.log").read_text()
    for event in events:
        if event["event"] == "phase" and event["name"] == "measured":
            return float(event["examples"] / (event["end"] - event["begin"]))
    raise RuntimeError(f"{framework}, {network}, {change.name}: {log[-2000:]}")


def row(
    framework: str, network: str, used: int, changes: list[Change], arguments: argparse.Namespace
) -> None:
    """Print a line of the table for each change."""
    usual = speed(framework, network, used, USUAL, LENGTH)
    length = length_of(usual / CASES[network].batch_size, arguments.warmup, arguments.seconds)
    found: dict[Change, dict[int, float]] = {change: {} for change in (USUAL, *changes)}
    for turn in range(arguments.pairs):
        order = list(found)
        random.Random(turn).shuffle(order)
        for change in order:
            found[change][turn] = speed(framework, network, used, change, length)
    for change in changes:
        ratio = paired_ratio(found[change], found[USUAL])
        assert ratio is not None
        between = ratio.interval()
        interval = f" ({between[0]:.2f} to {between[1]:.2f})" if between else ""
        ratios = [found[change][turn] / found[USUAL][turn] for turn in found[USUAL]]
        print(
            f"| {framework} | {change.name} | {network} | {used} | {median(ratios):.2f}{interval} |"
            f" {median(found[USUAL].values()):,.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    networks = ["lenet5", "alexnet-cifar", "resnet20-cifar", "lstm-text"]
    parser.add_argument("--network", nargs="+", choices=networks, default=networks)
    parser.add_argument("--framework", nargs="+", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--cores", choices=("one", "all", "both"), default="both")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="a measured window, about")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before it, about")
    arguments = parser.parse_args()
    counts = {"one": [1], "all": [None], "both": [1, None]}[arguments.cores]
    print("| framework | changed | network | cores | changed / usual | usual, images/s |")
    print("|" + " --- |" * 6)
    with tempfile.TemporaryDirectory() as folder, machine_to_itself():
        os.chdir(folder)  # the supervisor keeps the order of runs in the working folder
        for framework in arguments.framework:
            for network in arguments.network:
                if framework == "cntk" and network == "lstm-text":
                    continue  # CNTK trains it too slowly to be worth a turn
                for count in counts:
                    used = len(cores(count))
                    changes = [c for c in CHANGES[framework] if used > 1 or c.one_core]
                    if changes:
                        row(framework, network, used, changes, arguments)


if __name__ == "__main__":
    main()
