"""The metrics of a run."""

import math
from itertools import pairwise

from touchstone.results.flags import share_of_others
from touchstone.results.losses import accuracy_of, final_loss, training_accuracy_of
from touchstone.results.measured import Answer
from touchstone.results.metrics import METRICS
from touchstone.results.phases import Phase, measured_chunks, trained_until
from touchstone.results.run_files import Run
from touchstone.results.steadiness import Chunk
from touchstone.results.tasks import mean_iou_of, perplexity_of, token_rate
from touchstone.results.telemetry import (
    MEANS,
    OF_RUN,
    PEAKS,
    PER_GPU,
    RATES,
    increase,
    integral,
    is_whole,
    mean_of,
    peak_of,
    percentile,
)
from touchstone.schema import events
from touchstone.schema.spec import InferenceSpec, OperationSpec
from touchstone.schema.status import ERROR, OK

OF_TRAINING = (
    "throughput", "training_time", "total_training_time", "test_accuracy", "training_accuracy",
    "final_loss", "token_rate", "perplexity", "mean_iou",
    "cpu_time_per_1000_images", "gpu_energy_per_image", "cpu_energy_per_image",
)  # fmt: skip
"""Metrics that an operation does not have."""
OF_STEPS = ("training_time", "total_training_time", "training_accuracy", "final_loss")
"""Those of them that inference does not have either."""
OF_INFERENCE = (
    "model_load_time", "latency_p50", "latency_p95", "latency_p99", "total_inference_time",
)  # fmt: skip
"""Metrics that inference alone has."""
OF_EXCHANGE = ("algorithm_bandwidth", "bus_bandwidth")
"""Metrics that an operation between replicas alone has."""


def answers_of(
    run: Run,
    phases: dict[str, Phase],
    means: list[float | None],
    finished: bool,
    status_reason: str,
) -> dict[str, Answer]:
    """Every metric of the contract; what an unfinished run did not reach says its status.

    Training that was complete counts even when the run failed later, in its evaluation.
    The peaks need an ok run: of a run that was stopped they are only lower bounds. A fault
    leaves nothing to be trusted: settings that differ from those asked for are one.
    """
    answers: dict[str, Answer] = dict.fromkeys(METRICS, status_reason)
    if run.outcome.status != ERROR:
        if "first_step" in phases:
            answers["first_step_time"] = phases["first_step"].seconds
        if not finished and (whole := is_whole(run)).parts:
            answers["other_cpu_utilization"] = share_of_others(run, whole)
        if isinstance(run.spec, InferenceSpec):
            answers |= _inference(run, phases, status_reason)
    if not finished:
        return answers
    measured = phases["measured"]
    cpu = increase(run, "cpu_seconds", measured)
    cores = _over(cpu, measured.seconds)
    energy, cpu_energy = (increase(run, name, measured) for name in ("gpu_energy", "cpu_energy"))
    answers |= {
        "throughput": measured.examples / measured.seconds,
        "step_rate": measured.steps / measured.seconds,
        "token_rate": token_rate(run, measured),
        "final_loss": final_loss(means),
        "cpu_cores": cores,
        "cpu_utilization": cores if isinstance(cores, str) else cores / run.logical_cores * 100,
        "other_cpu_utilization": share_of_others(run, measured),
        "host_memory": mean_of(run, "host_memory", measured),
        "gpu_energy": energy,
        **_step_times(measured_chunks(run, measured), measured.begin),
        "cpu_time_per_1000_images": _over(cpu, measured.examples / 1000),
        "major_page_faults": increase(run, "major_page_faults", measured),
        "gpu_energy_integrated": integral(run, "gpu_power", measured),
        "gpu_energy_per_image": _over(energy, measured.examples),
        "cpu_energy": cpu_energy,
        "dram_energy": increase(run, "dram_energy", measured),
        "cpu_energy_per_image": _over(cpu_energy, measured.examples),
        **_work(run, measured),
        "core_latency": _core_latency(run),
    }
    for name in MEANS:
        answers[name] = mean_of(run, name, measured)
    for name, (column, unit) in RATES.items():
        answers[name] = _over(increase(run, column, measured), measured.seconds * unit)
    if "first_step" in phases:
        answers["training_time"] = trained_until(phases, measured.end)
        answers["total_training_time"] = _with_evaluations(phases)
    if run.outcome.status == OK:
        answers |= {name: peak_of(run, column) for name, column in PEAKS.items()}
        answers |= {"perplexity": perplexity_of(run), "mean_iou": mean_iou_of(run)}
        answers |= _of_whole_run(run)
        answers["gpu_allocator_peak"] = _allocator_peak(run)
        if not isinstance(run.spec, OperationSpec):
            answers["test_accuracy"] = accuracy_of(run)
            answers["training_accuracy"] = training_accuracy_of(run)
    if isinstance(run.spec, OperationSpec):
        answers |= dict.fromkeys(OF_TRAINING, "an operation is called, not trained")
    if isinstance(run.spec, InferenceSpec):
        why = "the cell predicts, and trains nothing"
        answers |= dict.fromkeys(OF_STEPS, why)
    else:
        answers |= dict.fromkeys(OF_INFERENCE, "the cell does not predict")
    return answers


def _core_latency(run: Run) -> Answer:
    """The largest core latency of a node, before or after the run, ns."""
    known = [float(one) for env in run.envs for one in env["run"].get("core_latency", ())]
    return max(known, default="one core, no hypervisor, or it was not measured")


def _with_evaluations(phases: dict[str, Phase]) -> Answer:
    """The time (s) from the first step to the end of the last evaluation."""
    if "evaluation" not in phases:
        return "the run evaluates nothing"
    return phases["evaluation"].end - phases["first_step"].begin


def _of_whole_run(run: Run) -> dict[str, Answer]:
    """Means over all samples of a run, as studies have them that do not tell phases apart."""
    whole, gpus = is_whole(run), run.spec.execution.world_size
    found = {name: mean_of(run, column, None) for name, column in OF_RUN.items()}
    found |= {name: _over(mean_of(run, column, None), gpus) for name, column in PER_GPU.items()}
    cores: Answer = "too few samples of CPU time"
    if whole.parts:
        used = increase(run, "cpu_seconds", whole)
        cores = _over(used, whole.seconds * run.logical_cores / 100)
    return {**found, "cpu_utilization_run": cores}


def _inference(run: Run, phases: dict[str, Phase], status_reason: str) -> dict[str, Answer]:
    """The metrics of `OF_INFERENCE`; those that were reached count even if the run failed later."""
    found: dict[str, Answer] = dict.fromkeys(OF_INFERENCE, status_reason)
    if "build" in phases:
        found["model_load_time"] = phases["build"].seconds
    if "evaluation" in phases:
        needed = ("build", "first_step", "evaluation")
        found["total_inference_time"] = sum(phases[name].seconds for name in needed)
    if "latency" in phases:
        chunks = [event for event in run.of(events.Chunk) if event.phase == "latency"]
        times = sorted(chunk.end - chunk.begin for chunk in chunks)
        for percent in (50, 95, 99):
            found[f"latency_p{percent}"] = percentile(times, percent)
    return found


def _work(run: Run, measured: Phase) -> dict[str, Answer]:
    """What the measured phase computed and moved in its time; of an operation, how well."""
    spec, compared = run.spec, [event.value for event in run.of(events.Deviation)]
    if not isinstance(spec, OperationSpec):
        macs = spec.network.training_macs if run.trains else spec.network.macs
        flops = 2 * macs * measured.examples
        shown = "what a network computes is shown by its certificate"
        return {
            "flop_rate": flops / measured.seconds / 1e9,
            "memory_rate": "the bytes that a network moves are not counted",
            **dict.fromkeys(OF_EXCHANGE, "only an all-reduce exchanges an array"),
            "deviation": compared[-1] if compared else shown,
        }
    calls = measured.steps / measured.seconds / 1e9
    return {
        "flop_rate": spec.operation.flops * calls,
        "memory_rate": spec.operation.traffic * calls,
        **_exchange(spec, calls),
        "deviation": compared[-1] if compared else "the run ended before its results were compared",
    }


def _exchange(spec: OperationSpec, calls: float) -> dict[str, Answer]:
    """The bandwidths of an operation between replicas, of its calls / s / 10^9."""
    exchanged = spec.operation.exchanged
    if exchanged is None:
        return dict.fromkeys(OF_EXCHANGE, "only an all-reduce exchanges an array")
    replicas, bandwidth = spec.execution.replicas, exchanged * calls
    factor = 2 * (replicas - 1) / replicas
    return dict(zip(OF_EXCHANGE, (bandwidth, bandwidth * factor), strict=True))


def _over(answer: Answer, divisor: float) -> Answer:
    """A number divided, or the reason why there is none."""
    return answer if isinstance(answer, str) else answer / divisor


def _step_times(chunks: list[Chunk], begin: float) -> dict[str, Answer]:
    """Percentiles (ms) of the step times of a phase that begins at `begin` (s).

    A step has the mean step time of its chunk, which lasts from the end of the chunk before:
    so the step times add up to the phase. Nearest rank: the least step time that at least p %
    of the steps do not exceed. With fewer than 100 / (100 - p) chunks that would be the
    maximum under another name, and there is no number.
    """
    ends = [begin, *(chunk.end for chunk in chunks)]
    pairs = zip(pairwise(ends), chunks, strict=True)
    times = sorted(((e - b) / chunk.steps, chunk.steps) for (b, e), chunk in pairs)
    total = sum(steps for _, steps in times)
    found: dict[str, Answer] = {}
    for percent in (50, 95, 99):
        name, least = f"step_time_p{percent}", math.ceil(100 / (100 - percent))
        if len(chunks) < least:
            found[name] = f"too few chunks: {len(chunks)}, and it takes {least}"
            continue
        passed = 0
        for seconds, steps in times:
            passed += steps
            if passed * 100 >= total * percent:
                found[name] = seconds * 1000
                break
    return found


def _allocator_peak(run: Run) -> Answer:
    peaks = [event.device_peak_mib for event in run.of(events.Memory)]
    if peaks and peaks[-1] is not None:
        return float(peaks[-1])
    if run.spec.factors.device == "cpu":
        return "the cell trains on the CPU"
    return "the framework does not report its allocator's peak"
