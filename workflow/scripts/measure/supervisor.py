"""Run a runner: one at a time on a machine, watched, limited, its outcome typed.

A runner that says how it went, that exceeds a limit, or that the kernel kills for want of
memory has an outcome, which is a result. Anything else is a fault of the machine or of
our code: `Fault` is raised, and the job fails and may be tried again.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from measure import machine, sensors
from measure.progress import Progress

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip
MEMORY_INTERVAL = 0.1
"""Seconds between looks at the memory of a run that has a limit."""
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal a process gets when its parent dies."""


class Fault(RuntimeError):
    """A run ended in a way that says nothing about what was measured."""


@contextlib.contextmanager
def machine_to_itself() -> Iterator[None]:
    """Hold this machine's lock, so that no two measured runs of a user ever overlap."""
    path = Path(tempfile.gettempdir()) / f"touchstone-{os.getuid()}.lock"
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another measured run ({path})", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cores(threads: int | None) -> list[int]:
    """The cores of a run: the first `threads` of those this process may use, or all.

    Raises Fault if there are fewer.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if threads and threads > len(allowed):
        raise Fault(
            f"threads: {threads} are asked for, this machine lets us use {len(allowed)}; ask "
            "for fewer in the configuration"
        )
    return allowed[:threads]


def thread_variables(threads: int, wait_policy: str) -> dict[str, str]:
    """The environment variables that set threads alike for every framework's libraries."""
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**variables, "OMP_WAIT_POLICY": wait_policy.upper()}


def supervise(spec: dict[str, Any], command: list[str], folder: Path, log: Path) -> str:
    """Run `command` for `spec`; leave events.jsonl and telemetry.csv in `folder`.

    `command` is to write `folder`/events.jsonl. Returns the status, which is also the last
    event. Raises Fault.
    """
    used = cores(spec["execution"]["threads"])
    variables = thread_variables(len(used), spec["execution"]["wait_policy"])
    kills = machine.kernel_oom_kills()
    events = folder / "events.jsonl"
    run = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "threads": len(used),
        "affinity": used,
        "environment": variables,
        "load_before": machine.load(),
    }
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    clean.update(variables, PYTHONNOUSERSITE="1", TOUCHSTONE_SAMPLE_NOW=str(ask))
    begin = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=clean,
            pass_fds=[ask],
            start_new_session=True,
            preexec_fn=lambda: _prepare(used),
        )
    os.close(ask)
    progress = Progress(spec, events)
    watched = sensors.Watched(psutil.Process(process.pid), spec["execution"]["device"])
    try:
        known, stopped = _watch(process, asked, watched, spec, folder / "telemetry.csv", progress)
    finally:
        os.close(asked)
        # Whatever happens to this process, nothing of the run goes on behind it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _, ended, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
    code = process.returncode
    said = _result(events)
    if stopped:
        status, reason = stopped
    elif said:
        status, reason = said["status"], said["reason"]
    elif code == -signal.SIGKILL and kills is not None and machine.kernel_oom_kills() != kills:
        status, reason = "oom", "the kernel killed it: the host ran out of memory"
    else:
        raise Fault(_fault(code, log))
    _close(events, status=status, reason=reason, exit_code=code, begin=begin,
           end=time.monotonic(), cpu_seconds=usage.ru_utime + usage.ru_stime)  # fmt: skip
    (folder / "env.json").write_text(
        json.dumps(
            {
                "format": 1,
                "machine": machine.machine(),
                "software": {
                    "touchstone": machine.VERSION,
                    "git_commit": machine.git_commit(Path(__file__).parent),
                    "packages": machine.packages(command[0]),
                },
                "run": run,
                "sensors": known,
            },
            indent=1,
        )
    )
    progress.finish(status)
    return status


def _prepare(used: list[int]) -> None:
    """In the new process: keep to the cores, and die with the supervisor."""
    os.sched_setaffinity(0, used)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(
    process: subprocess.Popen[bytes],
    asked: int,
    watched: sensors.Watched,
    spec: dict[str, Any],
    telemetry: Path,
    progress: Progress,
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Sample until the process ends or is to be stopped.

    A sample is taken every interval, and whenever a byte comes through the pipe `asked`:
    the runner sends one at the edges of the measured phase. Returns what is known of every
    sensor, and the outcome and reason if it is to be stopped.
    """
    known, readings = {}, []
    for name, module in sensors.modules().items():
        reason = module.unavailable(watched)
        known[name] = {"available": reason is None, "reason": reason, "columns": module.COLUMNS}
        if reason is None:
            readings.append((module.Sensor(watched), module.COLUMNS))
    columns = ["t", *(column for _, named in readings for column in named)]
    seconds, mib = spec["limits"]["seconds"], spec["limits"]["memory_mib"]
    interval = spec["sampling_interval"]
    due = time.monotonic()
    deadline = due + seconds
    ended = os.pidfd_open(process.pid)
    try:
        with open(telemetry, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(columns)
            while True:
                watched.refresh()
                row: dict[str, float | None] = {"t": time.monotonic()}
                for reading, _ in readings:
                    row.update(reading.sample())
                table.writerow(["" if row[c] is None else row[c] for c in columns])
                file.flush()
                progress.update()
                if (late := time.monotonic() - due) >= 0:
                    # A tick that was missed is left out; the time stamps show the gap.
                    due += interval * (1 + late // interval)
                while (now := time.monotonic()) < due:
                    wait = max(min(due, deadline) - now, 0)
                    if mib is not None:
                        wait = min(wait, MEMORY_INTERVAL)
                    ready = select.select([ended, asked], [], [], wait)[0]
                    if ended in ready:
                        return known, None
                    if time.monotonic() >= deadline:
                        return known, ("timeout", f"it ran longer than the limit of {seconds:g} s")
                    if mib is not None and (used := _memory_mib(watched)) > mib:
                        reason = f"host memory of {used:.0f} MiB exceeds the limit of {mib:g} MiB"
                        return known, ("oom", reason)
                    if asked in ready and os.read(asked, 64):
                        break
    finally:
        os.close(ended)


def _memory_mib(watched: sensors.Watched) -> float:
    """Resident memory of the tree in MiB, shared pages counted once in proportion."""
    watched.refresh()
    sensor = sensors.modules()["memory"].Sensor(watched)
    return sensor.sample()["host_memory"] or 0.0


def _result(events: Path) -> dict[str, Any] | None:
    """The runner's own word, if it came to say it."""
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    last = json.loads(lines[-1]) if lines and lines[-1].endswith("}") else {}
    return last if last.get("event") == "result" else None


def _close(events: Path, **outcome: Any) -> None:
    """Cut what a killed runner left half-written, and add the outcome."""
    text = events.read_text(encoding="utf-8") if events.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    with open(events, "w", encoding="utf-8") as file:
        file.write(whole + json.dumps({"event": "outcome", **outcome}) + "\n")


def _fault(code: int, log: Path) -> str:
    """Why the runner failed: its exit, and the tail of what it said."""
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
    return "\n".join([f"the runner ended with {how} and no result; its log {log} ends:", *tail])
