"""Outcomes that are known before a runner is started."""

import os
import re
from pathlib import Path

from touchstone.measure.sensors import gpu

SLURM_LOGS = Path("results/logs/slurm/rule_train")
"""Where profiles/slurm has the plugin keep the logs of jobs that failed."""
# slurmstepd and srun say so in every job's log, whatever Slurm keeps of its state.
OUT_OF_TIME = re.compile(r"slurmstepd\S*: error: \*\*\* (?:JOB|STEP) .* DUE TO TIME LIMIT .*")
OUT_OF_MEMORY = re.compile(
    r"slurmstepd\S*: error: .*\boom[-_ ]kill\b.*|srun: error: .* Out Of Memory", re.IGNORECASE
)


def outcome_without_running(
    device: str,
    cell: str,
    repeat: int,
    attempt: int,
    replicas: int = 1,
    newest: tuple[int, int] | None = None,
) -> tuple[str, str] | None:
    """The outcome and its reason, if there is no need to try; `newest` is that of `no_device`."""
    if (why := no_device(device, replicas, newest)) is not None:
        return "unsupported", why
    return slurm_ended(cell, repeat) if attempt > 1 else None


def no_device(device: str, replicas: int = 1, newest: tuple[int, int] | None = None) -> str | None:
    """Why nothing can train on so many of `device` here, as far as can be known without trying.

    It saves a machine without a GPU the environments for GPUs, which are gigabytes.

    Args:
        newest: the newest compute capability that the framework computes on; None: any.
    """
    if device != "gpu":
        return None
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        if not pynvml.nvmlDeviceGetCount():
            return "no NVIDIA GPU on this machine"
        devices = gpu.devices(pynvml, replicas)
        read = pynvml.nvmlDeviceGetCudaComputeCapability if newest else None
        capabilities = [tuple(read(device)) for device in devices] if read else []
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded) as error:
        return f"no NVIDIA driver on this machine (NVML: {error})"
    except pynvml.NVMLError:
        return None  # the framework may know more
    if not devices:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return f"no GPU that the run may see (CUDA_VISIBLE_DEVICES={visible})"
    if len(devices) < replicas:
        return f"{replicas} GPUs are asked for, the run may see {len(devices)}"
    if newest and (here := max(capabilities)) > newest:
        own, most = (".".join(map(str, capability)) for capability in (here, newest))
        return f"it computes on GPUs up to compute capability {most}, and this one has {own}"
    return None


def slurm_ended(cell: str, repeat: int) -> tuple[str, str] | None:
    """What ended the Slurm job that was to make this run before us, if that was one of its limits.

    Slurm counts such a job as failed, whatever it wrote, and so Snakemake removes its files. The
    next attempt, a job of its own, finds Slurm's word in the log of the last one; it would meet
    the same limit, so it records the outcome instead.
    """
    own = os.environ.get("SLURM_JOB_ID", "")
    if not own.isdecimal():
        return None
    logs = SLURM_LOGS / f"{cell}_{repeat}"
    jobs = [int(path.stem) for path in logs.glob("*.log") if path.stem.isdecimal()]
    last = max((job for job in jobs if job < int(own)), default=None)
    if last is None:
        return None
    text = (logs / f"{last}.log").read_text(encoding="utf-8", errors="replace")
    for pattern, status in ((OUT_OF_TIME, "timeout"), (OUT_OF_MEMORY, "oom")):
        if said := pattern.search(text):
            return status, f"Slurm ended job {last}: {said[0].strip()}"
    return None
