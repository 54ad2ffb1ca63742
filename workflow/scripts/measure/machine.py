"""What the machine and the software of a run are."""

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

VERSION = "0.1.0"
"""Of Touchstone."""


def machine() -> dict[str, Any]:
    """The hardware and the system; a value that the system does not tell is None."""
    return {
        "hostname": platform.node(),
        "cpu_model": _after_colon("/proc/cpuinfo", "model name") or platform.processor() or None,
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "kernel": platform.release(),
        "os": _value("/etc/os-release", "PRETTY_NAME"),
        "virtualization": _virtualization(),
        "gpus": gpus(),
    }


def gpus() -> list[dict[str, Any]]:
    """Name, memory (MiB) and driver of every GPU that NVML lists."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [
            {
                "name": pynvml.nvmlDeviceGetName(handle),
                "memory_mib": pynvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20,
                "driver": driver,
            }
            for handle in handles
        ]
    except pynvml.NVMLError:
        return []


def packages(python: str) -> list[str]:
    """`name==version` of every package that this Python sees, sorted."""
    code = (
        "import json, importlib.metadata as m;"
        "print(json.dumps(sorted({d.metadata['Name'] + '==' + d.version"
        " for d in m.distributions()})))"
    )
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    listed: list[str] = json.loads(answer.stdout)
    return listed


def git_commit(folder: Path) -> str | None:
    """The commit of the code in `folder`, `-dirty` if it was changed since; None outside git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return answer.stdout.strip() or None


def kernel_oom_kills() -> int | None:
    """How often the kernel killed a process for want of memory since boot."""
    found = [line.split() for line in _lines("/proc/vmstat") if line.startswith("oom_kill ")]
    return int(found[0][1]) if found else None


def load() -> list[float]:
    """The load averages over 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _after_colon(path: str, key: str) -> str | None:
    found = (line.split(":", 1)[1].strip() for line in _lines(path) if line.startswith(key))
    return next(found, None)


def _value(path: str, key: str) -> str | None:
    found = (line.split("=", 1)[1].strip('"') for line in _lines(path) if line.startswith(key))
    return next(found, None)


def _virtualization() -> str | None:
    """The hypervisor's name where the firmware tells it, `unknown` where only the CPU does."""
    flags = _after_colon("/proc/cpuinfo", "flags") or ""
    if "hypervisor" not in flags.split():
        return None
    return next(iter(_lines("/sys/class/dmi/id/sys_vendor")), "unknown hypervisor")
