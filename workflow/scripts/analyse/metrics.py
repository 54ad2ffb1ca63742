"""Names, units and definitions of the metrics, as in `docs/contracts.md`."""

from typing import NamedTuple


class Metric(NamedTuple):
    """A measured quantity: its unit and, in one sentence, how it is computed."""

    unit: str
    definition: str


METRICS = {
    "throughput": Metric("images/s", "Examples of the measured phase / its time."),
    "step_rate": Metric("steps/s", "Steps of the measured phase / its time."),
    "first_step_time": Metric("s", "Time of the first training step, compilation included."),
    "training_time": Metric("s", "From the begin of the first step to the end of the last."),
    "test_accuracy": Metric("1", "Correct / all examples of the test set, after the last epoch."),
    "final_loss": Metric("1", "Mean training loss over the last epoch's steps."),
    "cpu_cores": Metric(
        "cores",
        "CPU time of the runner's process tree over the measured phase / its time.",
    ),
    "cpu_utilization": Metric("%", "CPU cores / logical cores of the machine x 100."),
    "host_memory": Metric(
        "MiB",
        "Mean of the samples in the measured phase; a sample is the proportional set size (PSS)"
        " summed over the process tree.",
    ),
    "host_memory_peak": Metric("MiB", "Largest sample of the whole run."),
    "gpu_utilization": Metric("%", "Mean of the samples in the measured phase."),
    "gpu_memory": Metric("MiB", "Mean of the samples in the measured phase (the driver's figure)."),
    "gpu_memory_peak": Metric("MiB", "Largest sample of the whole run (the driver's figure)."),
    "gpu_power": Metric("W", "Mean of the samples in the measured phase, summed over devices."),
    "gpu_energy": Metric(
        "J", "Difference of the devices' energy counters over the measured phase."
    ),
}

STATUSES = ("ok", "diverged", "oom", "timeout", "unsupported")

STATUS_MEANING = {
    "ok": "The run finished and every planned step was done.",
    "diverged": "The training loss stopped being a finite number.",
    "oom": "Out of memory: on the device, or over the memory limit of the host.",
    "timeout": "The run was stopped at its time limit.",
    "unsupported": "The framework cannot do what the cell asks for.",
}

PHASES = ("import", "load", "build", "first_step", "warmup", "measured", "evaluation")

NOISE_LIMIT = 0.10
MINIMUM_SAMPLES = 3
DRIFT_LIMIT = 0.05

FLAGS = {
    "noisy_machine": f"Other processes used more than {NOISE_LIMIT * 100:.0f} % of the machine's"
    " CPU time during the measured phase.",
    "short_warmup": "The warm-up had fewer steps or seconds than the study asks for.",
    "few_samples": f"Fewer than {MINIMUM_SAMPLES} telemetry samples fell in the measured phase:"
    " CPU, memory and GPU numbers are coarse.",
    "drifting": f"The step time changed by more than {DRIFT_LIMIT * 100:.0f} % over the measured"
    " phase, with a significant trend: the number is an average of a speed that was not steady.",
    "drift_untested": "The measured phase had too few chunks to test for drift.",
    "settings_differ": "A setting read back from the live framework is not the requested one.",
}
