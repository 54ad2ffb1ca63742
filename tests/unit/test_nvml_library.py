"""Sensors, supervisor and the answers without a GPU, on a library of NVML's that replays a trace:
all of nvidia-ml-py's own code runs, down to its calls of C."""

import ctypes
import os
import shutil
import subprocess
import sys

import pynvml
import pytest

from fixtures.nvml import PID, TRACE, ReplayedNvml, flat
from touchstone.files import write_atomic
from touchstone.measure import environment, skip
from touchstone.measure.sensors import Watched, gpu
from touchstone.paths import ROOT

SOURCE = ROOT / "tests/rehearsal/nvml.c"
BUSY = TRACE["samples"][8]
pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The compiled library, under the name by which nvidia-ml-py loads it."""
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    compiler = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, SOURCE, "-o", path], check=True)
    return path


@pytest.fixture
def show(library, tmp_path, monkeypatch):
    """Replaces what the devices show, a file's text each; nothing is no device."""
    folder = tmp_path / "nvml"
    folder.mkdir()
    monkeypatch.setenv("REPLAYED_NVML", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def replace(*texts):
        for path in folder.iterdir():
            path.unlink()
        for number, text in enumerate(texts):
            write_atomic(folder / str(number), text)

    return replace


def test_every_reading_is_that_of_the_replayed_python_interface(show, monkeypatch):
    """Both stand-ins of NVML give our sensor the same, at every sample of the trace."""
    watched = Watched(PID, "gpu", processes=[PID])
    replayed = ReplayedNvml(TRACE["samples"])
    show(flat(TRACE["samples"][0], pid=PID))
    assert gpu.unavailable(watched) is None
    sensor = gpu.Sensor(watched)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pynvml", replayed)
        expected = gpu.Sensor(watched)
    for replayed.at, sample in enumerate(TRACE["samples"]):
        show(flat(sample, pid=PID))
        assert sensor.sample() == expected.sample()
    assert sensor.missing == expected.missing == {}


def test_readings_that_a_device_does_not_support_or_lost(show):
    without = {key: value for key, value in BUSY.items() if key not in ("power_mw", "temperature")}
    show(flat(without, pid=PID))
    sensor = gpu.Sensor(Watched(PID, "gpu", processes=[PID]))
    read = sensor.sample()
    assert read["gpu_power"] == BUSY["power_average_mw"] / 1e3
    assert read["gpu_temperature"] is None
    lacking = ("gpu_power_instant", "gpu_temperature")
    assert sensor.missing == dict.fromkeys(lacking, "NVML: Not Supported")
    show(flat(BUSY, lost=1))
    assert set(sensor.sample().values()) == {None}
    assert set(sensor.missing.values()) == {"NVML: GPU is lost"}


@pytest.mark.parametrize(
    "devices, visible, replicas, reason",
    [
        (0, None, 1, "no NVIDIA GPU on this machine"),
        (2, None, 2, None),
        (2, "1", 1, None),
        (2, "GPU-1", 1, None),
        (2, "-1", 1, "no GPU that the run may see (CUDA_VISIBLE_DEVICES=-1)"),
        (2, "1", 2, "2 GPUs are asked for, the run may see 1"),
        (2, None, 3, "3 GPUs are asked for, the run may see 2"),
    ],
)
def test_the_devices_of_a_run(show, monkeypatch, devices, visible, replicas, reason):
    show(*(flat(BUSY, uuid=f"GPU-{i}", temperature=50 + i) for i in range(devices)))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert skip.no_device("gpu", replicas) == reason
    if reason is None:
        sensor = gpu.Sensor(Watched(PID, "gpu", devices=replicas))
        hottest = 51 if visible or replicas == 2 else 50
        assert sensor.sample()["gpu_temperature"] == hottest


def test_a_device_that_is_newer_than_a_frameworks_last_version(show):
    show(flat(BUSY))
    assert skip.no_device("gpu", newest=(9, 0)) is None
    why = "it computes on GPUs up to compute capability 8.6, and this one has 9.0"
    assert skip.outcome_without_running("gpu", "cell", 1, 1, newest=(8, 6)) == ("unsupported", why)


def test_the_facts_of_a_device(show):
    show(flat(BUSY))
    unknown = {}
    assert environment.gpus(unknown) == [
        {
            "name": "NVIDIA H100", "memory_mib": 80 * 1024, "driver": "580.65.06",
            "compute_capability": "9.0", "pcie_mb_per_s": 16 * 3938,
        }
    ]  # fmt: skip
    assert unknown == {}


def test_the_library_is_found_where_the_loader_looks(library, show, monkeypatch):
    """As a driver's is: by its name, in a fresh process."""
    show(flat(BUSY))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    program = "from touchstone.measure import skip; print(skip.no_device('gpu'))"
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "workflow/scripts")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "None\n"


def test_the_supervisor_watches_the_device_of_a_run(watch, show):
    """It sets CUDA's order of devices, and its telemetry has every column of the device."""
    show(flat(BUSY))
    run = watch(
        "say(order=os.environ['CUDA_DEVICE_ORDER']); import time; time.sleep(1);"
        "say(event='result', status='ok', reason=None)",
        device="gpu",
    )
    assert run.status == "ok", run.log
    assert run.events[0]["order"] == "PCI_BUS_ID"
    assert run.env["sensors"]["gpu"]["available"]
    assert run.env["machine"]["gpus"][0]["name"] == "NVIDIA H100"
    seen = [row for row in run.rows if row["gpu_power"] == row["gpu_power"]]
    assert len(seen) > 3
    for row in seen:
        assert row["gpu_power"] == BUSY["power_average_mw"] / 1e3
        assert row["gpu_memory"] == BUSY["memory_used"] / 2**20
