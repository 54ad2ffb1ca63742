"""The GPU of the run, by NVML (module `pynvml` of the package nvidia-ml-py)."""

import os
from collections.abc import Callable
from typing import Any

from measure.sensors import Watched

COLUMNS = {"gpu_utilization": "%", "gpu_memory": "MiB", "gpu_power": "W", "gpu_energy": "J"}


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
    except pynvml.NVMLError as error:
        return f"NVML: {error}"
    return None if devices(pynvml) else "NVML lists no device"


def devices(nvml: Any) -> list[Any]:
    """The handle of the device that a run uses: the first visible one."""
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if visible and not visible[0].isdigit():
        return [nvml.nvmlDeviceGetHandleByUUID(visible[0])]
    if not nvml.nvmlDeviceGetCount():
        return []
    return [nvml.nvmlDeviceGetHandleByIndex(int(visible[0]) if visible else 0)]


class Sensor:
    """Utilisation (time with a kernel running), memory, power, and the energy counter."""

    def __init__(self, watched: Watched) -> None:
        import pynvml

        self.nvml = pynvml
        self.device = devices(pynvml)[0]

    def sample(self) -> dict[str, float | None]:
        """One reading of each; None for what this device does not tell."""
        nvml, device = self.nvml, self.device
        return {
            "gpu_utilization": self._read(lambda: nvml.nvmlDeviceGetUtilizationRates(device).gpu),
            "gpu_memory": self._read(lambda: nvml.nvmlDeviceGetMemoryInfo(device).used / 2**20),
            # NVML gives milliwatts and millijoules.
            "gpu_power": self._read(lambda: nvml.nvmlDeviceGetPowerUsage(device) / 1e3),
            "gpu_energy": self._read(
                lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3
            ),
        }

    def _read(self, reading: Callable[[], float]) -> float | None:
        try:
            return reading()
        except self.nvml.NVMLError:
            return None
