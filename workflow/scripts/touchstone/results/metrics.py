"""Names, units and definitions of the metrics, as in `docs/contracts.md`."""

from typing import NamedTuple

from touchstone.schema.limits import NOISE_LIMIT


class Metric(NamedTuple):
    """A measured quantity: its unit and, in one sentence, how it is computed."""

    unit: str
    definition: str


STEP_TIME = (
    "A chunk lasts from the end of the chunk before it to its own end, and each of its steps"
    " has the chunk's mean; nearest rank over the measured phase's steps."
)

LATENCY = (
    "A batch lasts from its images in host memory to its outputs there, and is waited for before"
    " the next; nearest rank."
)

METRICS = {
    "throughput": Metric("images/s", "Examples of the measured phase / its time."),
    "step_rate": Metric("steps/s", "Steps of the measured phase / its time."),
    "first_step_time": Metric(
        "s", "Time of the first training step, or prediction, or call, compilation included."
    ),
    "training_time": Metric(
        "s", "From the begin of the first step to the end of the last, without evaluations."
    ),
    "total_training_time": Metric(
        "s",
        "From the begin of the first step to the end of the last evaluation: training and all"
        " evaluations, which are of every epoch with `evaluate_every: 1`.",
    ),
    "test_accuracy": Metric(
        "1",
        "Correctly predicted / all labels of the test set, after the last epoch; an example has one"
        " unless the network's task is another.",
    ),
    "token_rate": Metric(
        "tokens/s",
        "Throughput x tokens that a text has predicted: of a network that predicts the next token.",
    ),
    "perplexity": Metric(
        "1",
        "e to the power of the mean cross-entropy over all predicted tokens of the test set, after"
        " the last epoch: of a network that predicts the next token.",
    ),
    "mean_iou": Metric(
        "1",
        "Mean over the classes of intersection / union of the pixels that are predicted to have a"
        " label and those that have it, in the whole test set, after the last epoch: of a network"
        " that labels pixels.",
    ),
    "training_accuracy": Metric(
        "1",
        "Correctly predicted / all labels of the training set, after the last epoch, as evaluated"
        " without dropout and augmentation: with `training_accuracy: true`.",
    ),
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
    "gpu_power": Metric(
        "W",
        "Mean of the samples in the measured phase; a sample is the device's mean of the last"
        " second where it has one.",
    ),
    "gpu_energy": Metric(
        "J", "Increase of the device's own energy counter over the measured phase."
    ),
    "step_time_p50": Metric("ms", f"Median of the step times. {STEP_TIME}"),
    "step_time_p95": Metric("ms", f"95th percentile of the step times. {STEP_TIME}"),
    "step_time_p99": Metric("ms", f"99th percentile of the step times. {STEP_TIME}"),
    "cpu_time_per_1000_images": Metric(
        "s", "CPU time of the process tree over the measured phase / its examples x 1000."
    ),
    "host_memory_high_water": Metric(
        "MiB",
        "Largest sample of the whole run; a sample is the largest resident size that a process"
        " ever had (VmHWM), summed over the process tree: shared pages count in every process.",
    ),
    "context_switch_rate": Metric(
        "1/s", "Context switches of the tree's threads over the measured phase / its time."
    ),
    "involuntary_context_switch_rate": Metric(
        "1/s", "Those of them in which the kernel took the core from a thread."
    ),
    "minor_page_fault_rate": Metric(
        "1/s", "Page faults that read no disk, over the measured phase / its time."
    ),
    "major_page_faults": Metric("1", "Page faults that read the disk, in the measured phase."),
    "disk_read_rate": Metric(
        "MB/s", "Bytes that the tree had disks read, over the measured phase / its time."
    ),
    "disk_write_rate": Metric(
        "MB/s", "Bytes that the tree had disks write, over the measured phase / its time."
    ),
    "network_receive_rate": Metric(
        "MB/s",
        "Bytes received over the measured phase / its time, by all interfaces that the runner"
        " sees but loopback.",
    ),
    "network_send_rate": Metric(
        "MB/s",
        "Bytes sent over the measured phase / its time, by all interfaces that the runner sees"
        " but loopback.",
    ),
    "gpu_process_memory_peak": Metric(
        "MiB", "Largest sample of the whole run of what the driver says the tree's processes hold."
    ),
    "gpu_allocator_peak": Metric(
        "MiB", "The largest amount that the framework's own allocator says it had in use."
    ),
    "gpu_energy_integrated": Metric(
        "J", "Power at the samples, integrated over the measured phase (trapezoidal rule)."
    ),
    "gpu_energy_per_image": Metric("J", "GPU energy of the measured phase / its examples."),
    "gpu_temperature": Metric("°C", "Mean of the samples in the measured phase."),
    "gpu_temperature_peak": Metric("°C", "Largest sample of the whole run."),
    "gpu_sm_clock": Metric("MHz", "Mean of the samples in the measured phase."),
    "gpu_memory_clock": Metric("MHz", "Mean of the samples in the measured phase."),
    "gpu_pcie_tx": Metric(
        "MB/s", "What the device sent over PCIe: mean of the samples in the measured phase."
    ),
    "gpu_pcie_rx": Metric(
        "MB/s", "What the device received over PCIe: mean of the samples in the measured phase."
    ),
    "cpu_energy": Metric(
        "J", "Energy of all CPU packages of the machine over the measured phase, by RAPL."
    ),
    "dram_energy": Metric(
        "J", "Energy of the memory of the machine over the measured phase, by RAPL."
    ),
    "cpu_energy_per_image": Metric("J", "CPU energy of the measured phase / its examples."),
    "other_cpu_utilization": Metric(
        "%",
        "CPU time of the machine's other programs, and what its hypervisor gave to others, over the"
        " measured phase / its time / logical cores of the machine x 100; of a run without one,"
        " over the whole run.",
    ),
    "core_latency": Metric(
        "ns",
        "Round trip of a signal between neighbouring cores of the run, on average over them: the"
        " larger of those before and after the run.",
    ),
    "busy_threads": Metric(
        "threads",
        "Mean of the samples in the measured phase; a sample counts the threads that used at least"
        " 5 % of a core since the sample before it.",
    ),
    "cpu_utilization_run": Metric(
        "%",
        "CPU time of the process tree from the first to the last sample of the run / the time"
        " between them / logical cores of the machine x 100.",
    ),
    "host_memory_run": Metric("MiB", "Mean of all samples of the run, loading included."),
    "gpu_utilization_run": Metric("%", "Mean of all samples of the run, loading included."),
    "gpu_memory_run": Metric("MiB", "Mean of all samples of the run, loading included."),
    "gpu_memory_per_gpu": Metric(
        "MiB", "Mean of all samples of the run, which are sums over GPUs, / its GPUs."
    ),
    "gpu_power_per_gpu": Metric(
        "W", "Mean of all samples of the run, which are sums over GPUs, / its GPUs."
    ),
    "time_to_accuracy": Metric(
        "s",
        "Training time, evaluations left out, until the first evaluation that reaches the target"
        " accuracy.",
    ),
    "epochs_to_accuracy": Metric("epochs", "Epochs until that evaluation."),
    "flop_rate": Metric(
        "GFLOP/s",
        "Floating-point operations of the measured phase / its time / 10^9: 2 for every"
        " multiply-accumulate of the network's forward pass and example. In training as many again"
        " for the gradient by a layer's weights, if they are trained, and by its inputs, if"
        " anything before it is. Only convolutions, matrix products and recurrences count.",
    ),
    "memory_rate": Metric(
        "GB/s",
        "Bytes that an operation must at least read and write in the measured phase / its time"
        " / 10^9.",
    ),
    "algorithm_bandwidth": Metric(
        "GB/s",
        "Of an all-reduce: bytes of a replica's array x calls of the measured phase / its time"
        " / 10^9.",
    ),
    "bus_bandwidth": Metric(
        "GB/s",
        "Algorithm bandwidth x 2 (n - 1) / n of n replicas: what each of them must at least send,"
        " and receive (NCCL tests, doc/PERFORMANCE.md).",
    ),
    "deviation": Metric(
        "1",
        "How far an operation's result is from that in double precision, relative to the largest;"
        " of inference, how far the outputs are from those that were kept with the weights.",
    ),
    "model_load_time": Metric(
        "s", "Inference: reading the weights from their file and building the network with them."
    ),
    "latency_p50": Metric("ms", f"Inference: median of the latencies. {LATENCY}"),
    "latency_p95": Metric("ms", f"Inference: 95th percentile of the latencies. {LATENCY}"),
    "latency_p99": Metric("ms", f"Inference: 99th percentile of the latencies. {LATENCY}"),
    "total_inference_time": Metric(
        "s",
        "Inference: from the begin of loading the model to the end of predicting the whole test set"
        " for the first time, the first prediction included.",
    ),
}
CENSORED = {"time_to_accuracy": "seconds", "epochs_to_accuracy": "epoch"}
"""Metrics that a run may end too early for, and what of an evaluation is their value."""

PHASES = (
    "import", "load", "build", "first_step", "warmup", "measured", "evaluation", "latency",
)  # fmt: skip

SWITCH_LIMIT = 3000
"""Context switches per second and core of a run."""
MINIMUM_SAMPLES = 3
"""Samples from which a mean counts as one, however they scatter."""
SAMPLE_SPREAD = 0.05
"""Range / mean up to which fewer samples agree."""
DRIFT_LIMIT = 0.05
GAP_LIMIT = 2
ENERGY_LIMIT = 0.05

# nvmlClocksEventReason* of NVML's nvml.h: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown and
# HwPowerBrakeSlowdown; SwPowerCap.
THROTTLED_BITS = 0x8 | 0x20 | 0x40 | 0x80
POWER_CAP_BIT = 0x4

FLAGS = {
    "edited": "A file of the run, or its record, is not what its stage wrote: it was changed or"
    " damaged afterwards. `make verify` names the file.",
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
    "sampling_gaps": f"A sensor gave nothing for more than {GAP_LIMIT} sampling intervals in the"
    " measured phase: its numbers leave that time out.",
    "throttled": "The GPU lowered its clocks in the measured phase because of its temperature or"
    " its power supply.",
    "power_capped": "The GPU lowered its clocks in the measured phase to keep to its power limit.",
    "energy_disagrees": f"The GPU's energy counter and its integrated power differ by more than"
    f" {ENERGY_LIMIT * 100:.0f} %.",
}

CAPITALS = {"cpu": "CPU", "dram": "DRAM", "gpu": "GPU", "pcie": "PCIe", "sm": "SM"}
"""Parts of names that prose does not write in small letters."""


def words(name: str) -> str:
    """The name of a metric or a factor as prose has it: `GPU memory` for `gpu_memory`."""
    return " ".join(CAPITALS.get(word, word) for word in name.split("_"))
