"""The GPU of the run, by NVML (module `pynvml` of the package nvidia-ml-py)."""

import os
from collections.abc import Callable
from typing import Any

from measure.counter import Counter
from measure.sensors import Watched

COLUMNS = {
    "gpu_energy": "J",
    "gpu_power": "W",
    "gpu_power_average": "W",
    "gpu_utilization": "%",
    "gpu_memory": "MiB",
    "gpu_process_memory": "MiB",
    "gpu_temperature": "°C",
    "gpu_sm_clock": "MHz",
    "gpu_memory_clock": "MHz",
    "gpu_throttle_reasons": "1",
    "gpu_pcie_tx": "MB/s",
    "gpu_pcie_rx": "MB/s",
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
    """The handle of the device that a run uses, the first visible one; None if there is none.

    The supervisor sets CUDA_DEVICE_ORDER, so that CUDA and NVML number alike.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if visible.isdecimal():
        if int(visible) >= nvml.nvmlDeviceGetCount():
            return None
        return nvml.nvmlDeviceGetHandleByIndex(int(visible))
    # An empty list or -1 hides every device; anything else is a UUID.
    return nvml.nvmlDeviceGetHandleByUUID(visible) if visible.startswith(("GPU-", "MIG-")) else None


class Sensor:
    """Every reading by itself: what this device does not tell leaves its reason in `missing`."""

    def __init__(self, watched: Watched) -> None:
        import pynvml

        self.nvml = pynvml
        self.watched = watched
        self.device = device(pynvml)
        self.energy = Counter(ENERGY_SIZE)
        self.missing: dict[str, str] = {}
        nvml, one = pynvml, self.device
        # Energy and power first: PCIe traffic takes NVML 20 ms for each direction.
        self.readings: dict[str, Callable[[], float | None]] = {
            # NVML gives millijoules and milliwatts.
            "gpu_energy": lambda: (
                self.energy.add(nvml.nvmlDeviceGetTotalEnergyConsumption(one)) / 1e3
            ),
            "gpu_power": self._power,
            "gpu_power_average": lambda: self._field(nvml.NVML_FI_DEV_POWER_AVERAGE) / 1e3,
            "gpu_utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(one).gpu,
            "gpu_memory": lambda: nvml.nvmlDeviceGetMemoryInfo(one).used / 2**20,
            "gpu_process_memory": self._process_memory,
            "gpu_temperature": lambda: nvml.nvmlDeviceGetTemperature(
                one, nvml.NVML_TEMPERATURE_GPU
            ),
            "gpu_sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(one, nvml.NVML_CLOCK_SM),
            "gpu_memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(one, nvml.NVML_CLOCK_MEM),
            "gpu_throttle_reasons": self._throttle_reasons,
            # NVML gives kB/s, over the 20 ms before.
            "gpu_pcie_tx": lambda: (
                nvml.nvmlDeviceGetPcieThroughput(one, nvml.NVML_PCIE_UTIL_TX_BYTES) / 1e3
            ),
            "gpu_pcie_rx": lambda: (
                nvml.nvmlDeviceGetPcieThroughput(one, nvml.NVML_PCIE_UTIL_RX_BYTES) / 1e3
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
        """Power at this moment, W.

        Drivers that do not know the field have only nvmlDeviceGetPowerUsage, which is the
        mean over the last second on Ampere (but for GA100) and later, and instant before.
        """
        try:
            return self._field(self.nvml.NVML_FI_DEV_POWER_INSTANT) / 1e3
        except (self.nvml.NVMLError_NotSupported, self.nvml.NVMLError_InvalidArgument):
            milliwatts: int = self.nvml.nvmlDeviceGetPowerUsage(self.device)
            return milliwatts / 1e3

    def _process_memory(self) -> float:
        """Memory of the run's own processes, MiB; raises LookupError if the driver cannot tell."""
        listed = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.device)
        ours = [one.usedGpuMemory for one in listed if one.pid in self.watched.processes]
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
