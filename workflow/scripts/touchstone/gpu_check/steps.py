"""What the kit checks of a device beside the runs of its study; each step answers with numbers."""

import json
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from touchstone.errors import TouchstoneError
from touchstone.measure.sensors import Watched, cpu, gpu

PROBE = Path(__file__).with_name("probe.py")
SMI = ("utilization.gpu", "memory.used", "power.draw", "clocks.sm", "clocks.mem", "temperature.gpu")
"""What nvidia-smi is asked for beside our own sensor."""
FACTS = (
    *("name", "driver_version", "memory.total", "power.limit", "clocks.max.sm", "clocks.max.mem"),
    *("pcie.link.gen.max", "persistence_mode", "mig.mode.current", "ecc.mode.current"),
)
SIZE = {"gpu": 8192, "cpu": 512}
"""Of the matrices whose products are the known load."""
LOAD_SECONDS = {"gpu": 10.0, "cpu": 2.0}
SAMPLING_INTERVAL = 0.1


class Kit(NamedTuple):
    """What is checked: a device, in an interpreter that has PyTorch."""

    device: str
    python: str


class StepFailed(TouchstoneError, RuntimeError):
    """A step could not be done; the message says why."""


def facts(kit: Kit) -> dict[str, Any]:
    """The machine, the driver and the framework."""
    answer = {"platform": platform.platform(), "framework": probe(kit, "facts", 120, {})}
    if kit.device == "gpu":
        answer["nvidia_smi"] = dict(zip(FACTS, _nvidia_smi(FACTS), strict=True))
    return answer


def rounding(kit: Kit) -> dict[str, Any]:
    """How far single-precision products are from double precision, with TF32 off and on."""
    return probe(kit, "rounding", 120, {"size": SIZE[kit.device] // 2})


def sensors(kit: Kit) -> dict[str, Any]:
    """Our sensor beside another source, while a load of known size runs.

    On a GPU the other source is nvidia-smi, and the energy counter is set against the integral of
    power. On a CPU it is the CPU time that the load knows of itself.
    """
    return _under_load(kit, LOAD_SECONDS[kit.device])


def soak(kit: Kit, seconds: float) -> dict[str, Any]:
    """The same for so long: clocks, temperature and throttle reasons by tenths of the time."""
    return _under_load(kit, seconds)


def full(kit: Kit, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` answers while another process holds 98 % of the device's memory."""
    command = _probe_command(kit, "fill", {"share": 0.98})
    pipes = subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipes, stdout=pipes, stderr=pipes, text=True)
    try:
        assert holder.stdout
        if begun := holder.stdout.readline():
            return {"held": json.loads(begun), **work()}
        raise StepFailed(f"fill: {last_line(holder.communicate()[1])}")
    finally:
        holder.kill()
        holder.communicate()


def probe(kit: Kit, name: str, limit: float, options: dict[str, Any]) -> dict[str, Any]:
    """Run a function of `probe.py`. Raises StepFailed."""
    command = _probe_command(kit, name, options)
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise StepFailed(f"{name}: no answer within {limit:,.0f} s") from None
    if ended.returncode:
        raise StepFailed(f"{name}: exit status {ended.returncode}: {last_line(ended.stderr)}")
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def last_line(text: str) -> str:
    """The last line of what a program that failed said."""
    return (text.strip().splitlines() or ["no message"])[-1]


def _probe_command(kit: Kit, name: str, options: dict[str, Any]) -> list[str]:
    return [kit.python, str(PROBE), name, json.dumps({"device": kit.device, **options})]


def _nvidia_smi(fields: Sequence[str]) -> list[str]:
    """A reading of the first device. Raises StepFailed."""
    if not shutil.which("nvidia-smi"):
        raise StepFailed("nvidia-smi is not installed")
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ended.returncode:
        raise StepFailed(f"nvidia-smi: {ended.stdout.strip() or ended.stderr.strip()}")
    return [value.strip() for value in ended.stdout.splitlines()[0].split(",")]


def _under_load(kit: Kit, seconds: float) -> dict[str, Any]:
    """Samples of both sources between the load's first product and its end."""
    options = {"size": SIZE[kit.device], "seconds": seconds}
    load = subprocess.Popen(
        _probe_command(kit, "load", options), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert load.stdout
        begun = load.stdout.readline()
        rows = _samples(kit, load) if begun else []
        output, errors = load.communicate(timeout=seconds + 60)
    finally:
        load.kill()
        load.wait()
    if load.returncode or not output:
        raise StepFailed(f"load: {last_line(errors)}")
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    # The end of the process is no load.
    return {"load": answer, **_summary(kit, [row for row in rows if row["t"] <= answer["end"]])}


def _samples(kit: Kit, load: subprocess.Popen[str]) -> list[dict[str, Any]]:
    watched = Watched(load.pid, kit.device)
    sensor = (gpu if kit.device == "gpu" else cpu).Sensor(watched)
    rows = []
    next_smi = time.monotonic()
    while load.poll() is None:
        watched.refresh()
        row: dict[str, Any] = {"t": time.monotonic(), **sensor.sample()}
        if kit.device == "gpu" and row["t"] >= next_smi:
            row["nvidia_smi"] = dict(zip(SMI, _nvidia_smi(SMI), strict=True))
            next_smi = row["t"] + 1.0
        rows.append(row)
        time.sleep(SAMPLING_INTERVAL)
    return rows


def _summary(kit: Kit, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of all columns; by tenths of the time; energy by counter and by power."""
    columns = [name for name in rows[0] if name not in ("t", "nvidia_smi")] if rows else []
    summary: dict[str, Any] = {"samples": len(rows), "ours": _medians(rows, columns)}
    tenth = max(len(rows) // 10, 1)
    summary["by_tenths"] = [
        _medians(rows[i : i + tenth], columns) for i in range(0, tenth * 10, tenth) if rows[i:]
    ]
    smi = [row["nvidia_smi"] for row in rows if "nvidia_smi" in row]
    summary["nvidia_smi"] = _medians(smi, SMI if smi else ())
    readings = [row for row in rows if row.get("gpu_energy") is not None]
    if len(readings) > 1:
        summary["joules_counted"] = readings[-1]["gpu_energy"] - readings[0]["gpu_energy"]
        summary["joules_from_power"] = sum(
            (b["t"] - a["t"]) * (a["gpu_power"] + b["gpu_power"]) / 2
            for a, b in zip(readings, readings[1:], strict=False)
            if a["gpu_power"] is not None and b["gpu_power"] is not None
        )
    if kit.device == "cpu" and rows:
        summary["cpu_seconds"] = rows[-1]["cpu_seconds"] - rows[0]["cpu_seconds"]
    return summary


def _medians(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> dict[str, float | None]:
    medians: dict[str, float | None] = {}
    for name in columns:
        values = [value for row in rows if (value := _number(row.get(name))) is not None]
        medians[name] = median(values) if values else None
    return medians


def _number(value: Any) -> float | None:
    """A number; None where nvidia-smi writes [N/A]."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


STEPS: dict[str, Callable[[Kit], dict[str, Any]]] = {
    "facts": facts,
    "rounding": rounding,
    "sensors": sensors,
}
"""The steps before the runs, in their order."""
