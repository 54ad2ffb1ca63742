"""The metrics of a run: unit, definition, how it is computed, and what else is to be known of it.

The table of metrics in `docs/contracts.md`, the fields of records and every list of metrics are
made from here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from touchstone.plan.setting import (
    INFERENCE,
    OF_A_NETWORK,
    OF_ALL,
    OPERATION,
    PROGRAM,
    TRAINING,
    Kind,
)
from touchstone.results.evidence import (
    Evidence,
    algorithm_bandwidth,
    bus_bandwidth,
    core_latency,
    cpu_cores,
    cpu_utilization,
    cpu_utilization_run,
    deviation,
    divided,
    flop_rate,
    gpu_allocator_peak,
    latency,
    memory_rate,
    other_cpu_utilization,
    per_gpu,
    program_time,
    seconds_of,
    step_time,
    total_training_time,
    training_time,
)
from touchstone.results.losses import accuracy_of, final_loss, to_accuracy, training_accuracy_of
from touchstone.results.measured import Censored, MetricValue
from touchstone.results.tasks import mean_iou_of, perplexity_of, token_rate
from touchstone.results.telemetry import integral, mean_of, peak_of
from touchstone.schema.spec import kind_of
from touchstone.schema.status import ERROR, OK

WITHOUT: dict[str, str] = {
    INFERENCE: "the cell predicts, and trains nothing",
    OPERATION: "an operation is called, not trained",
    PROGRAM: "a program does not tell it",
}
"""Why a run of each kind has no metrics of training."""
NOT_OF: dict[tuple[str, ...], str] = {
    (INFERENCE,): "the cell does not predict",
    (PROGRAM,): "the cell runs no program",
}
"""Why a run has no metrics that only these kinds have."""
BEGUN, MEASURED, ENDED = "begun", "measured", "ended"
"""What a run has reached that has a metric: what it is computed from, also in an unfinished run;
all its planned steps; its end, with the status `ok`."""
HIGHER, LOWER = "higher", "lower"
OF_EXAMPLES = (*OF_A_NETWORK, PROGRAM)
"""Kinds of runs whose steps have examples."""
SCALE, BATCH = ("dataset", "epochs", "steps"), ("dataset", "batch_size")
"""Settings with which a metric changes for no other reason."""
Compute = Callable[[Evidence], MetricValue | Censored | None]


class Metric(NamedTuple):
    """A measured quantity.

    unit: `1` for none
    definition: in a sentence, how it is computed
    compute: its value, or the reason why there is none; None: that the run's status is
    of: the kinds of runs that have it
    since: what a run must have reached: `BEGUN`, `MEASURED` or `ENDED`
    better: `HIGHER` or `LOWER`; None: neither
    speed: whether it is a speed or a time, whose ratios are called faster and slower
    certain: whether every run with the status `ok` has a value, but for programs
    censored: whether a run may end too early for it, and then shows how large it is at least
    grows_with: the settings that change it for no other reason
    heading: its name in the table "At a glance" and in the chart; empty: it is in neither
    """

    unit: str
    definition: str
    compute: Compute
    of: tuple[str, ...] = OF_ALL
    since: str = MEASURED
    better: str | None = None
    speed: bool = False
    certain: bool = False
    censored: bool = False
    grows_with: tuple[str, ...] = ()
    heading: str = ""


@dataclass(frozen=True)
class Mean:
    """The mean of a column of telemetry over the measured phase.

    Runs are `compared` by it: where it rests on few samples that differ, a flag says so.
    """

    column: str
    compared: bool = True

    def __call__(self, evidence: Evidence) -> MetricValue:
        return mean_of(evidence.run, self.column, evidence.measured)


def run_mean(column: str) -> Compute:
    """The mean of all samples of a column."""
    return lambda evidence: mean_of(evidence.run, column, None)


def peak(column: str) -> Compute:
    """The largest sample of a column."""
    return lambda evidence: peak_of(evidence.run, column)


def rate(column: str, unit: float = 1.0) -> Compute:
    """The increase of a column over the measured phase / its time, in units of `unit`."""
    return lambda run: divided(run.increase(column), run.measured.seconds * unit)


def per_examples(column: str, examples: int = 1) -> Compute:
    """The increase of a column over the measured phase, for so many of its examples."""
    return lambda run: divided(run.increase(column), run.measured.examples / examples)


STEP_TIME = (
    "A chunk lasts from the end of the chunk before it to its own end, and each of its steps"
    " has the chunk's mean; nearest rank over the measured phase's steps."
)

LATENCY = (
    "A batch lasts from its images in host memory to its outputs there, and is waited for before"
    " the next; nearest rank."
)

PERCENTILES = {50: "median", 95: "95th percentile", 99: "99th percentile"}

METRICS = {
    "throughput": Metric(
        "images/s",
        "Examples of the measured phase / its time.",
        lambda run: run.measured.examples / run.measured.seconds,
        of=OF_EXAMPLES,
        better=HIGHER,
        speed=True,
    ),
    "step_rate": Metric(
        "steps/s",
        "Steps of the measured phase / its time.",
        lambda run: run.measured.steps / run.measured.seconds,
        better=HIGHER,
        speed=True,
        certain=True,
    ),
    "first_step_time": Metric(
        "s",
        "Time of the first training step, or prediction, or call, compilation included.",
        lambda run: seconds_of(run, "first_step"),
        since=BEGUN,
        better=LOWER,
        speed=True,
        certain=True,
        heading="First step",
    ),
    "training_time": Metric(
        "s",
        "From the beginning of the first step to the end of the last, without evaluations.",
        training_time,
        of=(TRAINING,),
        better=LOWER,
        speed=True,
        grows_with=SCALE,
    ),
    "total_training_time": Metric(
        "s",
        "From the beginning of the first step to the end of the last evaluation: training and all"
        " evaluations, which are of every epoch with `evaluate_every: 1`.",
        total_training_time,
        of=(TRAINING,),
        better=LOWER,
        speed=True,
        grows_with=SCALE,
    ),
    "program_time": Metric(
        "s",
        "Program with `until: end`: from the start of its process to the end of the script.",
        program_time,
        since=ENDED,
        of=(PROGRAM,),
        better=LOWER,
        speed=True,
        heading="Whole script",
    ),
    "test_accuracy": Metric(
        "1",
        "Correctly predicted / all labels of the test set, after the last epoch; an example has one"
        " unless the network's task is another.",
        lambda run: accuracy_of(run.run),
        since=ENDED,
        of=OF_A_NETWORK,
        better=HIGHER,
        grows_with=SCALE,
        heading="Test accuracy",
    ),
    "token_rate": Metric(
        "tokens/s",
        "Throughput x tokens that are predicted of a text, if the network predicts the next token.",
        lambda run: token_rate(run.run, run.measured),
        of=OF_A_NETWORK,
        better=HIGHER,
    ),
    "perplexity": Metric(
        "1",
        "e to the power of the mean cross-entropy over all predicted tokens of the test set, after"
        " the last epoch: of a network that predicts the next token.",
        lambda run: perplexity_of(run.run),
        since=ENDED,
        of=OF_A_NETWORK,
        better=LOWER,
    ),
    "mean_iou": Metric(
        "1",
        "Mean over the classes of intersection / union of the pixels that are predicted to have a"
        " label and those that have it, in the whole test set, after the last epoch: of a network"
        " that labels pixels.",
        lambda run: mean_iou_of(run.run),
        since=ENDED,
        of=OF_A_NETWORK,
        better=HIGHER,
    ),
    "training_accuracy": Metric(
        "1",
        "Correctly predicted / all labels of the training set, after the last epoch, as evaluated"
        " without dropout and augmentation: with `training_accuracy: true`.",
        lambda run: training_accuracy_of(run.run),
        since=ENDED,
        of=(TRAINING,),
        better=HIGHER,
        grows_with=SCALE,
    ),
    "final_loss": Metric(
        "1",
        "Mean training loss over the last epoch's steps.",
        lambda run: final_loss(run.epoch_losses),
        of=(TRAINING,),
        better=LOWER,
        grows_with=SCALE,
    ),
    "cpu_cores": Metric(
        "cores",
        "CPU time of the runner's process tree over the measured phase / its time.",
        cpu_cores,
        better=LOWER,
    ),
    "cpu_utilization": Metric(
        "%",
        "CPU cores / logical cores of the machine x 100.",
        cpu_utilization,
        better=LOWER,
    ),
    "host_memory": Metric(
        "MiB",
        "Mean of the samples in the measured phase; a sample is the proportional set size (PSS)"
        " summed over the process tree.",
        Mean("host_memory"),
        better=LOWER,
    ),
    "host_memory_peak": Metric(
        "MiB",
        "Largest sample of the whole run.",
        peak("host_memory"),
        since=ENDED,
        better=LOWER,
        heading="Memory, peak",
    ),
    "gpu_utilization": Metric(
        "%", "Mean of the samples in the measured phase.", Mean("gpu_utilization")
    ),
    "gpu_memory": Metric(
        "MiB",
        "Mean of the samples in the measured phase (the driver's figure).",
        Mean("gpu_memory"),
        better=LOWER,
    ),
    "gpu_memory_peak": Metric(
        "MiB",
        "Largest sample of the whole run (the driver's figure).",
        peak("gpu_memory"),
        since=ENDED,
        better=LOWER,
        heading="GPU memory, peak",
    ),
    "gpu_power": Metric(
        "W",
        "Mean of the samples in the measured phase; a sample is the device's mean of the last"
        " second where it has one.",
        Mean("gpu_power"),
        better=LOWER,
    ),
    "gpu_energy": Metric(
        "J",
        "Increase of the device's own energy counter over the measured phase.",
        lambda run: run.increase("gpu_energy"),
        better=LOWER,
    ),
    **{
        f"step_time_p{percent}": Metric(
            "ms",
            f"{words.capitalize()} of the step times. {STEP_TIME}",
            partial(step_time, percent=percent),
            better=LOWER,
            speed=True,
            grows_with=BATCH,
        )
        for percent, words in PERCENTILES.items()
    },
    "cpu_time_per_1000_images": Metric(
        "s",
        "CPU time of the process tree over the measured phase / its examples x 1000.",
        per_examples("cpu_seconds", 1000),
        of=OF_EXAMPLES,
        better=LOWER,
        heading="CPU time of 1000 examples",
    ),
    "host_memory_high_water": Metric(
        "MiB",
        "Largest sample of the whole run; a sample is the largest resident size that a process"
        " ever had (VmHWM), summed over the process tree: shared pages count in every process.",
        peak("host_memory_high_water"),
        since=ENDED,
        better=LOWER,
    ),
    "context_switch_rate": Metric(
        "1/s",
        "Context switches of the tree's threads over the measured phase / its time.",
        rate("context_switches"),
    ),
    "involuntary_context_switch_rate": Metric(
        "1/s",
        "Those of them in which the kernel took the core from a thread.",
        rate("involuntary_context_switches"),
    ),
    "minor_page_fault_rate": Metric(
        "1/s",
        "Page faults that read no disk, over the measured phase / its time.",
        rate("minor_page_faults"),
    ),
    "major_page_faults": Metric(
        "1",
        "Page faults that read the disk, in the measured phase.",
        lambda run: run.increase("major_page_faults"),
    ),
    "disk_read_rate": Metric(
        "MB/s",
        "Bytes that the tree had disks read, over the measured phase / its time.",
        rate("disk_read", 1e6),
    ),
    "disk_write_rate": Metric(
        "MB/s",
        "Bytes that the tree had disks write, over the measured phase / its time.",
        rate("disk_written", 1e6),
    ),
    "network_receive_rate": Metric(
        "MB/s",
        "Bytes received over the measured phase / its time, by all interfaces that the runner"
        " sees but loopback.",
        rate("network_received", 1e6),
    ),
    "network_send_rate": Metric(
        "MB/s",
        "Bytes sent over the measured phase / its time, by all interfaces that the runner sees"
        " but loopback.",
        rate("network_sent", 1e6),
    ),
    "gpu_process_memory_peak": Metric(
        "MiB",
        "Largest sample of the whole run of what the driver says the tree's processes hold.",
        peak("gpu_process_memory"),
        since=ENDED,
        better=LOWER,
    ),
    "gpu_allocator_peak": Metric(
        "MiB",
        "The largest amount that the framework's own allocator says it had in use.",
        gpu_allocator_peak,
        since=ENDED,
        better=LOWER,
    ),
    "gpu_energy_integrated": Metric(
        "J",
        "Power at the samples, integrated over the measured phase (trapezoidal rule).",
        lambda run: integral(run.run, "gpu_power", run.measured),
        better=LOWER,
    ),
    "gpu_energy_per_image": Metric(
        "J",
        "GPU energy of the measured phase / its examples.",
        per_examples("gpu_energy"),
        of=OF_EXAMPLES,
        better=LOWER,
        heading="GPU energy of an example",
    ),
    "gpu_temperature": Metric(
        "°C", "Mean of the samples in the measured phase.", Mean("gpu_temperature")
    ),
    "gpu_temperature_peak": Metric(
        "°C", "Largest sample of the whole run.", peak("gpu_temperature"), since=ENDED
    ),
    "gpu_sm_clock": Metric(
        "MHz", "Mean of the samples in the measured phase.", Mean("gpu_sm_clock")
    ),
    "gpu_memory_clock": Metric(
        "MHz", "Mean of the samples in the measured phase.", Mean("gpu_memory_clock")
    ),
    "gpu_pcie_tx": Metric(
        "MB/s",
        "What the device sent over PCIe: mean of the samples in the measured phase.",
        Mean("gpu_pcie_tx"),
    ),
    "gpu_pcie_rx": Metric(
        "MB/s",
        "What the device received over PCIe: mean of the samples in the measured phase.",
        Mean("gpu_pcie_rx"),
    ),
    "cpu_energy": Metric(
        "J",
        "Energy of all CPU packages of the machine over the measured phase, by RAPL.",
        lambda run: run.increase("cpu_energy"),
        better=LOWER,
    ),
    "dram_energy": Metric(
        "J",
        "Energy of the memory of the machine over the measured phase, by RAPL.",
        lambda run: run.increase("dram_energy"),
        better=LOWER,
    ),
    "cpu_energy_per_image": Metric(
        "J",
        "CPU energy of the measured phase / its examples.",
        per_examples("cpu_energy"),
        of=OF_EXAMPLES,
        better=LOWER,
        heading="CPU energy of an example",
    ),
    "other_cpu_utilization": Metric(
        "%",
        "CPU time of the machine's other programs, and what its hypervisor gave to others, over the"
        " measured phase / its time / logical cores of the machine x 100; of a run without one,"
        " over the whole run.",
        other_cpu_utilization,
        since=BEGUN,
        better=LOWER,
    ),
    "core_latency": Metric(
        "ns",
        "Round trip of a signal between neighbouring cores of the run, on average over them: the"
        " larger of those before and after the run.",
        core_latency,
        better=LOWER,
    ),
    "busy_threads": Metric(
        "threads",
        "Mean of the samples in the measured phase; a sample counts the threads that used at least"
        " 5 % of a core since the sample before it.",
        Mean("busy_threads", compared=False),
    ),
    "cpu_utilization_run": Metric(
        "%",
        "CPU time of the process tree from the first to the last sample of the run / the time"
        " between them / logical cores of the machine x 100.",
        cpu_utilization_run,
        since=ENDED,
        better=LOWER,
    ),
    "host_memory_run": Metric(
        "MiB",
        "Mean of all samples of the run, loading included.",
        run_mean("host_memory"),
        since=ENDED,
        better=LOWER,
    ),
    "gpu_utilization_run": Metric(
        "%",
        "Mean of all samples of the run, loading included.",
        run_mean("gpu_utilization"),
        since=ENDED,
    ),
    "gpu_memory_run": Metric(
        "MiB",
        "Mean of all samples of the run, loading included.",
        run_mean("gpu_memory"),
        since=ENDED,
        better=LOWER,
    ),
    "gpu_memory_per_gpu": Metric(
        "MiB",
        "Mean of all samples of the run, which are sums over GPUs, / its GPUs.",
        lambda run: per_gpu(run, "gpu_memory"),
        since=ENDED,
        better=LOWER,
    ),
    "gpu_power_per_gpu": Metric(
        "W",
        "Mean of all samples of the run, which are sums over GPUs, / its GPUs.",
        lambda run: per_gpu(run, "gpu_power"),
        since=ENDED,
        better=LOWER,
    ),
    "time_to_accuracy": Metric(
        "s",
        "Training time, evaluations left out, until the first evaluation that reaches the target"
        " accuracy.",
        lambda run: to_accuracy(run.run, run.evaluations, "seconds"),
        since=BEGUN,
        better=LOWER,
        speed=True,
        grows_with=SCALE,
        censored=True,
        heading="Time to accuracy",
    ),
    "epochs_to_accuracy": Metric(
        "epochs",
        "Epochs until that evaluation.",
        lambda run: to_accuracy(run.run, run.evaluations, "epoch"),
        since=BEGUN,
        better=LOWER,
        grows_with=SCALE,
        censored=True,
    ),
    "flop_rate": Metric(
        "GFLOP/s",
        "Floating-point operations of the measured phase / its time / 10^9: 2 for every"
        " multiply-accumulate of the network's forward pass and example. In training as many again"
        " for the gradient by a layer's weights, if they are trained, and by its inputs, if"
        " anything before it is. Only convolutions, matrix products and recurrences count.",
        flop_rate,
        better=HIGHER,
        certain=True,
        of=(*OF_A_NETWORK, OPERATION),
    ),
    "memory_rate": Metric(
        "GB/s",
        "Bytes that an operation must at least read and write in the measured phase / its time"
        " / 10^9.",
        memory_rate,
        better=HIGHER,
    ),
    "algorithm_bandwidth": Metric(
        "GB/s",
        "Of an all-reduce: bytes of a replica's array x calls of the measured phase / its time"
        " / 10^9.",
        algorithm_bandwidth,
        better=HIGHER,
    ),
    "bus_bandwidth": Metric(
        "GB/s",
        "Algorithm bandwidth x 2 (n - 1) / n of n replicas: what each of them must at least send,"
        " and receive (NCCL tests, doc/PERFORMANCE.md).",
        bus_bandwidth,
        better=HIGHER,
    ),
    "deviation": Metric(
        "1",
        "How far an operation's result is from that in double precision, relative to the largest;"
        " of inference, how far the outputs are from those that were kept with the weights.",
        deviation,
        better=LOWER,
    ),
    "model_load_time": Metric(
        "s",
        "Inference: reading the weights from their file and building the network with them.",
        lambda run: seconds_of(run, "build"),
        since=BEGUN,
        of=(INFERENCE,),
        better=LOWER,
        speed=True,
    ),
    **{
        f"latency_p{percent}": Metric(
            "ms",
            f"Inference: {words} of the latencies. {LATENCY}",
            partial(latency, percent=percent),
            since=BEGUN,
            of=(INFERENCE,),
            better=LOWER,
            speed=True,
            heading="" if percent == 95 else f"Latency, {words}",
        )
        for percent, words in PERCENTILES.items()
    },
    "total_inference_time": Metric(
        "s",
        "Inference: from the beginning of loading the model to the end of predicting the whole test"
        " set for the first time, the first prediction included.",
        lambda run: seconds_of(run, "build", "first_step", "evaluation"),
        since=BEGUN,
        of=(INFERENCE,),
        better=LOWER,
        speed=True,
        grows_with=SCALE,
    ),
}
SPEEDS = [name for name, metric in METRICS.items() if metric.speed and metric.better == HIGHER]
TIMES = [name for name, metric in METRICS.items() if metric.speed and metric.better == LOWER]
SPEED_OF: dict[Kind, str] = {
    TRAINING: "throughput", INFERENCE: "throughput", OPERATION: "step_rate",
    PROGRAM: "throughput",
}  # fmt: skip
"""The metric by which cells that do the same are compared, and that turns measure."""
HEADED = [name for name, metric in METRICS.items() if metric.heading]
"""The metrics that the chart offers beside the speed."""
CENSORED = [name for name, metric in METRICS.items() if metric.censored]
AVERAGED = [
    metric.compute.column
    for metric in METRICS.values()
    if isinstance(metric.compute, Mean) and metric.compute.compared
]
"""Columns of telemetry whose mean over the measured phase is what runs are compared by."""


def values_of(evidence: Evidence, status_reason: str) -> dict[str, MetricValue | Censored]:
    """Every metric of a run; what it did not reach says its status.

    Training that was complete counts even when the run failed later, in its evaluation.
    The peaks need an ok run: of a run that was stopped they are only lower bounds. A fault
    leaves nothing to be trusted: settings that differ from those asked for are one.
    """
    status, kind = evidence.run.outcome.status, kind_of(evidence.run.spec)
    reached = {BEGUN: status != ERROR, MEASURED: evidence.finished}
    reached[ENDED] = evidence.finished and status == OK

    def value(metric: Metric) -> MetricValue | Censored:
        if kind not in metric.of and evidence.finished:
            return NOT_OF.get(metric.of) or WITHOUT[kind]
        if kind not in metric.of or not reached[metric.since]:
            return status_reason
        computed = metric.compute(evidence)
        return status_reason if computed is None else computed

    return {name: value(metric) for name, metric in METRICS.items()}


def absent(name: str, reason: str) -> dict[str, Any]:
    """A metric without a value, as records have it."""
    return {"value": None, "unit": METRICS[name].unit, "reason": reason}


def directions(name: str) -> tuple[str, str]:
    """What a ratio of a metric above and below 1 is called."""
    metric = METRICS[name]
    if not metric.speed:
        return "higher", "lower"
    return ("faster", "slower") if metric.better == HIGHER else ("slower", "faster")


def unit_text(name: str) -> str:
    """The unit of a metric as a page has it: empty for none."""
    return METRICS[name].unit.removeprefix("1")


CAPITALS = {"cpu": "CPU", "dram": "DRAM", "gpu": "GPU", "pcie": "PCIe", "sm": "SM"}
"""Parts of names that prose does not write in small letters."""


def words(name: str) -> str:
    """The name of a metric or a factor as prose has it: `GPU memory` for `gpu_memory`."""
    return " ".join(CAPITALS.get(word, word) for word in name.split("_"))
