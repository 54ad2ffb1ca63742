"""Numbers from the samples of the sensors."""

import math
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from statistics import fmean

from touchstone.results.measured import MetricValue, PhaseSpan
from touchstone.results.nodes import interpolate
from touchstone.results.phases import Phase
from touchstone.results.run_files import Run

MINIMUM_SAMPLES = 3
"""Samples from which a mean counts as one, however they scatter."""
SAMPLE_SPREAD = 0.05
"""Range / mean up to which fewer samples agree."""
GAP_LIMIT = 2
"""Sampling intervals that a sensor may be silent."""


def percentile(chunks: Iterable[tuple[float, int]], percent: int, what: str) -> MetricValue:
    """The least step time that at least `percent` % of the steps do not exceed (nearest rank), ms.

    Args:
        chunks: of each, the time of a step, s, and how many steps it has.
        what: they are called in the reason why there is none: with fewer than
            100 / (100 - percent) of them it would be the maximum under another name.
    """
    times = sorted(chunks)
    least = math.ceil(100 / (100 - percent))
    if len(times) < least:
        return f"too few {what}: {len(times)}, and it takes {least}"
    passed = list(accumulate(steps for _, steps in times))
    reached = (steps * 100 >= passed[-1] * percent for steps in passed)
    return next(seconds for (seconds, _), there in zip(times, reached, strict=True) if there) * 1000


def _why_missing(run: Run, name: str) -> str | None:
    """The reason that the sensors gave for an empty column, or for its end."""
    for sensor in (sensor for env in run.envs for sensor in env["sensors"].values()):
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
) -> MetricValue:
    """A statistic of the samples within a phase, or of all samples (phase None)."""
    column = _column(run, name)
    if isinstance(column, str):
        return column
    values = [value for t, value in column if phase is None or phase.covers(t)]
    return statistic(values) if values else _few(run, name, "none in")


def mean_of(run: Run, name: str, phase: Phase | None) -> MetricValue:
    """The mean of the samples within a phase, or of all samples (phase None)."""
    return _from_samples(run, name, phase, fmean)


def has_coarse_mean(run: Run, phase: Phase, columns: Iterable[str]) -> bool:
    """Whether a mean of one of the columns over the phase rests on few samples that do not agree.

    Fewer than `MINIMUM_SAMPLES` agree where they, and the next one after the phase, are within
    `SAMPLE_SPREAD`: a memory that does not change needs no more. One sample shows nothing.
    """
    for column in (run.telemetry[name] for name in columns if run.telemetry.get(name)):
        inside = [value for t, value in column if phase.covers(t)]
        if len(inside) >= MINIMUM_SAMPLES:
            continue
        few = inside + [value for t, value in column if t > phase.end][:1]
        if not inside or len(few) < 2 or max(few) - min(few) > SAMPLE_SPREAD * fmean(few):
            return True
    return False


def peak_of(run: Run, name: str) -> MetricValue:
    return _from_samples(run, name, None, max)


def _within(run: Run, name: str, phase: Phase) -> list[list[tuple[float, float]]] | str:
    """A column from edge to edge of each part of a phase, or the reason why it is not.

    It is never extrapolated.
    """
    column = _column(run, name)
    if isinstance(column, str):
        return column
    segments = []
    for part in phase.parts:
        first, last = interpolate(column, part.begin), interpolate(column, part.end)
        if first is None or last is None:
            return _few(run, name, "they do not enclose")
        inside = [(t, value) for t, value in column if part.begin < t < part.end]
        segments.append([(part.begin, first), *inside, (part.end, last)])
    return segments


def increase(run: Run, name: str, phase: Phase) -> MetricValue:
    """Growth of a cumulative column over a phase."""
    parts = _within(run, name, phase)
    if isinstance(parts, str):
        return parts
    grown = [points[-1][1] - points[0][1] for points in parts]
    return sum(grown) if min(grown) >= 0 else "the counter fell during the measured phase"


def integral(run: Run, name: str, phase: Phase) -> MetricValue:
    """A column integrated over a phase: trapezia between the real times of its samples."""
    parts = _within(run, name, phase)
    if isinstance(parts, str):
        return parts
    pairs = (pair for points in parts for pair in pairwise(points))
    return sum((t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in pairs)


def sampling_gaps(run: Run, phase: Phase) -> bool:
    """Whether a sensor was silent for too long in a phase; one that never spoke has no gap."""
    limit = GAP_LIMIT * run.spec.sampling_interval
    for sensor in run.env["sensors"].values():
        named = [run.telemetry.get(name, []) for name in sensor.get("columns", {})]
        times = sorted({t for column in named for t, _ in column})
        if not times:
            continue
        for part in phase.parts:
            before = max((t for t in times if t < part.begin), default=part.begin)
            after = min((t for t in times if t > part.end), default=part.end)
            instants = [before, *(t for t in times if part.begin <= t <= part.end), after]
            if any(t1 - t0 > limit for t0, t1 in pairwise(instants)):
                return True
    return False


def throttle_bits(run: Run, phase: Phase) -> int:
    """All reasons for lower clocks that the GPU gave in a phase, as NVML's bits."""
    bits = 0
    for t, value in run.telemetry.get("gpu_throttle_reasons", []):
        if phase.covers(t):
            bits |= int(value)
    return bits


def is_whole(run: Run) -> Phase:
    """The time from the first to the last sample of CPU time; no part where there are not two."""
    times = [t for t, _ in run.telemetry.get("cpu_seconds", [])]
    return Phase((PhaseSpan(times[0], times[-1], 0, 0),) if len(times) > 1 else ())


def share_of_others(run: Run, phase: Phase) -> MetricValue:
    """What others used of the machine's CPU time over a phase, %."""
    machine, tree = (increase(run, name, phase) for name in ("machine_cpu_seconds", "cpu_seconds"))
    if isinstance(machine, str) or isinstance(tree, str):
        return machine if isinstance(machine, str) else str(tree)
    # The kernel's two clocks do not agree to the last tick.
    return max(machine - tree, 0.0) / phase.seconds / run.logical_cores * 100
