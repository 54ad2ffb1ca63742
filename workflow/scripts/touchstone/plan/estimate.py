"""Rough estimates from the plan: how long runs and a whole study take, and how much disk space."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from touchstone import networks
from touchstone.datasets import catalogue
from touchstone.networks.graph import Graph
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parts import Interleave
from touchstone.plan.setting import INFERENCE, OF_A_NETWORK, OPERATION, PROGRAM
from touchstone.plan.study import Plan

FLOPS_PER_CORE = 3.0e10
"""Arithmetic of training on a core, 1/s; a multiply-accumulate is two. See docs/studies.md."""
SECONDS_PER_STEP = 1.5e-3
"""What a step costs besides its arithmetic."""
SECONDS_PER_RUN = 10.0
"""Start, import, build and the parsing of a run."""
BYTES_PER_RUN = 3e5
"""Of results; of it, telemetry and events grow with the run."""
FACTOR = 3.0
"""How far off the time may well be, either way."""


class Estimate(NamedTuple):
    """Seconds of CPU runs, the runs on a GPU, of which no time is known, bytes of disk, and the
    comparisons that are measured in turn."""

    runs: int
    seconds: float
    gpu_runs: int
    bytes: float
    turns: int = 0

    @property
    def text(self) -> str:
        """The estimate in words."""
        low, high = (_duration(self.seconds * by) for by in (1 / FACTOR, FACTOR))
        gpu = f", and {self.gpu_runs} runs on a GPU, not estimated" if self.gpu_runs else ""
        turns = f" and {self.turns} comparison{'s' * (self.turns > 1)} in turn" * bool(self.turns)
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return (
            f"{runs}{turns}: about {_duration(self.seconds)} ({low} to {high}){gpu},"
            f" {_size(self.bytes)} of disk without software"
        )


def _size(size: float) -> str:
    """Bytes in the unit that suits."""
    return f"{size / 1e9:.2g} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


def estimate(
    plan: Plan,
    cells: Mapping[str, int],
    folder: Path,
    cores: int,
    turns: Collection[Sequence[str]] = (),
) -> Estimate:
    """Estimate runs of a plan, and what is measured in turn; not certificates and downloads.

    Args:
        cells: how many runs of each cell are to be made.
        turns: the cells of each comparison that is to be measured in turn.
        folder: of the data sets' descriptions.
        cores: that a run may use.
    """
    trained = [cell for cell in plan.cells.values() if cell.kind in OF_A_NETWORK]
    sets = {cell.dataset: _dataset(cell.dataset, folder) for cell in trained}
    seconds, gpu_runs = 0.0, 0
    for name, runs in cells.items():
        if frameworks.unsupported(plan.cells[name]):
            continue
        duration = seconds_of_run(plan.cells[name], folder, cores)
        if duration is None:
            gpu_runs += runs
        else:
            seconds += runs * duration
    if options := plan.study.interleave:
        for names in turns:
            group = [plan.cells[name] for name in names]
            seconds += seconds_of_turns(group, options, folder, cores) or 0.0
    total = sum(cells.values())
    size = _bytes(plan, sets) + total * BYTES_PER_RUN
    return Estimate(total, seconds, gpu_runs, size, len(turns))


def seconds_of_run(cell: Cell, folder: Path, cores: float) -> float | None:
    """How long a run of a cell will take, from its start to its record; None on a GPU."""
    steps = seconds_of_steps(cell, folder, cores)
    return None if steps is None else steps + SECONDS_PER_RUN


def seconds_of_steps(cell: Cell, folder: Path, cores: float) -> float | None:
    """How long the steps of a run and its evaluation will take; None on a GPU.

    The time of a step is 2 floating-point operations per multiply-accumulate of training and
    example at `FLOPS_PER_CORE`, plus `SECONDS_PER_STEP`; the test set costs those of the forward
    pass. Operations and inference last for a time.

    Args:
        folder: of the data sets' descriptions.
        cores: that the run may use on each of its nodes, if the cell says nothing.
    """
    if cell.device == "gpu":
        return None
    if cell.kind == OPERATION:
        return cell.warmup_seconds + cell.operation_seconds
    if cell.kind == PROGRAM:
        return cell.warmup_seconds + cell.program_seconds
    data, graph = _dataset(cell.dataset, folder), _graph(cell.network, cell.dataset, folder)
    speed = FLOPS_PER_CORE * (cell.threads or cores) * cell.nodes
    if cell.kind == INFERENCE:
        work = 2 * graph.macs * data.splits.test
        return work / speed + cell.warmup_seconds + 2 * cell.inference_seconds
    steps, tested = cell.epochs * cell.batches(data.splits.train).steps, data.splits.test
    if cell.training_accuracy:
        tested += data.splits.train
    if cell.steps is not None:
        steps, tested = min(steps, cell.steps + cell.warmup_steps), 0
    work = 2 * (graph.training_macs * steps * cell.global_batch_size + graph.macs * tested)
    return work / speed + steps * SECONDS_PER_STEP


def seconds_of_turns(
    cells: Sequence[Cell], options: Interleave, folder: Path, cores: float
) -> float | None:
    """How long it takes to measure cells in turn; None on a GPU.

    A slice lasts at least as long as a step, and the first two of a process are not counted. The
    processes of a set start together.

    Args:
        folder: of the data sets' descriptions.
        cores: that a cell may use, if it says nothing.
    """
    rounds, slices = options.rounds + 2, 0.0
    for cell in cells:
        if cell.device == "gpu":
            return None
        step = 0.0
        if cell.kind in OF_A_NETWORK:
            graph = _graph(cell.network, cell.dataset, folder)
            macs = graph.macs if cell.kind == INFERENCE else graph.training_macs
            step = 2 * macs * cell.global_batch_size / (FLOPS_PER_CORE * (cell.threads or cores))
        slices += max(options.slice_seconds, step) + max(options.lead_seconds, step)
    seconds = options.sets * (SECONDS_PER_RUN + rounds * slices)
    return min(seconds, options.max_seconds)


@cache
def _dataset(name: str, folder: Path) -> catalogue.Dataset:
    return catalogue.load(name, folder)


@cache
def _graph(network: str, dataset: str, folder: Path) -> Graph:
    data = _dataset(dataset, folder)
    return networks.build(network, tuple(data.shape), len(data.classes))


def _bytes(plan: Plan, sets: Mapping[str, catalogue.Dataset]) -> float:
    """Downloads, and records in every format that is read. A photo counts as 110 kB."""
    read = {(cell.dataset, _format(cell)) for cell in plan.cells.values() if cell.reads}
    size = 0.0
    for name in {name for name, _ in read}:
        size += sum(source.size or 0 for source in sets[name].sources)
    for name, _ in read:
        data = sets[name]
        example = math.prod(data.shape) if data.photos is None else 110e3
        size += (data.splits.train + data.splits.test) * example
    return size


def _format(cell: Cell) -> str:
    return frameworks.record_format(cell.framework)


def _duration(seconds: float) -> str:
    """In two digits, which is more than an estimate deserves."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"
