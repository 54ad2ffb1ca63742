"""What the metrics of a run are computed from, and the computations that take more than a line."""

from itertools import pairwise
from typing import Any, NamedTuple

from touchstone.results.measured import MetricValue
from touchstone.results.phases import Phase, measured_chunks, trained_until
from touchstone.results.run_files import Run
from touchstone.results.telemetry import increase, is_whole, mean_of, percentile, share_of_others
from touchstone.schema import events
from touchstone.schema.spec import (
    UNTIL_END,
    InferenceSpec,
    OperationSpec,
    ProgramSpec,
    TrainingSpec,
)


class Evidence(NamedTuple):
    """A run with what was made of its events.

    run: its files
    phases: that were reached, by name
    epoch_losses: the mean training loss of each complete epoch; None where one is not finite
    evaluations: on the test set, in order; none of a run that ended in a fault
    finished: whether it did all its planned steps
    """

    run: Run
    phases: dict[str, Phase]
    epoch_losses: list[float | None]
    evaluations: list[dict[str, Any]]
    finished: bool

    @property
    def measured(self) -> Phase:
        """The measured phase; raises KeyError in a run that did not reach it."""
        return self.phases["measured"]

    def increase(self, column: str) -> MetricValue:
        """Growth of a cumulative column of telemetry over the measured phase."""
        return increase(self.run, column, self.measured)

    def event(self, kind: type[Any]) -> Any:
        """The last event of a kind, or None."""
        return next(reversed(list(self.run.of(kind))), None)


def divided(value: MetricValue, divisor: float) -> MetricValue:
    """A number divided, or the reason why there is none."""
    return value if isinstance(value, str) else value / divisor


def seconds_of(evidence: Evidence, *phases: str) -> float | None:
    """The time in phases, s; None where one of them was not reached."""
    if not evidence.phases.keys() >= set(phases):
        return None
    return sum(evidence.phases[name].seconds for name in phases)


def training_time(evidence: Evidence) -> MetricValue | None:
    """From the first step to the end of the last, without evaluations, s."""
    if "first_step" not in evidence.phases:
        return None
    return trained_until(evidence.phases, evidence.measured.end)


def total_training_time(evidence: Evidence) -> MetricValue | None:
    """From the first step to the end of the last evaluation, s."""
    phases = evidence.phases
    if "first_step" not in phases:
        return None
    if "evaluation" not in phases:
        return "the run evaluates nothing"
    return phases["evaluation"].end - phases["first_step"].begin


def program_time(evidence: Evidence) -> MetricValue:
    """From the start of a program's process to the end of its script, s."""
    spec, phases = evidence.run.spec, evidence.phases
    if not isinstance(spec, ProgramSpec) or spec.program.until != UNTIL_END:
        return "the script was ended when enough was measured (`until: measured`)"
    return max(phase.end for phase in phases.values()) - phases["import"].begin


def cpu_cores(evidence: Evidence) -> MetricValue:
    """CPU time of the measured phase / its time."""
    return divided(evidence.increase("cpu_seconds"), evidence.measured.seconds)


def cpu_utilization(evidence: Evidence) -> MetricValue:
    """CPU cores / logical cores of the machine, %."""
    cores = cpu_cores(evidence)
    return cores if isinstance(cores, str) else cores / evidence.run.logical_cores * 100


def cpu_utilization_run(evidence: Evidence) -> MetricValue:
    """CPU time from the first to the last sample / the time between them / logical cores, %."""
    run, whole = evidence.run, is_whole(evidence.run)
    if not whole.parts:
        return "too few samples of CPU time"
    return divided(increase(run, "cpu_seconds", whole), whole.seconds * run.logical_cores / 100)


def other_cpu_utilization(evidence: Evidence) -> MetricValue | None:
    """What others used of the machine's CPU time, %: over the measured phase, or the whole run."""
    if evidence.finished:
        return share_of_others(evidence.run, evidence.measured)
    whole = is_whole(evidence.run)
    return share_of_others(evidence.run, whole) if whole.parts else None


def per_gpu(evidence: Evidence, column: str) -> MetricValue:
    """The mean of all samples of a column, which are sums over GPUs, / the GPUs."""
    return divided(mean_of(evidence.run, column, None), evidence.run.spec.execution.world_size)


def core_latency(evidence: Evidence) -> MetricValue:
    """The largest core latency of a node, before or after the run, ns."""
    readings = [float(ns) for env in evidence.run.envs for ns in env["run"].get("core_latency", ())]
    return max(readings, default="one core, no hypervisor, or it was not measured")


def gpu_allocator_peak(evidence: Evidence) -> MetricValue:
    """The peak that the framework's own allocator reports, MiB."""
    memory = evidence.event(events.Memory)
    if memory and memory.device_peak_mib is not None:
        return float(memory.device_peak_mib)
    if evidence.run.spec.factors.device == "cpu":
        return "the cell trains on the CPU"
    return "the framework does not report its allocator's peak"


def step_time(evidence: Evidence, percent: int) -> MetricValue:
    """A percentile of the step times of the measured phase, ms.

    A step has the mean step time of its chunk, which lasts from the end of the chunk before:
    so the step times add up to the phase.
    """
    measured = evidence.measured
    chunks = measured_chunks(evidence.run, measured)
    spans = pairwise([measured.begin, *(chunk.end for chunk in chunks)])
    times = (
        ((end - begin) / chunk.steps, chunk.steps)
        for (begin, end), chunk in zip(spans, chunks, strict=True)
    )
    return percentile(times, percent, "chunks")


def latency(evidence: Evidence, percent: int) -> MetricValue | None:
    """A percentile of the latencies of inference, ms; None where none was measured."""
    if "latency" not in evidence.phases:
        return None
    chunks = (chunk for chunk in evidence.run.of(events.Chunk) if chunk.phase == "latency")
    return percentile(((chunk.end - chunk.begin, 1) for chunk in chunks), percent, "batches")


def calls_rate(evidence: Evidence) -> float:
    """Steps, or calls, of the measured phase / its time / 10^9."""
    return evidence.measured.steps / evidence.measured.seconds / 1e9


def flop_rate(evidence: Evidence) -> MetricValue:
    """Floating-point operations of the measured phase / its time, GFLOP/s."""
    spec, measured = evidence.run.spec, evidence.measured
    if isinstance(spec, OperationSpec):
        return spec.operation.flops * calls_rate(evidence)
    assert isinstance(spec, TrainingSpec | InferenceSpec)
    macs = spec.network.training_macs if evidence.run.trains else spec.network.macs
    return 2 * macs * measured.examples / measured.seconds / 1e9


def memory_rate(evidence: Evidence) -> MetricValue:
    """Bytes that an operation must move in the measured phase / its time, GB/s."""
    spec = evidence.run.spec
    if isinstance(spec, OperationSpec):
        return spec.operation.traffic * calls_rate(evidence)
    return "the bytes that a network moves are not counted"


def algorithm_bandwidth(evidence: Evidence) -> MetricValue:
    """Bytes of a replica's array x calls of the measured phase / its time, GB/s."""
    spec = evidence.run.spec
    if isinstance(spec, OperationSpec) and spec.operation.exchanged is not None:
        return spec.operation.exchanged * calls_rate(evidence)
    return "only an all-reduce exchanges an array"


def bus_bandwidth(evidence: Evidence) -> MetricValue:
    """The algorithm bandwidth x 2 (n - 1) / n of n replicas, GB/s."""
    replicas, bandwidth = evidence.run.spec.execution.replicas, algorithm_bandwidth(evidence)
    return bandwidth if isinstance(bandwidth, str) else bandwidth * (2 * (replicas - 1) / replicas)


def deviation(evidence: Evidence) -> MetricValue:
    """How far an operation's result, or outputs of inference, are from what they must be."""
    if compared := evidence.event(events.Deviation):
        value: float = compared.value
        return value
    if isinstance(evidence.run.spec, OperationSpec):
        return "the run ended before its results were compared"
    if isinstance(evidence.run.spec, ProgramSpec):
        return "nobody knows what a program should compute"
    return "what a network computes is shown by its certificate"
