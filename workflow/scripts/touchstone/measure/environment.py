"""What the machine and the software of a run are.

A value that the system does not tell is None, and `Unknown` has the reason.
"""

import contextlib
import math
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import psutil

from touchstone.contents import Contents, Unreadable, contents
from touchstone.measure.processes import own_group

CPUS = Path("/sys/devices/system/cpu")
NODES = Path("/sys/devices/system/node")
DISKS = Path("/sys/block")
FIRMWARE = Path("/sys/class/dmi/id")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
CONTAINERS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
"""Files by which these tell a program that it is in a container."""

Unknown = dict[str, str]
"""Why a value of env.json is null, by its dotted name."""


def machine(unknown: Unknown) -> dict[str, Any]:
    """The hardware and the system."""
    values = {
        "hostname": platform.node(),
        "cpu_model": _after_colon("/proc/cpuinfo", "model name") or platform.processor() or None,
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "smt": {"0": False, "1": True}.get(_text(CPUS / "smt/active") or ""),
        "governor": _governor(),
        "turbo": _turbo(),
        "frequency_limits_mhz": _frequency_limits(),
        "microcode": _after_colon("/proc/cpuinfo", "microcode"),
        "huge_pages": _chosen(HUGE_PAGES / "enabled"),
        "reserved_huge_pages": _integer("/proc/sys/vm/nr_hugepages"),
        "swap_mib": psutil.swap_memory().total // 2**20,
        "numa_balancing": {"0": False, "1": True}.get(
            _text(Path("/proc/sys/kernel/numa_balancing")) or ""
        ),
        "numa_nodes_allowed": _after_colon("/proc/self/status", "Mems_allowed_list"),
        "container": _container(),
        "numa_nodes": len(list(NODES.glob("node[0-9]*"))) or None,
        "memory_mib": psutil.virtual_memory().total // 2**20,
        "cpu_quota_cores": _cpu_quota(),
        "memory_limit_mib": _memory_limit(),
        "kernel": platform.release(),
        "os": _value("/etc/os-release", "PRETTY_NAME"),
        "virtualization": _virtualization(),
        "board": _board(),
        "disks": _disks(),
    }
    reasons = {
        "cpu_model": "/proc/cpuinfo names no model",
        "physical_cores": "/proc/cpuinfo tells no cores",
        "smt": f"no {CPUS}/smt/active",
        "governor": f"no {CPUS}/cpu0/cpufreq/scaling_governor (usual in a virtual machine)",
        "turbo": f"neither {CPUS}/intel_pstate/no_turbo nor {CPUS}/cpufreq/boost",
        "frequency_limits_mhz": f"no {CPUS}/cpu0/cpufreq/scaling_max_freq (usual in a virtual"
        " machine)",
        "microcode": "/proc/cpuinfo names no revision",
        "huge_pages": f"no {HUGE_PAGES}/enabled",
        "reserved_huge_pages": "no /proc/sys/vm/nr_hugepages",
        "numa_balancing": "no /proc/sys/kernel/numa_balancing",
        "numa_nodes_allowed": "/proc/self/status has no Mems_allowed_list",
        "container": "no sign of one",
        "numa_nodes": f"no {NODES}",
        "cpu_quota_cores": "no control group sets one",
        "memory_limit_mib": "no control group sets one",
        "os": "/etc/os-release names none",
        "virtualization": "the CPU names no hypervisor",
        "board": f"no {FIRMWARE}/board_name (usual in a virtual machine)",
        "disks": f"{DISKS} has none",
    }
    unknown.update(
        {f"machine.{name}": why for name, why in reasons.items() if values[name] is None}
    )
    return {**values, "gpus": gpus(unknown)}


PCIE_LANE = {1: 250, 2: 500, 3: 985, 4: 1969, 5: 3938, 6: 7563}
"""MB/s that a lane of a PCIe generation carries each way, after its encoding (PCI-SIG)."""


def gpus(unknown: Unknown) -> list[dict[str, Any]]:
    """Name, memory (MiB), driver, generation and link to the host of every GPU of NVML's list."""
    try:
        import pynvml
    except ImportError:
        unknown["machine.gpus"] = "the package nvidia-ml-py is not installed beside Snakemake"
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
                **generation(pynvml, handle),
                **pcie_link(pynvml, handle),
            }
            for handle in handles
        ]
    except pynvml.NVMLError as error:
        unknown["machine.gpus"] = f"NVML: {error}"
        return []


def generation(nvml: Any, handle: Any) -> dict[str, str]:
    """`compute_capability`: the generation of a GPU, as `9.0`; nothing where NVML does not say."""
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        return {}
    return {"compute_capability": f"{major}.{minor}"}


def pcie_link(nvml: Any, handle: Any) -> dict[str, int]:
    """`pcie_mb_per_s`: what the GPU's link carries each way at best; nothing where NVML does not
    tell it or knows a newer generation than we do."""
    try:
        generation = nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
        lanes = nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    except nvml.NVMLError:
        return {}
    rate = PCIE_LANE.get(generation)
    return {"pcie_mb_per_s": rate * lanes} if rate else {}


def installed(python: str, unknown: Unknown) -> Contents | None:
    """What this Python sees; None if it does not say."""
    try:
        return contents(python)
    except Unreadable as fault:
        for name in ("packages", "environment.python", "environment.digest"):
            unknown[f"software.{name}"] = f"{python}: {fault}"
        return None


def git_commit(folder: Path, unknown: Unknown) -> str | None:
    """The commit of the code in `folder`, `-dirty` if it was changed since; None outside git."""
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        unknown["software.git_commit"] = "git is not installed"
        return None
    if not answer.stdout.strip():
        unknown["software.git_commit"] = "the code lies in no git repository"
    return answer.stdout.strip() or None


def cpu_temperature(unknown: Unknown) -> float | None:
    """The hottest sensor of the CPU, °C."""
    sensors = psutil.sensors_temperatures()
    # The kernel's drivers of Intel, AMD and ARM processors.
    for driver in ("coretemp", "k10temp", "zenpower", "cpu_thermal"):
        if driver in sensors:
            return max(sensor.current for sensor in sensors[driver])
    unknown["start.cpu_temperature"] = "no CPU sensor in /sys/class/hwmon"
    return None


def load() -> list[float]:
    """The load averages over 1, 5 and 15 minutes."""
    return list(os.getloadavg())


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _text(path: Path) -> str | None:
    return next(iter(_lines(path)), None)


def _after_colon(path: str, key: str) -> str | None:
    values = (line.split(":", 1)[1].strip() for line in _lines(path) if line.startswith(key))
    return next(values, None)


def _value(path: str, key: str) -> str | None:
    values = (line.split("=", 1)[1].strip('"') for line in _lines(path) if line.startswith(key))
    return next(values, None)


def _governor() -> str | None:
    """The frequency governors of the cores, each once."""
    governors = {_text(path) for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return ", ".join(sorted(filter(None, governors))) or None


def _frequency_limits() -> str | None:
    """Between which frequencies the cores may clock, MHz, each pair once: `400-2000, 400-3600`."""
    limits = set()
    for core in CPUS.glob("cpu[0-9]*/cpufreq"):
        low, high = (_integer(core / f"scaling_{edge}_freq") for edge in ("min", "max"))
        if low is not None and high is not None:
            limits.add((low // 1000, high // 1000))
    return ", ".join(f"{low}-{high}" for low, high in sorted(limits)) or None


def _chosen(path: Path) -> str | None:
    """The word in brackets: `madvise` of `always [madvise] never`."""
    match = re.search(r"\[(\w+)\]", _text(path) or "")
    return match[1] if match else None


def _integer(path: str | Path) -> int | None:
    text = (_text(Path(path)) or "").strip()
    return int(text) if text.isdecimal() else None


def _container() -> str | None:
    """What kind of container this process is in, if that says so."""
    if named := _text(Path("/run/systemd/container")):
        return named
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    return next((kind for path, kind in CONTAINERS.items() if Path(path).exists()), None)


def _turbo() -> bool | None:
    """Whether the CPU may clock above its base frequency."""
    if (off := _text(CPUS / "intel_pstate/no_turbo")) is not None:
        return off == "0"
    return {"0": False, "1": True}.get(_text(CPUS / "cpufreq/boost") or "")


def _groups(controller: str) -> list[Path]:
    """Our control group and those above it: of cgroup v2, and of a v1 controller."""
    tops = []
    with contextlib.suppress(OSError):
        tops.append(own_group())
    mounts = [line.split() for line in _lines("/proc/self/mountinfo") if " - cgroup " in line]
    for line in _lines("/proc/self/cgroup"):
        _, names, inside = line.split(":", 2)
        for mount in mounts:
            if controller in names.split(",") and controller in mount[-1].split(","):
                # A container may have its own group mounted as the top.
                tops += [Path(mount[4]) / inside.lstrip("/"), Path(mount[4])]
    return [group for top in tops for group in (top, *top.parents)]


def usable_cores() -> float:
    """How many cores' worth of CPU time this process may use."""
    return min(len(os.sched_getaffinity(0)), _cpu_quota() or math.inf)


def _cpu_quota() -> float | None:
    """The cores' worth of CPU time that control groups let us have, if they limit it."""
    quotas = []
    for group in _groups("cpu"):
        quota = (_text(group / "cpu.max") or "max").split()
        if quota[0] == "max":
            quota = [_text(group / f"cpu.cfs_{name}_us") or "-1" for name in ("quota", "period")]
        if int(quota[0]) > 0:
            quotas.append(int(quota[0]) / int(quota[1]))
    return min(quotas, default=None)


def _memory_limit() -> int | None:
    """The memory that control groups let us have, MiB, if it is less than the machine's."""
    limits = []
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _text(group / name)
            if text and text != "max":
                limits.append(int(text))
    # Version 1 says "none" by a number beyond any memory.
    limit = min(limits, default=psutil.virtual_memory().total)
    return limit // 2**20 if limit < psutil.virtual_memory().total else None


def _virtualization() -> str | None:
    """The hypervisor's name where the firmware tells it, `unknown` where only the CPU does."""
    flags = _after_colon("/proc/cpuinfo", "flags") or ""
    if "hypervisor" not in flags.split():
        return None
    return _text(FIRMWARE / "sys_vendor") or "unknown hypervisor"


def _board() -> str | None:
    """The maker and the name of the main board, where the firmware tells its name."""
    maker, name = (_text(FIRMWARE / f"board_{what}") for what in ("vendor", "name"))
    return f"{maker} {name}" if maker and name else name


def _disks() -> str | None:
    """Model, size and kind of each disk: what has a device, and no loop or memory behind it."""
    disks = []
    for disk in sorted(DISKS.glob("*/device")):
        size = _integer(disk.parent / "size") or 0  # in sectors of 512 bytes, whatever the disk's
        rotates = _text(disk.parent / "queue/rotational") or ""
        kind = {"0": "solid state", "1": "rotating"}.get(rotates)
        model = (_text(disk / "model") or disk.parent.name).strip()
        words = [model, f"{size * 512 / 1e9:.0f} GB", kind]
        if size:
            disks.append(", ".join(filter(None, words)))
    return "; ".join(disks) or None
