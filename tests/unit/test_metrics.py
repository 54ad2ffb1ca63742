"""The traits of metrics, and of the columns of telemetry, are these: none is changed in passing."""

import pytest

from touchstone.measure import sensors
from touchstone.measure.sensors import AMOUNT, BITS, COUNTER, GAUGE, PEAK
from touchstone.plan.setting import INFERENCE, OF_ALL, OPERATION, PROGRAM, TRAINING
from touchstone.results.metrics import (
    AVERAGED,
    BATCH,
    BEGUN,
    CENSORED,
    ENDED,
    HIGHER,
    METRICS,
    SCALE,
    SPEEDS,
    TIMES,
)


def having(test):
    return {name for name, metric in METRICS.items() if test(metric)}


def test_speeds_and_times_are_these():
    assert SPEEDS == ["throughput", "step_rate"]
    assert set(TIMES) == {
        "training_time", "total_training_time", "first_step_time", "step_time_p50",
        "step_time_p95", "step_time_p99", "time_to_accuracy", "model_load_time", "latency_p50",
        "latency_p95", "latency_p99", "total_inference_time", "program_time",
    }  # fmt: skip


def test_more_is_better_of_these():
    assert having(lambda metric: metric.better == HIGHER) == {
        "throughput", "step_rate", "token_rate", "test_accuracy", "training_accuracy", "mean_iou",
        "flop_rate", "memory_rate", "algorithm_bandwidth", "bus_bandwidth",
    }  # fmt: skip
    neither = having(lambda metric: metric.better is None)
    assert {"gpu_utilization", "gpu_sm_clock", "busy_threads", "disk_read_rate"} < neither
    assert len(neither) == 17


def test_kinds_of_runs_have_these():
    assert having(lambda metric: metric.of == (INFERENCE,)) == {
        "model_load_time", "latency_p50", "latency_p95", "latency_p99", "total_inference_time",
    }  # fmt: skip
    of_training = {"training_time", "total_training_time", "training_accuracy", "final_loss"}
    assert having(lambda metric: metric.of == (TRAINING,)) == of_training
    assert having(lambda metric: metric.of == (TRAINING, INFERENCE)) == {
        "test_accuracy", "token_rate", "perplexity", "mean_iou",
    }  # fmt: skip
    assert having(lambda metric: metric.of == (TRAINING, INFERENCE, PROGRAM)) == {
        "throughput", "cpu_time_per_1000_images", "gpu_energy_per_image", "cpu_energy_per_image",
    }  # fmt: skip
    assert having(lambda metric: metric.of == (TRAINING, INFERENCE, OPERATION)) == {"flop_rate"}
    assert having(lambda metric: metric.of == (PROGRAM,)) == {"program_time"}
    assert len(having(lambda metric: metric.of == OF_ALL)) == len(METRICS) - 5 - 4 - 8 - 2


def test_runs_have_them_from_here_on():
    assert having(lambda metric: metric.since == BEGUN) == {
        "first_step_time", "other_cpu_utilization", *CENSORED, "model_load_time", "latency_p50",
        "latency_p95", "latency_p99", "total_inference_time",
    }  # fmt: skip
    ended = having(lambda metric: metric.since == ENDED)
    assert ended == {name for name in METRICS if name.endswith(("_peak", "_run", "_per_gpu"))} | {
        "host_memory_high_water", "test_accuracy", "training_accuracy", "perplexity", "mean_iou",
        "program_time",
    }  # fmt: skip


def test_the_rest_of_the_traits():
    certain = having(lambda metric: metric.certain)
    assert certain == {"step_rate", "first_step_time", "flop_rate"}
    assert CENSORED == ["time_to_accuracy", "epochs_to_accuracy"]
    assert set(AVERAGED) == {
        "host_memory", "gpu_utilization", "gpu_memory", "gpu_power", "gpu_temperature",
        "gpu_sm_clock", "gpu_memory_clock", "gpu_pcie_tx", "gpu_pcie_rx",
    }  # fmt: skip
    assert having(lambda metric: metric.grows_with == BATCH) == {
        "step_time_p50", "step_time_p95", "step_time_p99",
    }  # fmt: skip
    assert having(lambda metric: metric.grows_with == SCALE) == {
        "training_time", "total_training_time", "test_accuracy", "training_accuracy", "final_loss",
        "total_inference_time", *CENSORED,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "names", "together"),
    [
        (
            COUNTER,
            {
                "context_switches", "involuntary_context_switches", "cpu_seconds",
                "machine_cpu_seconds", "disk_read", "disk_written", "gpu_energy",
                "network_received", "network_sent", "minor_page_faults", "major_page_faults",
                "cpu_energy", "dram_energy",
            },
            4.0,
        ),
        (
            AMOUNT,
            {
                "processes", "gpu_power", "gpu_power_instant", "gpu_memory", "gpu_process_memory",
                "gpu_pcie_tx", "gpu_pcie_rx", "host_memory", "host_memory_high_water",
                "busy_threads",
            },
            4.0,
        ),
        (GAUGE, {"gpu_utilization", "gpu_sm_clock", "gpu_memory_clock"}, 2.0),
        (PEAK, {"gpu_temperature"}, 3.0),
        (BITS, {"gpu_throttle_reasons"}, 3.0),
    ],
)  # fmt: skip
def test_columns_of_several_devices_or_nodes_are_put_together_by_their_kind(kind, names, together):
    columns = {name: column for name, column in sensors.columns().items() if column.kind == kind}
    assert set(columns) == names
    assert {column.together([1.0, 3.0]) for column in columns.values()} == {together}
    assert {column.together([1.0, None]) for column in columns.values()} == {None}
