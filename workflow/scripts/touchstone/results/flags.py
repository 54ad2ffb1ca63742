"""What a reader must know of a run before trusting its numbers."""

import math
from typing import Any

from touchstone.results.measured import Answer
from touchstone.results.metrics import (
    ENERGY_LIMIT,
    POWER_CAP_BIT,
    SWITCH_LIMIT,
    THROTTLED_BITS,
)
from touchstone.results.phases import Phase, measured_chunks
from touchstone.results.run_files import Run
from touchstone.results.steadiness import drifts
from touchstone.results.telemetry import (
    has_coarse_mean,
    increase,
    sampling_gaps,
    throttle_bits,
)
from touchstone.schema.limits import NOISE_LIMIT
from touchstone.schema.status import OK

SAME = 1e-6  # relative; a setting kept in float32 is the requested one (2^-24 = 6e-8)


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


def share_of_others(run: Run, phase: Phase) -> Answer:
    """What others used of the machine's CPU time over a phase, %."""
    machine, tree = (increase(run, name, phase) for name in ("machine_cpu_seconds", "cpu_seconds"))
    if isinstance(machine, str) or isinstance(tree, str):
        return machine if isinstance(machine, str) else str(tree)
    # The kernel's two clocks do not agree to the last tick.
    return max(machine - tree, 0.0) / phase.seconds / run.logical_cores * 100


def noisy_flags(answers: dict[str, Answer]) -> list[str]:
    """The flag of a run that others disturbed, or none."""
    others = answers["other_cpu_utilization"]
    return ["noisy_machine"] if isinstance(others, float) and others > NOISE_LIMIT * 100 else []


def _switches(run: Run, answers: dict[str, Answer]) -> float:
    """Context switches per second and core of a run; 0 where the kernel does not tell them."""
    rate = answers["context_switch_rate"]
    cores = sum(env["run"]["threads"] for env in run.envs)
    return 0.0 if isinstance(rate, str) else rate / cores


def flags_of(
    run: Run, phases: dict[str, Phase], settings: dict[str, Any], answers: dict[str, Answer]
) -> list[str]:
    measured, planned = phases["measured"], run.spec.phases
    throttle = throttle_bits(run, measured)
    warmup = phases.get("warmup", Phase(()))
    drift = drifts(measured_chunks(run, measured), measured.begin)
    raised = {
        "noisy_machine": bool(noisy_flags(answers)),
        "threads_sleep": _switches(run, answers) > SWITCH_LIMIT,
        # A warm-up that was cut does no harm where the speed is steady after it.
        "short_warmup": drift is not False
        and (warmup.steps < planned.warmup_steps or warmup.seconds < planned.warmup_seconds),
        "few_samples": has_coarse_mean(run, measured),
        "drifting": drift is True,
        "drift_untested": drift is None,
        "settings_differ": bool(differing_settings(settings)),
        "sampling_gaps": sampling_gaps(run, measured),
        "throttled": bool(throttle & THROTTLED_BITS),
        "power_capped": bool(throttle & POWER_CAP_BIT),
        "crashed_at_exit": run.outcome.status == OK and run.outcome.exit_code not in (0, None),
        "energy_disagrees": _disagree(answers["gpu_energy"], answers["gpu_energy_integrated"]),
    }
    return [name for name, up in raised.items() if up]
