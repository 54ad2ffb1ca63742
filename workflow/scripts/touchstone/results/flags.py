"""What a reader must know of a run before trusting its numbers."""

import math
from typing import Any

from touchstone.results.measured import Censored, MetricValue
from touchstone.results.metrics import AVERAGED
from touchstone.results.phases import Phase, measured_chunks
from touchstone.results.run_files import Run
from touchstone.results.steadiness import DRIFT_LIMIT, drifts
from touchstone.results.telemetry import (
    GAP_LIMIT,
    MINIMUM_SAMPLES,
    SAMPLE_SPREAD,
    has_coarse_mean,
    sampling_gaps,
    throttle_bits,
)
from touchstone.schema.limits import NOISE_LIMIT
from touchstone.schema.spec import ProgramSpec
from touchstone.schema.status import OK

SWITCH_LIMIT = 3000
"""Context switches per second and core of a run."""
ENERGY_LIMIT = 0.05
# nvmlClocksEventReason* of NVML's nvml.h: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown and
# HwPowerBrakeSlowdown; SwPowerCap.
THROTTLED_BITS = 0x8 | 0x20 | 0x40 | 0x80
POWER_CAP_BIT = 0x4
SAME = 1e-6  # relative; a setting kept in float32 is the requested one (2^-24 = 6e-8)

Value = MetricValue | Censored
Values = dict[str, Value]

FLAGS = {
    "edited": "A file of the run, or its record, is not what its stage wrote: it was changed or"
    " damaged afterwards. The command `verify` names the file (docs/commands.md).",
    "crashed_at_exit": "The runner had written its result when it crashed, or ended with an exit"
    " status other than 0.",
    "noisy_machine": f"Other processes used more than {NOISE_LIMIT * 100:.0f} % of the machine's"
    " CPU time during the measured phase, or during the whole run if it was ended before that was"
    " over.",
    "threads_sleep": "Threads of the framework slept between operations: more than"
    f" {SWITCH_LIMIT:,} context switches per second and core in the measured phase.",
    "short_warmup": "The warm-up had fewer steps or seconds than the study asks for, and the"
    " measured phase is not shown to be steady.",
    "few_samples": f"A mean of samples (memory, GPU) has fewer than {MINIMUM_SAMPLES} in the"
    f" measured phase, and they differ by more than {SAMPLE_SPREAD * 100:.0f} %, or there is only"
    " one: it is coarse. Speeds and CPU times do not depend on the number of samples.",
    "drifting": f"The step time changed by more than {DRIFT_LIMIT * 100:.0f} % over the measured"
    " phase, with a trend that correlated noise does not explain: the number is an average of a"
    " speed that was not steady.",
    "drift_untested": "The measured phase had too few chunks to test for drift.",
    "settings_differ": "A setting read back from the live framework is not the requested one.",
    "more_examples": "A program counted more examples in its steps than its batch size: its"
    " examples/s may be of something else.",
    "sampling_gaps": f"A sensor gave nothing for more than {GAP_LIMIT} sampling intervals in the"
    " measured phase: its numbers leave that time out.",
    "throttled": "The GPU lowered its clocks in the measured phase because of its temperature or"
    " its power supply.",
    "power_capped": "The GPU lowered its clocks in the measured phase to keep to its power limit.",
    "energy_disagrees": f"The GPU's energy counter and its integrated power differ by more than"
    f" {ENERGY_LIMIT * 100:.0f} %.",
}


def _disagree(counted: Value, integrated: Value) -> bool:
    """Whether two figures for one energy differ by too much; a missing one says nothing."""
    if not (isinstance(counted, float) and isinstance(integrated, float)):
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


def noisy_flags(values: Values) -> list[str]:
    """The flag of a run that others disturbed, or none."""
    others = values["other_cpu_utilization"]
    return ["noisy_machine"] if isinstance(others, float) and others > NOISE_LIMIT * 100 else []


def _switches(run: Run, values: Values) -> float:
    """Context switches per second and core of a run; 0 where the kernel does not tell them."""
    rate = values["context_switch_rate"]
    cores = sum(env["run"]["threads"] for env in run.envs)
    return rate / cores if isinstance(rate, float) else 0.0


def _counts_more(run: Run, measured: Phase) -> bool:
    """Whether a program that has a batch size counted more examples than that in its steps."""
    size = run.spec.factors.batch_size
    is_program = isinstance(run.spec, ProgramSpec)
    return is_program and size > 1 and measured.examples > measured.steps * size


def flags_of(
    run: Run, phases: dict[str, Phase], settings: dict[str, Any], values: Values
) -> list[str]:
    measured, planned = phases["measured"], run.spec.phases
    throttle = throttle_bits(run, measured)
    warmup = phases.get("warmup", Phase(()))
    drift = drifts(measured_chunks(run, measured), measured.begin)
    raised = {
        "noisy_machine": bool(noisy_flags(values)),
        "threads_sleep": _switches(run, values) > SWITCH_LIMIT,
        # A warm-up that was cut does no harm where the speed is steady after it.
        "short_warmup": drift is not False
        and (warmup.steps < planned.warmup_steps or warmup.seconds < planned.warmup_seconds),
        "few_samples": has_coarse_mean(run, measured, AVERAGED),
        "drifting": drift is True,
        "drift_untested": drift is None,
        "settings_differ": bool(differing_settings(settings)),
        "more_examples": _counts_more(run, measured),
        "sampling_gaps": sampling_gaps(run, measured),
        "throttled": bool(throttle & THROTTLED_BITS),
        "power_capped": bool(throttle & POWER_CAP_BIT),
        "crashed_at_exit": run.outcome.status == OK and run.outcome.exit_code not in (0, None),
        "energy_disagrees": _disagree(values["gpu_energy"], values["gpu_energy_integrated"]),
    }
    return [name for name, up in raised.items() if up]
