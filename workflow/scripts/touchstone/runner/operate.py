"""A run of a basic operation.

Calls the operation again and again for about as long as the spec says, in chunks as training
does, and compares the last results with those in double precision.
"""

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from touchstone import operations
from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.checks import arithmetic, prove_settings, shown_by_products, software_of
from touchstone.runner.group import IS_FOLLOWER, group_of, processes_of, threads_of_replica
from touchstone.runner.job import Job, job_of
from touchstone.runner.outcome import raise_as_outcome
from touchstone.runner.work import Phases, Work, extent_of
from touchstone.schema.events import Chunk, Deviation, Memory
from touchstone.schema.spec import OperationSpec

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


class Calls(Work):
    """Makes calls in chunks, waits for each chunk, and writes one event for it.

    `announce` gets the number of calls of a chunk before it begins.
    """

    def __init__(
        self,
        call: Any,
        adapter: Any,
        job: Job,
        events: Any,
        announce: Optional[Callable[[int], None]] = None,
    ) -> None:
        self.call, self.adapter, self.job, self.events = call, adapter, job, events
        self.announce = announce
        self.results: Any = ()

    def begin(self, phase: str, steps: int) -> int:
        """Make so many calls, and wait for them."""
        if self.announce:
            self.announce(steps)
        begin = time.monotonic()
        for _ in range(steps):
            self.results = self.call()
        if hasattr(self.results[0], "block_until_ready"):
            for result in self.results:
                result.block_until_ready()
        else:
            self.adapter.synchronize()
        self.events.write(Chunk(phase, self.made, steps, begin, time.monotonic(), []))
        self.made += steps
        return steps

    def examples(self, first: int) -> int:
        """The calls from `first` on."""
        return self.made - first

    def prove(self, events: Any) -> None:
        """As `Work` has it."""
        requested = {"arithmetic": shown_by_products(self.job)}
        effective = {"arithmetic": arithmetic(self.adapter, self.job)}
        prove_settings(events, self.adapter, self.job, requested, effective)


class Operation(NamedTuple):
    """An operation with its arrays: `module.deviation(read(results), **arrays)` is how far results
    are from those in double precision."""

    module: Any
    arrays: Dict[str, Any]
    read: Callable[[List[Any]], Any]


def calls_of(
    spec: OperationSpec,
    adapter: Any,
    job: Job,
    events: Any,
    begin: float,
    chunks: Any,
    announce: Optional[Callable[[int], None]] = None,
) -> Tuple[Calls, Operation, float]:
    """The calls of a run, with the arrays made; and the time.

    Args:
        events: where its phases are written; the first one began at the time `begin`.
        chunks: where the events of its chunks are written.

    Raises:
        NotImplementedError: the operation is not written for the framework.
    """
    framework, name = spec.factors.framework, spec.operation.name
    module = operations.load(name)
    if not hasattr(module, framework):
        message = "{} has no {} here: add it in operations/{}.py"
        raise NotImplementedError(message.format(framework, name, name))
    if operations.collective(name):
        module.replicas = spec.execution.replicas
    arrays = module.arrays(np.random.RandomState(spec.seed), **spec.operation.dimensions)
    begin = events.phase("load", begin)
    made = getattr(module, framework)(adapter, **arrays)
    call, read = made if isinstance(made, tuple) else (made, list)
    begin = events.phase("build", begin)
    return Calls(call, adapter, job, chunks, announce), Operation(module, arrays, read), begin


def operate(spec: OperationSpec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if the results are wrong."""
    process = processes_of(spec.execution, events)
    threads = threads_of_replica(spec.execution, threads)
    job = job_of(spec, group_of(process))
    adapter = make_adapter(job, threads)
    events.write(software_of(adapter))
    begin = events.phase("import", BEGIN)
    try:
        announce = process.announce if process and not IS_FOLLOWER else None
        calls, operation, begin = calls_of(spec, adapter, job, events, begin, events, announce)
        if IS_FOLLOWER:
            process.follow_steps(calls)
            return
        phases = Phases(calls, spec.phases, extent_of(spec.phases), events)
        begin = phases.measure(phases.warm_up(phases.first_step(begin)))
        if process:
            process.end()
        calls.prove(events)
        results = operation.read([host(result) for result in calls.results])
        deviation = operation.module.deviation(results, **operation.arrays)
        events.phase("evaluation", begin)
        tolerance = TOLERANCES[spec.execution.precision]
        events.write(Deviation(deviation, tolerance))
        if not deviation <= tolerance:
            message = "the results are {:.2g} from those in double precision; {:g} is the most"
            raise ValueError(message.format(deviation, tolerance))
        events.write(Memory(adapter.device_memory_peak()))
    except Exception as error:
        if process and not IS_FOLLOWER:
            process.end(process.PATIENCE)  # if another failed first, this process ends as it did
        raise_as_outcome(adapter, error)
        raise
