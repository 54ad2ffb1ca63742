"""The devices of this machine, which a study asks for as `available`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AVAILABLE = "available"
FOLDER = Path("/dev")
"""Where the NVIDIA driver has a file for each GPU, and Windows' one for all."""


def available() -> list[str]:
    """`cpu`, and `gpu` where the driver has one. Nothing is loaded to find out."""
    has_gpu = any(FOLDER.glob("nvidia[0-9]*")) or (FOLDER / "dxg").exists()
    return ["cpu", "gpu"] if has_gpu else ["cpu"]


def with_devices(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the devices of this machine in place of `available`, in its sweeps."""
    sweeps = config.get("sweeps")
    if not isinstance(sweeps, list):
        return config  # reported as a fault of the study
    return {**config, "sweeps": [_with_devices(sweep) for sweep in sweeps]}


def _with_devices(sweep: Any) -> Any:
    named = isinstance(sweep, dict) and sweep.get("device") == AVAILABLE
    return {**sweep, "device": available()} if named else sweep
