"""A run of a basic operation.

Calls the operation again and again for about as long as the spec says, in chunks as training
does, and compares the last results with those in double precision.
"""

import time
from typing import Any, Callable, Optional

import numpy as np

from touchstone import operations
from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.checks import arithmetic, prove_settings, shown_by_products, software_of
from touchstone.runner.chunk_size import ChunkSize
from touchstone.runner.group import FOLLOWS, group_of, processes_of, threads_of_replica
from touchstone.runner.job import job_of
from touchstone.runner.outcome import raise_foreseen
from touchstone.schema.events import Chunk, Deviation, Memory
from touchstone.schema.spec import OperationSpec, TimedPhases

TOLERANCES = {"fp64": 1e-10, "fp32": 1e-4, "tf32": 1e-2, "fp16-amp": 1e-2, "bf16": 5e-2}
"""Of results, relative to the largest, by precision; sums of 10^4 products stay below. Where
operands have 10 or 7 bits of mantissa, their rounding is 2^-11 or 2^-8 of each product."""


def host(array: Any) -> Any:
    """A framework's array as a NumPy array."""
    if hasattr(array, "asnumpy"):
        return array.asnumpy()
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        array = array.float() if array.element_size() < 4 else array  # NumPy has no bfloat16
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


class Calls:
    """Makes calls in chunks, waits for each chunk, and writes one event for it.

    `announce` gets the number of calls of a chunk before it begins.
    """

    def __init__(
        self,
        call: Any,
        adapter: Any,
        events: Any,
        announce: Optional[Callable[[int], None]] = None,
    ) -> None:
        self.call, self.adapter, self.events, self.announce = call, adapter, events, announce
        self.made = 0
        self.results: Any = ()

    def begin(self, phase: str, calls: int) -> float:
        """Make so many, and wait for them; returns the seconds it took."""
        if self.announce:
            self.announce(calls)
        begin = time.monotonic()
        for _ in range(calls):
            self.results = self.call()
        if hasattr(self.results[0], "block_until_ready"):
            for result in self.results:
                result.block_until_ready()
        else:
            self.adapter.synchronize()
        end = time.monotonic()
        self.events.write(Chunk(phase, self.made, calls, begin, end, []))
        self.made += calls
        return end - begin

    def finish(self) -> None:
        """Nothing is left to wait for."""


def run_phases(calls: Calls, phases: TimedPhases, events: Any, begin: float) -> float:
    """First call, warm-up, measured calls; `begin` is the time."""

    def phase(name: str, begin: float, first: int) -> float:
        steps = calls.made - first
        end: float = events.phase(name, begin, steps=steps, examples=steps)
        return end

    calls.begin("first_step", 1)
    begin = phase("first_step", begin, 0)
    first, size = calls.made, ChunkSize(phases.chunk_seconds)
    while True:
        size.learn(size.steps, calls.begin("warmup", size.steps))
        warm = time.monotonic() - begin
        if calls.made - first >= phases.warmup_steps and warm >= phases.warmup_seconds:
            break
        if warm >= phases.warmup_seconds + phases.seconds:
            break  # a call that takes this long would be warmed up for minutes
    begin = phase("warmup", begin, first)
    first = calls.made
    while time.monotonic() - begin < phases.seconds:
        size.learn(size.steps, calls.begin("measured", size.steps))
    return phase("measured", begin, first)


def operate(spec: OperationSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if the results are wrong."""
    process = processes_of(spec.execution, events)
    threads = threads_of_replica(spec.execution, threads)
    framework, asked = spec.factors.framework, spec.operation
    job = job_of(spec, group_of(process))
    adapter = make_adapter(job, threads)
    events.write(software_of(adapter))
    begin = events.phase("import", BEGIN)
    operation = operations.load(asked.name)
    if not hasattr(operation, framework):
        message = "{} has no {} here: add it in operations/{}.py"
        raise NotImplementedError(message.format(framework, asked.name, asked.name))
    if operations.collective(asked.name):
        operation.replicas = spec.execution.replicas
    try:
        random = np.random.RandomState(spec.seed)
        arrays = operation.arrays(random, **asked.dimensions)
        begin = events.phase("load", begin)
        made = getattr(operation, framework)(adapter, **arrays)
        call, read = made if isinstance(made, tuple) else (made, list)
        begin = events.phase("build", begin)
        calls = Calls(call, adapter, events, process.announce if process and not FOLLOWS else None)
        if FOLLOWS:
            process.follow(calls)
            return
        begin = run_phases(calls, spec.phases, events, begin)
        if process:
            process.end()
        requested = {"arithmetic": shown_by_products(job)}
        effective = {"arithmetic": arithmetic(adapter, job)}
        prove_settings(events, adapter, job, requested, effective)
        deviation = operation.deviation(read([host(each) for each in calls.results]), **arrays)
        events.phase("evaluation", begin)
        tolerance = TOLERANCES[spec.execution.precision]
        events.write(Deviation(deviation, tolerance))
        if not deviation <= tolerance:
            message = "the results are {:.2g} from those in double precision; {:g} is the most"
            raise ValueError(message.format(deviation, tolerance))
        events.write(Memory(adapter.device_memory_peak()))
    except Exception as error:
        if process and not FOLLOWS:
            process.end(process.PATIENCE)  # if another failed first, this process ends as it did
        raise_foreseen(adapter, error)
        raise
