"""The runner of an operation, run inside a framework's own environment as `runtime.py` is.

    _run.py SPEC.json EVENTS.jsonl

Calls the operation again and again for about as long as the spec says, in chunks as training
does, and compares the last results with those in double precision.
"""

import time
from typing import Any

import numpy as np

from touchstone import operations
from touchstone.runner import BEGIN
from touchstone.runner.adapters import make_adapter
from touchstone.runner.checks import arithmetic, prove_settings, shown_by_products
from touchstone.runner.group import FOLLOWS, group_of, grouped, threads_of_replica
from touchstone.runner.outcome import raise_foreseen
from touchstone.schema.types import Spec

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

    `tell` is given the number of calls of a chunk before it begins.
    """

    def __init__(self, call: Any, adapter: Any, events: Any, tell: Any = None) -> None:
        self.call, self.adapter, self.events, self.tell = call, adapter, events, tell
        self.made = 0
        self.results: Any = ()

    def begin(self, phase: str, calls: Any) -> Any:
        """Make so many, and wait for them; returns the seconds it took."""
        if self.tell:
            self.tell(calls)
        begin = time.monotonic()
        for _ in range(calls):
            self.results = self.call()
        if hasattr(self.results[0], "block_until_ready"):
            for result in self.results:
                result.block_until_ready()
        else:
            self.adapter.synchronize()
        end = time.monotonic()
        self.events.write(
            "chunk", phase=phase, first_step=self.made, steps=calls, begin=begin, end=end, losses=[]
        )
        self.made += calls
        return end - begin

    def finish(self) -> None:
        """Nothing is left to wait for."""


def run_phases(calls: Any, phases: Any, events: Any, begin: float) -> Any:
    """First call, warm-up, measured calls; `begin` is the time."""

    def phase(name: str, begin: float, first: int) -> Any:
        steps = calls.made - first
        return events.phase(name, begin, steps=steps, examples=steps)

    calls.begin("first_step", 1)
    begin = phase("first_step", begin, 0)
    first, size, seconds = calls.made, 1, 0.0
    while True:
        seconds = calls.begin("warmup", size)
        warm = time.monotonic() - begin
        if calls.made - first >= phases["warmup_steps"] and warm >= phases["warmup_seconds"]:
            break
        if warm >= phases["warmup_seconds"] + phases["seconds"]:
            break  # a call that takes this long would be warmed up for minutes
        if seconds < phases["chunk_seconds"] / 2:
            size *= 2
    begin = phase("warmup", begin, first)
    first = calls.made
    while time.monotonic() - begin < phases["seconds"]:
        calls.begin("measured", size)
    return phase("measured", begin, first)


def operate(spec: Spec, events: Any, threads: int) -> None:
    """The whole run but its outcome. Raises ValueError if the results are wrong."""
    group = group_of(spec, events)
    threads = threads_of_replica(spec, threads)
    spec = grouped(spec, group)
    adapter = make_adapter(spec, threads)
    events.write("software", numpy=np.__version__, **adapter.software())
    begin = events.phase("import", BEGIN)
    asked, framework = spec["operation"], spec["factors"]["framework"]
    operation = operations.load(asked["name"])
    if not hasattr(operation, framework):
        message = "{} has no {} here: add it in operations/{}.py"
        raise NotImplementedError(message.format(framework, asked["name"], asked["name"]))
    if operations.collective(asked["name"]):
        operation.replicas = spec["execution"]["replicas"]
    try:
        random = np.random.RandomState(spec["seed"])
        arrays = operation.arrays(random, **asked["dimensions"])
        begin = events.phase("load", begin)
        made = getattr(operation, framework)(adapter, **arrays)
        call, read = made if isinstance(made, tuple) else (made, list)
        begin = events.phase("build", begin)
        calls = Calls(call, adapter, events, group.tell if group and not FOLLOWS else None)
        if FOLLOWS:
            group.follow(calls)
            return
        begin = run_phases(calls, spec["phases"], events, begin)
        if group:
            group.end()
        requested = {"arithmetic": shown_by_products(spec)}
        effective = {"arithmetic": arithmetic(adapter)}
        prove_settings(events, adapter, spec, requested, effective)
        deviation = operation.deviation(read([host(each) for each in calls.results]), **arrays)
        events.phase("evaluation", begin)
        tolerance = TOLERANCES[spec["execution"]["precision"]]
        events.write("deviation", value=deviation, tolerance=tolerance)
        if not deviation <= tolerance:
            message = "the results are {:.2g} from those in double precision; {:g} is the most"
            raise ValueError(message.format(deviation, tolerance))
        events.write("memory", device_peak_mib=adapter.device_memory_peak())
    except Exception as error:
        if group and not FOLLOWS:
            group.end(group.PATIENCE)  # where another failed first, this process ends as it did
        raise_foreseen(adapter, error)
        raise
