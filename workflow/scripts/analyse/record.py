"""From the four files of a run to its record: metrics, flags and provenance."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from analyse.files import FORMAT, RERUN, InputError
from analyse.metrics import (
    CENSORED,
    ENERGY_LIMIT,
    GAP_LIMIT,
    METRICS,
    MINIMUM_SAMPLES,
    NOISE_LIMIT,
    PHASES,
    POWER_CAP_BIT,
    SWITCH_LIMIT,
    THROTTLED_BITS,
)
from analyse.nodes import interpolate
from analyse.run import Run, read_run
from analyse.steadiness import Chunk, drifts

Answer = float | str
"""A metric's number, or the reason why there is none."""

MEANS = (
    "gpu_utilization", "gpu_memory", "gpu_power", "gpu_power_average", "gpu_temperature",
    "gpu_sm_clock", "gpu_memory_clock", "gpu_pcie_tx", "gpu_pcie_rx", "busy_threads",
)  # fmt: skip
"""Metrics that are the mean of the column of their name over the measured phase."""
RATES = {
    "context_switch_rate": ("context_switches", 1.0),
    "involuntary_context_switch_rate": ("involuntary_context_switches", 1.0),
    "minor_page_fault_rate": ("minor_page_faults", 1.0),
    "disk_read_rate": ("disk_read", 1e6),
    "disk_write_rate": ("disk_written", 1e6),
    "network_receive_rate": ("network_received", 1e6),
    "network_send_rate": ("network_sent", 1e6),
}
"""Metrics that are the increase of a column over the measured phase / its time / a unit."""
PEAKS = {
    "host_memory_peak": "host_memory",
    "host_memory_high_water": "host_memory_high_water",
    "gpu_memory_peak": "gpu_memory",
    "gpu_process_memory_peak": "gpu_process_memory",
    "gpu_temperature_peak": "gpu_temperature",
}
"""Metrics that are the largest sample of a column in the whole run."""

DIVIDED = ("warmup", "measured", "evaluation")
"""The phases that may have several parts."""
OF_TRAINING = (
    "throughput", "training_time", "test_accuracy", "final_loss", "cpu_time_per_1000_images",
    "gpu_energy_per_image", "cpu_energy_per_image",
)  # fmt: skip
"""Metrics that an operation does not have."""
OF_INFERENCE = (
    "model_load_time", "latency_p50", "latency_p95", "latency_p99", "total_inference_time",
)  # fmt: skip
"""Metrics that inference alone has."""

OF_EXCHANGE = ("algorithm_bandwidth", "bus_bandwidth")
"""Metrics that an operation between replicas alone has."""

SAME = 1e-6  # relative; a setting kept in float32 is the requested one (2^-24 = 6e-8)


class Part(NamedTuple):
    """A stretch of a phase on the monotonic clock (s) with the work done in it."""

    begin: float
    end: float
    steps: int
    examples: int


class Phase(NamedTuple):
    """A phase: one stretch of time, or several between which the network was evaluated."""

    parts: tuple[Part, ...]

    @property
    def begin(self) -> float:
        return self.parts[0].begin

    @property
    def end(self) -> float:
        return self.parts[-1].end

    @property
    def seconds(self) -> float:
        """The time within its parts."""
        return sum(part.end - part.begin for part in self.parts)

    @property
    def steps(self) -> int:
        return sum(part.steps for part in self.parts)

    @property
    def examples(self) -> int:
        return sum(part.examples for part in self.parts)

    def covers(self, t: float) -> bool:
        """Whether the time `t` (s) lies in a part."""
        return any(part.begin <= t <= part.end for part in self.parts)


def build_record(folder: Path) -> dict[str, Any]:
    """Judge one run.

    Args:
        folder: holds `spec.json`, `events.jsonl`, `telemetry.csv` and `env.json`.

    Returns:
        The record, as `workflow/schemas/record.schema.json` describes it.

    Raises:
        InputError: a file is missing, damaged, or contradicts another.
    """
    run = read_run(folder)
    outcome = run.of("outcome")[0]
    status = outcome["status"]
    phases = _phases(run)
    steps, losses = _losses(run)
    steps_per_epoch, planned_steps = _planned(run, steps, phases)
    if status == "ok":
        _check_finished(run, phases, steps, planned_steps)
    finished = (
        status not in ("diverged", "error") and steps == planned_steps and "measured" in phases
    )
    if "measured" in phases:
        _check_measured(run, phases["measured"])
    stated = [e.get("reason") for e in (outcome, *run.of("result")) if e.get("reason")]
    reason = None if status == "ok" else str(stated[0] if stated else "no reason given")
    means = _epoch_means(losses, steps_per_epoch)
    answers = _answers(run, phases, means, finished, f"{status}: {reason}")
    evaluations = [] if status == "error" else _evaluations(run, phases)
    settings = next(iter(run.of("settings")), {})
    software = next(iter(run.of("software")), {})
    return {
        "format": FORMAT,
        "cell": run.spec["cell"],
        "repeat": run.spec["repeat"],
        "status": status,
        "reason": reason,
        "factors": run.spec["factors"],
        "flags": _flags(run, phases, settings, answers) if finished else _noisy(answers),
        "metrics": {name: _metric(name, answers[name]) for name in METRICS}
        | _to_accuracy(run, evaluations, f"{status}: {reason}"),
        "phases": {name: phase.seconds for name, phase in phases.items()},
        "evaluations": evaluations,
        "losses": [{"epoch": i, "loss": mean} for i, mean in enumerate(means, start=1)],
        "provenance": {
            "seed": run.spec["seed"],
            "deviations": run.spec["deviations"],
            "started": run.env["run"]["started"],
            "machine": run.env["machine"],
            "environment": {k: v for k, v in run.env["run"].items() if k != "started"},
            "software": {**run.env["software"], **_without_event(software)},
            "settings": _without_event(settings),
            "trials": run.spec.get("trials", []),
            "start": run.env["start"],
            "unknown": run.env["unknown"],
            "run": folder.as_posix(),
            **({"nodes": _nodes(run)} if run.nodes else {}),
        },
        **({"log_tail": outcome.get("log_tail", [])} if status == "error" else {}),
    }


def _nodes(run: Run) -> list[dict[str, Any]]:
    """The nodes of a run on several, and by how much their clocks may be wrong (s)."""
    first = {"machine": run.env["machine"], "clock_uncertainty": 0.0}
    return [
        first,
        *({"machine": n.env["machine"], "clock_uncertainty": n.uncertainty} for n in run.nodes),
    ]


def _without_event(event: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in event.items() if k != "event"}


def _metric(name: str, answer: Answer) -> dict[str, Any]:
    unit = METRICS[name].unit
    if isinstance(answer, str):
        return {"value": None, "unit": unit, "reason": answer}
    return {"value": answer, "unit": unit}


def _events_error(run: Run, cause: str) -> InputError:
    return InputError(run.folder / "events.jsonl", cause, RERUN)


def _phases(run: Run) -> dict[str, Phase]:
    """The phases that were reached, by name."""
    phases: dict[str, Phase] = {}
    for event in run.of("phase"):
        name = event["name"]
        if name not in PHASES:
            raise _events_error(run, f"unknown phase {name!r} (known: {', '.join(PHASES)})")
        part = Part(event["begin"], event["end"], event.get("steps", 0), event.get("examples", 0))
        if name in phases and name not in DIVIDED:
            raise _events_error(run, f"phase {name!r} occurs twice")
        phases[name] = Phase((*(phases[name].parts if name in phases else ()), part))
    return phases


def _planned(run: Run, steps: int, phases: dict[str, Phase]) -> tuple[int, int]:
    """The steps of an epoch, and of the whole run; what lasts for a time has those that it made.

    Where so many measured steps are asked for, they come behind those of the warm-up.
    """
    if not run.trains:
        return 0, steps
    per_epoch = run.spec["data"]["train_examples"] // run.spec["factors"]["batch_size"]
    planned = run.spec["phases"]["epochs"] * per_epoch
    if limit := run.spec["phases"].get("measured_steps"):
        before = sum(phases[name].steps for name in ("first_step", "warmup") if name in phases)
        planned = min(planned, before + limit)
    return per_epoch, planned


def _losses(run: Run) -> tuple[int, list[float]]:
    """The number of steps, and the training loss of every one, in order, if it trained.

    Chunks must follow one another.
    """
    steps, losses = 0, list[float]()
    for chunk in run.of("chunk"):
        if chunk["first_step"] != steps:
            cause = f"a chunk begins at step {chunk['first_step']}, not {steps}"
            raise _events_error(run, cause)
        steps += chunk["steps"]
        expected = chunk["steps"] if run.trains else 0
        if chunk["steps"] < 1 or len(chunk["losses"]) != expected:
            cause = f"a chunk of {chunk['steps']} steps has {len(chunk['losses'])} losses"
            raise _events_error(run, cause)
        try:
            losses += map(float, chunk["losses"])
        except (TypeError, ValueError) as error:
            raise _events_error(run, f"a loss is not a number ({error})") from None
    return steps, losses


def _epoch_means(losses: list[float], steps: int) -> list[float | None]:
    """Mean loss of each complete epoch of `steps` steps; None where a loss is not finite."""
    complete = len(losses) // steps if steps else 0
    epochs = [losses[i * steps : (i + 1) * steps] for i in range(complete)]
    return [fmean(epoch) if all(map(math.isfinite, epoch)) else None for epoch in epochs]


def _check_finished(run: Run, phases: dict[str, Phase], steps: int, planned: int) -> None:
    """InputError when a run calls itself ok without the evidence: no early stop counts as ok."""
    result = [event["status"] for event in run.of("result")]
    if result != ["ok"]:
        raise _events_error(run, f"the outcome is ok, but the runner's results are {result}")
    for name in ("first_step", "measured"):
        if name not in phases:
            raise _events_error(run, f"the outcome is ok, but there is no {name} phase")
    if steps != planned:
        raise _events_error(run, f"the outcome is ok after {steps} of {planned} planned steps")


def _check_measured(run: Run, measured: Phase) -> None:
    """InputError when the measured phase contradicts its own chunks or the batch size."""
    steps = sum(chunk.steps for chunk in _measured_chunks(run, measured))
    if measured.seconds <= 0 or measured.steps < 1 or measured.steps != steps:
        cause = f"the measured phase states {measured.steps} steps in {measured.seconds:g} s"
        raise _events_error(run, f"{cause}, its chunks have {steps}")
    expected = measured.steps * run.spec["factors"]["batch_size"]
    if measured.examples != expected:
        cause = f"the measured phase states {measured.examples} examples"
        raise _events_error(run, f"{cause}, its steps x batch size are {expected}")


def _measured_chunks(run: Run, measured: Phase) -> list[Chunk]:
    """The chunks of the measured phase, with the time between its parts left out of their ends."""
    told = [chunk for chunk in run.of("chunk") if chunk["phase"] == "measured"]
    chunks, left_out, last = [], 0.0, measured.begin
    for part in measured.parts:
        left_out += part.begin - last
        last = part.end
        inside = (chunk for chunk in told if part.begin <= chunk["end"] <= part.end)
        chunks += [Chunk(chunk["steps"], chunk["end"] - left_out) for chunk in inside]
    return chunks


def _trained_until(phases: dict[str, Phase], t: float) -> float:
    """Seconds of training, evaluations left out, from its first step to the time `t`."""
    evaluated = phases["evaluation"].parts if "evaluation" in phases else ()
    pauses = sum(part.end - part.begin for part in evaluated if part.end <= t)
    return t - phases["first_step"].begin - pauses


def _evaluations(run: Run, phases: dict[str, Phase]) -> list[dict[str, Any]]:
    """Accuracy and loss on the test set by epoch, and the seconds of training until then."""
    steps = 0
    ends: dict[int, float] = {}
    for name in ("first_step", "warmup", "measured"):
        for part in phases[name].parts if name in phases else ():
            steps += part.steps
            ends.setdefault(steps, part.end)
    found: list[dict[str, Any]] = []
    for event in run.of("evaluation"):
        examples = run.spec["data"]["test_examples"]
        if event["examples"] != examples or not 0 <= event["correct"] <= examples:
            cause = f"evaluated {event['correct']} / {event['examples']} correct"
            raise _events_error(run, f"{cause}, the test set has {examples} examples")
        if not run.trains:
            continue
        if event["step"] not in ends:
            cause = f"an evaluation after step {event['step']}, where no phase ends"
            raise _events_error(run, cause)
        loss = float(event["loss"])
        found.append(
            {
                "epoch": event["epoch"],
                "accuracy": event["correct"] / examples if examples else None,
                "loss": loss if math.isfinite(loss) else None,
                "seconds": _trained_until(phases, ends[event["step"]]),
            }
        )
    return found


def _to_accuracy(
    run: Run, evaluations: list[dict[str, Any]], status_reason: str
) -> dict[str, dict[str, Any]]:
    """The metrics of `CENSORED`: when an evaluation first reached the target accuracy.

    Of a run that went to its end or its time limit without, `censored_at` says how far it is
    known that more was needed.
    """
    status = run.of("outcome")[0]["status"]
    target = run.spec["phases"].get("target_accuracy")
    known = [each for each in evaluations if each["accuracy"] is not None]
    last = known[-1] if known and status in ("ok", "timeout") else None
    if target is None and status == "ok":
        return {name: _metric(name, "the cell has no target accuracy") for name in CENSORED}
    if target is None or status in ("diverged", "error"):
        return {name: _metric(name, status_reason) for name in CENSORED}
    reached = next((each for each in known if each["accuracy"] >= target), None)
    if reached:
        return {name: _metric(name, reached[key]) for name, key in CENSORED.items()}
    if last is None:
        return {name: _metric(name, status_reason) for name in CENSORED}
    reason = f"not reached within {last['epoch']} epochs"
    return {
        name: {**_metric(name, reason), "censored_at": last[key]} for name, key in CENSORED.items()
    }


def _answers(
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
    if "first_step" in phases and run.of("outcome")[0]["status"] != "error":
        answers["first_step_time"] = phases["first_step"].seconds
    if not finished and run.of("outcome")[0]["status"] != "error" and (whole := _whole(run)).parts:
        answers["other_cpu_utilization"] = _others(run, whole)
    if "inference" in run.spec and run.of("outcome")[0]["status"] != "error":
        answers |= _inference(run, phases, status_reason)
    if not finished:
        return answers
    measured = phases["measured"]
    cpu = _increase(run, "cpu_seconds", measured)
    cores = _over(cpu, measured.seconds)
    energy, cpu_energy = (_increase(run, name, measured) for name in ("gpu_energy", "cpu_energy"))
    answers |= {
        "throughput": measured.examples / measured.seconds,
        "step_rate": measured.steps / measured.seconds,
        "final_loss": _final_loss(means),
        "cpu_cores": cores,
        "cpu_utilization": cores if isinstance(cores, str) else cores / run.logical_cores * 100,
        "other_cpu_utilization": _others(run, measured),
        "host_memory": _mean(run, "host_memory", measured),
        "gpu_energy": energy,
        **_step_times(_measured_chunks(run, measured), measured.begin),
        "cpu_time_per_1000_images": _over(cpu, measured.examples / 1000),
        "major_page_faults": _increase(run, "major_page_faults", measured),
        "gpu_energy_integrated": _integral(run, "gpu_power", measured),
        "gpu_energy_per_image": _over(energy, measured.examples),
        "cpu_energy": cpu_energy,
        "dram_energy": _increase(run, "dram_energy", measured),
        "cpu_energy_per_image": _over(cpu_energy, measured.examples),
        **_work(run, measured),
    }
    for name in MEANS:
        answers[name] = _mean(run, name, measured)
    for name, (column, unit) in RATES.items():
        answers[name] = _over(_increase(run, column, measured), measured.seconds * unit)
    if "first_step" in phases:
        answers["training_time"] = _trained_until(phases, measured.end)
    if run.of("outcome")[0]["status"] == "ok":
        answers |= {name: _peak(run, column) for name, column in PEAKS.items()}
        answers["gpu_allocator_peak"] = _allocator_peak(run)
        if "operation" not in run.spec:
            answers["test_accuracy"] = _accuracy(run)
    if "operation" in run.spec:
        answers |= dict.fromkeys(OF_TRAINING, "an operation is called, not trained")
    if "inference" in run.spec:
        why = "the cell predicts, and trains nothing"
        answers |= dict.fromkeys(("training_time", "final_loss"), why)
    else:
        answers |= dict.fromkeys(OF_INFERENCE, "the cell does not predict")
    return answers


def _inference(run: Run, phases: dict[str, Phase], status_reason: str) -> dict[str, Answer]:
    """The metrics of `OF_INFERENCE`; those that were reached count even if the run failed later."""
    found: dict[str, Answer] = dict.fromkeys(OF_INFERENCE, status_reason)
    if "build" in phases:
        found["model_load_time"] = phases["build"].seconds
    if "evaluation" in phases:
        needed = ("build", "first_step", "evaluation")
        found["total_inference_time"] = sum(phases[name].seconds for name in needed)
    if "latency" in phases:
        chunks = [event for event in run.of("chunk") if event["phase"] == "latency"]
        times = sorted(chunk["end"] - chunk["begin"] for chunk in chunks)
        for percent in (50, 95, 99):
            found[f"latency_p{percent}"] = _percentile(times, percent)
    return found


def _percentile(times: list[float], percent: int) -> Answer:
    """The least of the sorted times (s) that `percent` % of them do not exceed, in ms.

    There is none where it would be the maximum under another name.
    """
    least = math.ceil(100 / (100 - percent))
    if len(times) < least:
        return f"too few batches: {len(times)}, and it takes {least}"
    return times[math.ceil(len(times) * percent / 100) - 1] * 1000


def _work(run: Run, measured: Phase) -> dict[str, Answer]:
    """What the measured phase computed and moved in its time; of an operation, how well."""
    operation = run.spec.get("operation")
    told = [event["value"] for event in run.of("deviation")]
    if operation is None:
        macs = run.spec["network"]["training_macs" if run.trains else "macs"]
        flops = 2 * macs * measured.examples
        shown = "what a network computes is shown by its certificate"
        return {
            "flop_rate": flops / measured.seconds / 1e9,
            "memory_rate": "the bytes that a network moves are not counted",
            **dict.fromkeys(OF_EXCHANGE, "only an all-reduce exchanges an array"),
            "deviation": told[-1] if told else shown,
        }
    calls = measured.steps / measured.seconds / 1e9
    return {
        "flop_rate": operation["flops"] * calls,
        "memory_rate": operation["traffic"] * calls,
        **_exchange(run, calls),
        "deviation": told[-1] if told else "the run ended before its results were compared",
    }


def _exchange(run: Run, calls: float) -> dict[str, Answer]:
    """The bandwidths of an operation between replicas, of its calls / s / 10^9."""
    exchanged = run.spec["operation"].get("exchanged")
    if exchanged is None:
        return dict.fromkeys(OF_EXCHANGE, "only an all-reduce exchanges an array")
    replicas, bandwidth = run.spec["execution"]["replicas"], exchanged * calls
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
    told = [event.get("device_peak_mib") for event in run.of("memory")]
    if told and told[-1] is not None:
        return float(told[-1])
    if run.spec["factors"].get("device") == "cpu":
        return "the cell trains on the CPU"
    return "the framework does not tell its allocator's peak"


def _final_loss(means: list[float | None]) -> Answer:
    if not means:
        return "no epoch was completed"
    return "a loss of the last epoch is not finite" if means[-1] is None else means[-1]


def _accuracy(run: Run) -> Answer:
    epochs, examples = run.spec["phases"].get("epochs", 0), run.spec["data"]["test_examples"]
    if limit := run.spec["phases"].get("measured_steps"):
        return f"the cell ends after {limit} measured steps, without an evaluation"
    last = [event for event in run.of("evaluation") if event["epoch"] == epochs]
    if not last:
        return f"no evaluation after epoch {epochs}"
    return last[-1]["correct"] / examples if examples else "the test set is empty"


def _why_missing(run: Run, name: str) -> str | None:
    """The reason that the sensors gave for an empty column, or for its end."""
    for sensor in (one for env in run.envs for one in env["sensors"].values()):
        if name in sensor.get("columns", {}):
            reason: str | None = sensor.get("reason") or sensor.get("missing", {}).get(name)
            if reason:
                return reason
    return None


def _column(run: Run, name: str) -> list[tuple[float, float]] | str:
    """The samples of a telemetry column, or why there are none."""
    return run.telemetry.get(name) or _why_missing(run, name) or f"no sensor gave {name}"


def _few(run: Run, name: str, how: str) -> str:
    """Why the samples of a column do not suffice."""
    reason = _why_missing(run, name)
    return f"too few samples: {how} the measured phase" + (f" ({reason})" if reason else "")


def _from_samples(
    run: Run, name: str, phase: Phase | None, statistic: Callable[[list[float]], float]
) -> Answer:
    """A statistic of the samples within a phase, or of all samples (phase None)."""
    column = _column(run, name)
    if isinstance(column, str):
        return column
    values = [value for t, value in column if phase is None or phase.covers(t)]
    return statistic(values) if values else _few(run, name, "none in")


def _mean(run: Run, name: str, phase: Phase) -> Answer:
    return _from_samples(run, name, phase, fmean)


def _peak(run: Run, name: str) -> Answer:
    return _from_samples(run, name, None, max)


def _within(run: Run, name: str, phase: Phase) -> list[list[tuple[float, float]]] | str:
    """A column from edge to edge of each part of a phase, or the reason why it is not.

    It is never extrapolated.
    """
    column = _column(run, name)
    if isinstance(column, str):
        return column
    found = []
    for part in phase.parts:
        first, last = interpolate(column, part.begin), interpolate(column, part.end)
        if first is None or last is None:
            return _few(run, name, "they do not enclose")
        inside = [(t, value) for t, value in column if part.begin < t < part.end]
        found.append([(part.begin, first), *inside, (part.end, last)])
    return found


def _increase(run: Run, name: str, phase: Phase) -> Answer:
    """Growth of a cumulative column over a phase."""
    parts = _within(run, name, phase)
    if isinstance(parts, str):
        return parts
    grown = [points[-1][1] - points[0][1] for points in parts]
    return sum(grown) if min(grown) >= 0 else "the counter fell during the measured phase"


def _integral(run: Run, name: str, phase: Phase) -> Answer:
    """A column integrated over a phase: trapezia between the real times of its samples."""
    parts = _within(run, name, phase)
    if isinstance(parts, str):
        return parts
    pairs = (pair for points in parts for pair in pairwise(points))
    return sum((t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in pairs)


def _gaps(run: Run, phase: Phase) -> bool:
    """Whether a sensor was silent for too long in a phase; one that never spoke has no gap."""
    limit = GAP_LIMIT * run.spec["sampling_interval"]
    for sensor in run.env["sensors"].values():
        named = [run.telemetry.get(name, []) for name in sensor.get("columns", {})]
        times = sorted({t for column in named for t, _ in column})
        if not times:
            continue
        for part in phase.parts:
            before = max((t for t in times if t < part.begin), default=part.begin)
            after = min((t for t in times if t > part.end), default=part.end)
            known = [before, *(t for t in times if part.begin <= t <= part.end), after]
            if any(t1 - t0 > limit for t0, t1 in pairwise(known)):
                return True
    return False


def _throttle_bits(run: Run, phase: Phase) -> int:
    """All reasons for lower clocks that the GPU gave in a phase, as NVML's bits."""
    bits = 0
    for t, value in run.telemetry.get("gpu_throttle_reasons", []):
        if phase.covers(t):
            bits |= int(value)
    return bits


def _disagree(counted: Answer, integrated: Answer) -> bool:
    """Whether two figures for one energy differ by too much; a missing one says nothing."""
    if isinstance(counted, str) or isinstance(integrated, str):
        return False
    return abs(integrated - counted) > ENERGY_LIMIT * counted


def _differs(requested: Any, effective: Any) -> bool:
    """Whether a setting read back is not the requested one; null asks for nothing."""
    if requested is None:
        return False
    numbers = (int, float)
    if isinstance(requested, numbers) and isinstance(effective, numbers):
        return not math.isclose(requested, effective, rel_tol=SAME)
    return bool(requested != effective)


def differing_settings(settings: dict[str, Any]) -> list[str]:
    """Names of the settings whose effective value is not the requested one."""
    requested, effective = settings.get("requested", {}), settings.get("effective", {})
    return [name for name in requested if _differs(requested[name], effective.get(name))]


def _others(run: Run, phase: Phase) -> Answer:
    """What others used of the machine's CPU time over a phase, %."""
    machine, tree = (_increase(run, name, phase) for name in ("machine_cpu_seconds", "cpu_seconds"))
    if isinstance(machine, str) or isinstance(tree, str):
        return machine if isinstance(machine, str) else str(tree)
    # The kernel's two clocks do not agree to the last tick.
    return max(machine - tree, 0.0) / phase.seconds / run.logical_cores * 100


def _whole(run: Run) -> Phase:
    """The time from the first to the last sample of CPU time; no part where there are not two."""
    times = [t for t, _ in run.telemetry.get("cpu_seconds", [])]
    return Phase((Part(times[0], times[-1], 0, 0),) if len(times) > 1 else ())


def _noisy(answers: dict[str, Answer]) -> list[str]:
    """The flag of a run that others disturbed, or none."""
    others = answers["other_cpu_utilization"]
    return ["noisy_machine"] if isinstance(others, float) and others > NOISE_LIMIT * 100 else []


def _switches(run: Run, answers: dict[str, Answer]) -> float:
    """Context switches per second and core of a run; 0 where the kernel does not tell them."""
    rate = answers["context_switch_rate"]
    cores = sum(env["run"]["threads"] for env in run.envs)
    return 0.0 if isinstance(rate, str) else rate / cores


def _flags(
    run: Run, phases: dict[str, Phase], settings: dict[str, Any], answers: dict[str, Answer]
) -> list[str]:
    measured, asked = phases["measured"], run.spec["phases"]
    throttle = _throttle_bits(run, measured)
    warmup = phases.get("warmup", Phase(()))
    samples = sum(map(measured.covers, run.samples))
    drift = drifts(_measured_chunks(run, measured), measured.begin)
    raised = {
        "noisy_machine": bool(_noisy(answers)),
        "threads_sleep": _switches(run, answers) > SWITCH_LIMIT,
        "short_warmup": warmup.steps < asked["warmup_steps"]
        or warmup.seconds < asked["warmup_seconds"],
        "few_samples": samples < MINIMUM_SAMPLES,
        "drifting": drift is True,
        "drift_untested": drift is None,
        "settings_differ": bool(differing_settings(settings)),
        "sampling_gaps": _gaps(run, measured),
        "throttled": bool(throttle & THROTTLED_BITS),
        "power_capped": bool(throttle & POWER_CAP_BIT),
        "energy_disagrees": _disagree(answers["gpu_energy"], answers["gpu_energy_integrated"]),
    }
    return [name for name, up in raised.items() if up]
