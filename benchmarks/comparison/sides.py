"""One run of a side: ours, an expert's program, or a user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from comparison.cases import CASES, Length, Seen, Setting
from touchstone.datasets import formats
from touchstone.environments import ensure, installed
from touchstone.measure.launch import keep_to, thread_variables
from touchstone.measure.supervisor import supervise
from touchstone.paths import CLI, ROOT, RUNNER
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.results.record import build_record
from touchstone.results.run_files import read_run
from touchstone.schema.events import Phase
from touchstone.schema.spec import TrainingSpec, spec_to_json

ENVIRONMENTS = installed()
USERS = {"jax": "envs/jax-plain.yaml"}
"""The environments in which users' programs run, where it is not the framework's own."""
FILES = ("spec.json", "events.jsonl")
own_python: str | None = None
"""A Python that has the frameworks, in place of those of the project's environments."""


def python_of(path: str) -> str:
    """The Python of an environment file of the project."""
    return own_python or str(ensure(ROOT / path, ENVIRONMENTS))


def spec_of(network: str) -> TrainingSpec:
    """A spec with the graph and the data of a network."""
    cell = Cell(framework="pytorch", network=network, dataset=CASES[network].dataset)
    return training_spec(cell)


def training_spec(cell: Cell) -> TrainingSpec:
    """The spec of a cell that trains."""
    spec = make_spec(cell, 1, ROOT)
    assert isinstance(spec, TrainingSpec)
    return spec


def records(framework: str, network: str, batches: int) -> Path:
    """A folder in this one with so many batches of noise in the framework's format, made once."""
    case, kind = CASES[network], frameworks.record_format(framework)
    data = spec_of(network).data
    folder = Path(f"{kind}-{network}-{batches}").absolute()
    if not folder.exists():
        folder.mkdir()
        draws = np.random.default_rng(1)
        for split, count in (("train", batches * case.batch_size), ("test", case.batch_size)):
            images = draws.integers(0, 256, (count, *data.shape), np.uint8)
            labels = draws.integers(0, data.classes, count).tolist()
            formats.load(kind).write(folder / split, zip(labels, images, strict=True))
    return folder


def our_spec(
    framework: str, network: str, setting: Setting, length: Length, source: str = "synthetic"
) -> TrainingSpec:
    """The spec of a run of ours of that length on noise, `synthetic` or from `memory`."""
    case = CASES[network]
    size = case.size(setting.device)
    cell = Cell(
        framework=framework, network=network, dataset=case.dataset, input=source,
        mode=setting.way, batch_size=size, learning_rate=1e-3, epochs=length.epochs,
        threads=setting.threads, wait_policy=setting.waiting, warmup_steps=length.warmup,
        warmup_seconds=0.0, device=setting.device, precision=setting.precision,
    )  # fmt: skip
    spec = training_spec(cell)
    data = spec.data._replace(train_examples=length.batches * size, test_examples=size)
    if source == "memory":
        data = data._replace(folder=str(records(framework, network, length.batches)))
    return spec._replace(data=data)


def ours(
    framework: str, network: str, setting: Setting, length: Length, source: str = "synthetic"
) -> Seen:
    """A whole run of ours."""
    spec = our_spec(framework, network, setting, length, source)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
        python = python_of(frameworks.environment(framework, setting.device))
        command = [python, str(RUNNER), *(f"{name}/{f}" for f in FILES)]
        supervise(spec, command, folder, folder / "train.log")
        record, run = build_record(folder), read_run(folder)
    if record["status"] != "ok":
        raise RuntimeError(f"our {network} in {framework}: {record['status']}, {record['reason']}")
    measured = next(phase for phase in run.of(Phase) if phase.name == "measured")
    edges = measured.begin, measured.end
    seconds = edges[1] - edges[0]
    own = increase(run.telemetry["cpu_seconds"], *edges)
    busy = increase(run.telemetry["machine_cpu_seconds"], *edges)
    peak = max(v for t, v in run.telemetry["host_memory_high_water"] if t <= edges[1] + 0.1)
    return Seen(
        measured.examples / seconds,
        measured.examples / own,
        record["metrics"]["first_step_time"]["value"],
        peak,
        share_of_others(busy, own, seconds, os.cpu_count() or 1),
    )


def increase(column: list[tuple[float, float]], begin: float, end: float) -> float:
    """By how much a cumulative column of (time, value) rises, linear between its samples."""
    times, values = zip(*column, strict=True)
    first, last = np.interp([begin, end], times, values)
    return float(last - first)


def share_of_others(machine: float, own: float, seconds: float, machine_cores: int) -> float:
    """The share of a machine's CPU time that others used, from CPU seconds of all and of one."""
    return max(machine - own, 0.0) / (seconds * machine_cores)


def ask(
    program: str, environment: str, used: list[int], variables: dict[str, str], **question: Any
) -> Any:
    """What a program answers on these cores; docs in benchmarks/program.py.

    It has a session of its own, as our runner has: Linux shares a core out among sessions. It ends
    with this process, so that one that is ended leaves nothing on the device.
    """
    path = ROOT / f"benchmarks/{program}.py"
    ended = subprocess.run(
        [python_of(environment), str(path), json.dumps(question)],
        env={**os.environ, **variables}, capture_output=True, text=True, start_new_session=True,
        preexec_fn=lambda: keep_to(used),
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
        size = CASES[network].size(setting.device)
        question.update(threads=setting.threads, batch_size=size)
        if setting.device == "gpu":
            question.update(device=setting.device, precision=setting.precision)
    environment = frameworks.environment(framework, question.get("device", "cpu"))
    return ask(
        f"expert_{framework}", environment, used, variables, network=network,
        candidate=setting.way if setting else None, **question,
    )  # fmt: skip


def expert(framework: str, network: str, used: list[int], setting: Setting, length: Length) -> Seen:
    """A run of the expert's program."""
    answer = ask_expert(
        framework, network, used, setting, batches=length.batches, group=length.group,
        warmup=length.warmup, measured=length.measured,
    )  # fmt: skip
    return seen(answer, length.measured * CASES[network].size(setting.device))


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


def seen(answer: dict[str, Any], images: int) -> Seen:
    """What a program that trained so many images in its measured steps saw."""
    seconds, own = answer["seconds"], answer["cpu_seconds"]
    others = share_of_others(answer["busy_seconds"], own, seconds, os.cpu_count() or 1)
    return Seen(
        images / seconds, images / own, answer.get("first_step"), answer["memory_peak"], others
    )


def require_size(program: str, network: str, size: list[int]) -> None:
    """Raise RuntimeError if a network has not the parameters of our graph, or, where a program
    tells them, not its multiply-accumulates."""
    graph = spec_of(network).network
    expected = [graph.parameter_count, graph.macs][: len(size)]
    if size != expected:
        raise RuntimeError(
            f"{program}: {network} has {size} parameters and multiply-accumulates, ours {expected}"
        )


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
    phases = {phase.name: phase for phase in run.of(Phase)}
    theirs = sum(phases[name].end - phases[name].begin for name in ("import", "build"))
    return phases["first_step"].begin - begin - theirs
