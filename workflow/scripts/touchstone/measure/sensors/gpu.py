"""The GPUs of the run, by NVML (module `pynvml` of the package nvidia-ml-py)."""

import os
from collections.abc import Callable
from typing import Any

from touchstone.measure.counter import Counter
from touchstone.measure.sensors import AMOUNT, BITS, COUNTER, GAUGE, PEAK, Column, Watched

COLUMNS = {
    "gpu_energy": Column("J", COUNTER),
    "gpu_power": Column("W", AMOUNT),
    "gpu_power_instant": Column("W", AMOUNT),
    "gpu_utilization": Column("%", GAUGE),
    "gpu_memory": Column("MiB", AMOUNT),
    "gpu_process_memory": Column("MiB", AMOUNT),
    "gpu_temperature": Column("°C", PEAK),
    "gpu_sm_clock": Column("MHz", GAUGE),
    "gpu_memory_clock": Column("MHz", GAUGE),
    "gpu_throttle_reasons": Column("1", BITS),
    "gpu_pcie_tx": Column("MB/s", AMOUNT),
    "gpu_pcie_rx": Column("MB/s", AMOUNT),
}

ENERGY_SIZE = 2**64
"""The energy counter is 64 bits wide, so that in practice it only falls when it is reset."""


def unavailable(watched: Watched) -> str | None:
    """The reason why there is no GPU to watch, or None."""
    if watched.device != "gpu":
        return "the cell trains on the CPU"
    try:
        import pynvml
    except ImportError:
        return "the package nvidia-ml-py is not installed beside Snakemake"
    try:
        pynvml.nvmlInit()
        return None if device(pynvml) else "no device is visible to the run"
    except pynvml.NVMLError as error:
        return f"NVML: {error}"


def device(nvml: Any) -> Any:
    """The handle of the first device that a run sees; None if there is none."""
    return next(iter(devices(nvml, 1)), None)


def devices(nvml: Any, count: int) -> list[Any]:
    """The handles of the first `count` devices that a run sees, or of all where they are fewer.

    The supervisor sets CUDA_DEVICE_ORDER, so that CUDA and NVML number alike.
    """
    there = nvml.nvmlDeviceGetCount()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(there))))
    handles = []
    for name in map(str.strip, visible.split(",")[:count]):
        if name.isdecimal() and int(name) < there:
            handles.append(nvml.nvmlDeviceGetHandleByIndex(int(name)))
        elif name.startswith(("GPU-", "MIG-")):
            handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
        else:
            break  # such as -1: CUDA does not look behind what it does not know
    return handles


class Sensor:
    """The readings of the run's devices; of several, one number of all."""

    def __init__(self, watched: Watched) -> None:
        import pynvml

        self.devices = [Device(pynvml, gpu, watched) for gpu in devices(pynvml, watched.devices)]
        self.missing: dict[str, str] = {}

    def sample(self) -> dict[str, float | None]:
        """One reading of each column; None where a device does not tell, or not any more."""
        samples = [gpu.sample() for gpu in self.devices]
        self.missing = {}
        for gpu in self.devices:
            self.missing |= gpu.missing
        if len(samples) == 1:
            return samples[0]
        return {
            name: column.together([sample[name] for sample in samples])
            for name, column in COLUMNS.items()
        }


class Device:
    """Every reading by itself: what this device does not tell leaves its reason in `missing`."""

    def __init__(self, nvml: Any, device: Any, watched: Watched) -> None:
        self.nvml = nvml
        self.watched = watched
        self.device = device
        self.energy = Counter(ENERGY_SIZE)
        self.missing: dict[str, str] = {}
        # Energy and power first: PCIe traffic takes NVML 20 ms for each direction.
        self.readings: dict[str, Callable[[], float | None]] = {
            # NVML gives millijoules and milliwatts.
            "gpu_energy": lambda: (
                self.energy.add(nvml.nvmlDeviceGetTotalEnergyConsumption(device)) / 1e3
            ),
            "gpu_power": self._power,
            "gpu_power_instant": lambda: self._field(nvml.NVML_FI_DEV_POWER_INSTANT) / 1e3,
            "gpu_utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu,
            "gpu_memory": lambda: self._memory().used / 2**20,
            "gpu_process_memory": self._process_memory,
            "gpu_temperature": lambda: nvml.nvmlDeviceGetTemperature(
                device, nvml.NVML_TEMPERATURE_GPU
            ),
            "gpu_sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM),
            "gpu_memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM),
            "gpu_throttle_reasons": self._throttle_reasons,
            # NVML gives kB/s, over the 20 ms before.
            "gpu_pcie_tx": lambda: (
                nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_TX_BYTES) / 1e3
            ),
            "gpu_pcie_rx": lambda: (
                nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_RX_BYTES) / 1e3
            ),
        }

    def sample(self) -> dict[str, float | None]:
        """One reading of each; None for what this device does not tell, or not any more."""
        values: dict[str, float | None] = {}
        for column, reading in self.readings.items():
            try:
                values[column] = reading()
                self.missing.pop(column, None)
            except (self.nvml.NVMLError, LookupError) as error:
                values[column] = None
                self.missing[column] = f"NVML: {error}"
        return values

    def _field(self, field: int) -> float:
        """A field's value, an unsigned integer; raises NVMLError."""
        (answer,) = self.nvml.nvmlDeviceGetFieldValues(self.device, [field])
        if answer.nvmlReturn != self.nvml.NVML_SUCCESS:
            raise self.nvml.NVMLError(answer.nvmlReturn)
        value: int = answer.value.uiVal
        return value

    def _power(self) -> float:
        """Mean power of the last second, W, as nvidia-smi gives it.

        GA100 and what came before Ampere have only the power at a moment, which
        nvmlDeviceGetPowerUsage gives there.
        """
        try:
            return self._field(self.nvml.NVML_FI_DEV_POWER_AVERAGE) / 1e3
        except (self.nvml.NVMLError_NotSupported, self.nvml.NVMLError_InvalidArgument):
            milliwatts: int = self.nvml.nvmlDeviceGetPowerUsage(self.device)
            return milliwatts / 1e3

    def _memory(self) -> Any:
        """Memory in use, without what the driver reserves for itself, as nvidia-smi gives it.

        Before driver 510 there is only the sum of both: 480 MiB more on an H100.
        """
        try:
            return self.nvml.nvmlDeviceGetMemoryInfo(self.device, self.nvml.nvmlMemory_v2)
        except self.nvml.NVMLError_FunctionNotFound:
            return self.nvml.nvmlDeviceGetMemoryInfo(self.device)

    def _process_memory(self) -> float:
        """Memory of the run's own processes, MiB; raises LookupError if the driver cannot tell."""
        listed = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.device)
        ours = [p.usedGpuMemory for p in listed if p.pid in self.watched.processes]
        if None in ours or (listed and not ours):
            raise LookupError(
                "it names none of the run's processes (in a container it numbers them otherwise)"
                " or not their memory"
            )
        return float(sum(ours)) / 2**20

    def _throttle_reasons(self) -> int:
        """The bits of what lowers the clocks now: nvmlClocksEventReason* in NVML."""
        try:
            reasons: int = self.nvml.nvmlDeviceGetCurrentClocksEventReasons(self.device)
        except self.nvml.NVMLError_FunctionNotFound:
            # The name before driver 535.
            reasons = self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.device)
        return reasons
