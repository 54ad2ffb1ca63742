"""Run a runner: one at a time on a machine, watched, limited, its outcome typed.

A runner that says how it went, that exceeds a limit, or that the kernel kills for want of
memory has an outcome, which is a result. Anything else is a fault of the machine or of
our code: `Fault` is raised, so that the run may be tried again, or, at the last attempt, the
outcome is `error`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from touchstone import __version__
from touchstone.measure import attempts, environment, order, processes, sensors
from touchstone.measure.disturbance import Disturbance
from touchstone.measure.progress import Progress
from touchstone.measure.sampler import Sampler
from touchstone.measure.sensors import memory
from touchstone.schema import status
from touchstone.schema.events import Outcome, Result, event_to_line, events_of
from touchstone.schema.spec import RunSpec
from touchstone.schema.variables import SAMPLE_NOW

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
REMOVED = (
    "PYTHONPATH", "PYTHONHOME",
    "GOTO_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
"""Variables that no run has: those that bring other packages than the pinned ones, and those that
Snakemake sets by a job's threads, which are not the run's."""
MEMORY_INTERVAL = 0.1
"""Seconds between looks at the memory of a run that has a limit."""
LOG_TAIL = 20
"""Lines of the log's end that tell of a fault."""
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""How a runner ends that the kernel kills, and how a shell around it says so."""
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal a process gets when its parent dies."""


class Fault(RuntimeError):
    """A run ended in a way that says nothing about what was measured."""


class Ending(NamedTuple):
    """How a run ended: status, reason, and of an `error` the end of its log."""

    status: str
    reason: str | None
    log_tail: list[str]


class OtherNodes(Protocol):
    """What the supervisor of a node knows of the other ones (`nodes.py`).

    `leads` on the first node; `variables` and `descriptors` are for the runner.
    """

    leads: bool
    variables: dict[str, str]
    descriptors: list[int]

    def fileno(self) -> int: ...

    def news(self) -> Ending | None: ...

    def ended(self) -> Ending | None: ...


@contextlib.contextmanager
def machine_to_itself() -> Iterator[None]:
    """Hold this machine's lock, so that no two measured runs of a user ever overlap."""
    # A folder for temporary files may be one of several nodes.
    path = Path(tempfile.gettempdir()) / f"touchstone-{os.getuid()}-{platform.node()}.lock"
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
    """The environment variables that set threads alike for every framework's libraries.

    How idle threads wait is each framework's own matter, unless the study asks for a policy.
    """
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
    if wait_policy != "default":
        variables["OMP_WAIT_POLICY"] = wait_policy.upper()
    return variables


def supervise(
    spec: RunSpec,
    command: list[str],
    folder: Path,
    log: Path,
    final: bool = False,
    trial: bool = False,
    other_nodes: OtherNodes | None = None,
) -> str:
    """Run `command` for `spec`; leave events.jsonl, telemetry.csv and env.json in `folder`.

    `command` is to write `folder`/events.jsonl. Returns the status, which is also the last
    event's. A runner that ends without a result raises Fault, or, if this attempt is `final`,
    has the outcome `error`. Raises Fault where it cannot even be started. A `trial` is none of
    the study's runs: it has no place in their order, nor in the account of progress. Where a
    run has several nodes, `other_nodes` may end it too.
    """
    device = spec.execution.device
    used = cores(spec.execution.threads)
    variables = thread_variables(len(used), spec.execution.wait_policy)
    if device == "gpu":
        # CUDA's own order is by speed: NVML would watch another device than the run's.
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    kills = environment.kernel_oom_kills()
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    unknown: environment.Unknown = {}
    run = _run(used, variables)
    start = _start(spec, run["started"], unknown, trial)
    processes.become_reaper()
    others = frozenset(processes.children(os.getpid()))
    group, without = processes.make_group()
    clean = {k: v for k, v in os.environ.items() if k not in REMOVED}
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    clean.update(variables, PYTHONNOUSERSITE="1", **{SAMPLE_NOW: str(ask)})
    descriptors = [ask]
    if other_nodes:
        clean.update(other_nodes.variables)
        descriptors += other_nodes.descriptors
    begin = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=clean,
            pass_fds=descriptors,
            start_new_session=True,
            preexec_fn=lambda: _prepare(used, group),
        )
    os.close(ask)
    progress = Progress(spec, events)
    devices = spec.execution.replicas
    watched = sensors.Watched(process.pid, device, group, others, devices=devices)
    try:
        telemetry = folder / "telemetry.csv"
        known, stopped = _watch(process, asked, watched, spec, telemetry, progress, other_nodes)
    finally:
        os.close(asked)
        # Whatever happens to this process, nothing of the run goes on behind it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        cpu_seconds = _end(process, watched)
    code = process.returncode
    said = _result(events)
    if other_nodes and not stopped and said and said.status == status.OK:
        stopped = other_nodes.ended()
    lines: list[str] = []
    if stopped:
        how, reason, lines = stopped
    elif said:
        how, reason = said.status, said.reason
    elif code in KILLED and kills is not None and environment.kernel_oom_kills() != kills:
        how, reason = status.OOM, "the kernel killed it: the host ran out of memory"
    else:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]
        how, reason = status.ERROR, _fault(code)
    tail = None
    if how == status.ERROR:
        if not final:
            raise Fault("\n".join([f"{reason}; its log {log} ends:", *lines]))
        tail = lines
        attempts.note(folder, str(reason))
    _close(events, Outcome(how, reason, code, begin, time.monotonic(), cpu_seconds, tail))
    if without:
        unknown["run.control_group"] = without
    _describe(folder, environment.packages(command[0]), run, start, known, unknown)
    if not trial:
        progress.finish(how)
    return how


def close_without_running(spec: RunSpec, folder: Path, log: Path, how: str, reason: str) -> None:
    """Leave the files of a run whose outcome is known without a runner."""
    used = cores(spec.execution.threads)
    variables = thread_variables(len(used), spec.execution.wait_policy)
    why = "no runner was started"
    start = {"block": spec.repeat, "position": None, "idle_seconds": None,
             "cpu_temperature": None}  # fmt: skip
    unknown = {f"start.{name}": why for name, value in start.items() if value is None}
    unknown["software.packages"] = why
    log.write_text(f"{reason}\n", encoding="utf-8")
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    now = time.monotonic()
    _close(events, Outcome(how, reason, None, now, now, None))
    (folder / "telemetry.csv").write_text("t\n")
    _describe(folder, None, _run(used, variables), start, {}, unknown)
    Progress(spec, events).finish(how)


def _run(used: list[int], variables: dict[str, str]) -> dict[str, Any]:
    """What `run` in env.json says of a run that begins now."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "threads": len(used),
        "affinity": used,
        "environment": variables,
        "load_before": environment.load(),
    }


def _describe(
    folder: Path,
    packages: list[str] | None,
    run: dict[str, Any],
    start: dict[str, Any],
    known: dict[str, Any],
    unknown: environment.Unknown,
) -> None:
    """Write env.json."""
    (folder / "env.json").write_text(
        json.dumps(
            {
                "format": 1,
                "machine": environment.machine(unknown),
                "software": {
                    "touchstone": __version__,
                    "git_commit": environment.git_commit(Path(__file__).parent, unknown),
                    "packages": packages,
                },
                "run": run,
                "start": start,
                "sensors": known,
                "unknown": unknown,
            },
            indent=1,
        )
    )


def _start(
    spec: RunSpec, started: str, unknown: environment.Unknown, trial: bool
) -> dict[str, Any]:
    """The run's place in the order of execution, and the state that the machine starts it in."""
    if trial:
        unknown["start.position"] = "no run of the study: a trial, or the part of another node"
    idle, why = order.idle_seconds()
    if why:
        unknown["start.idle_seconds"] = why
    return {
        "block": spec.repeat,
        "position": None if trial else order.enter(spec, started),
        "idle_seconds": idle,
        "cpu_temperature": environment.cpu_temperature(unknown),
    }


def _prepare(used: list[int], group: processes.ControlGroup | None) -> None:
    """In the new process: keep to the cores and the group, and die with the supervisor."""
    if group:
        group.enter()
    os.sched_setaffinity(0, used)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], watched: sensors.Watched) -> float:
    """Reap the runner and end what it left behind; returns the CPU time of all of them, s."""
    _, ended, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(ended)
    order.ended()
    watched.end()
    if watched.group is None:
        return usage.ru_utime + usage.ru_stime + watched.reaped.cpu_seconds
    total = watched.group.cpu_seconds()
    watched.group.remove()
    return total


def _watch(
    process: subprocess.Popen[bytes],
    asked: int,
    watched: sensors.Watched,
    spec: RunSpec,
    telemetry: Path,
    progress: Progress,
    other_nodes: OtherNodes | None,
) -> tuple[dict[str, Any], Ending | None]:
    """Sample until the process ends or is to be stopped.

    A sample is taken every interval, and whenever a byte comes through the pipe `asked`:
    the runner sends one at the edges of the measured phase. Returns what is known of every
    sensor, and the outcome if it is to be stopped, or was by `other_nodes`.
    """
    seconds, mib = spec.limits.seconds, spec.limits.memory_mib
    interval = spec.sampling_interval
    disturbance = Disturbance(spec.limits, watched)
    due = time.monotonic()
    deadline = due + seconds
    stopped: Ending | None = None
    ended = os.pidfd_open(process.pid)
    heard = [ended, asked] if other_nodes is None else [ended, asked, other_nodes.fileno()]
    try:
        with open(telemetry, "w", newline="") as file:
            sampler = Sampler(watched, file)
            while True:
                sampler.sample()
                if other_nodes is None or other_nodes.leads:
                    progress.update()
                if (late := time.monotonic() - due) >= 0:
                    # A tick that was missed is left out; the time stamps show the gap.
                    due += interval * (1 + late // interval)
                while (now := time.monotonic()) < due:
                    wait = max(min(due, deadline) - now, 0)
                    if mib is not None:
                        wait = min(wait, MEMORY_INTERVAL)
                    ready = select.select(heard, [], [], wait)[0]
                    if ended in ready:
                        return sampler.finish(), None
                    if time.monotonic() >= deadline:
                        reason = f"it ran longer than the limit of {seconds:g} s"
                        stopped = Ending(status.TIMEOUT, reason, [])
                    elif mib is not None and (used := _memory(watched, mib)) > mib:
                        reason = f"host memory of {used:.0f} MiB exceeds the limit of {mib:g} MiB"
                        stopped = Ending(status.OOM, reason, [])
                    elif why := disturbance.reason(progress.first_step):
                        stopped = Ending(status.TIMEOUT, why, [])
                        attempts.note(telemetry.parent, why)
                    elif other_nodes and other_nodes.fileno() in ready:
                        stopped = other_nodes.news()
                    if stopped:
                        return sampler.finish(), stopped
                    if asked in ready and os.read(asked, 64):
                        break
    finally:
        os.close(ended)


def _memory(watched: sensors.Watched, limit: float) -> float:
    """Host memory of the run's processes, MiB, exact where it exceeds `limit`."""
    watched.refresh()
    return memory.Sensor(watched).used(limit)


def _result(events: Path) -> Result | None:
    """The runner's own account, if it came to give it."""
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    if not lines or not lines[-1].endswith("}"):
        return None
    return next(iter(events_of(lines[-1], Result)), None)


def _close(events: Path, outcome: Outcome) -> None:
    """Cut what a killed runner left half-written, and add the outcome."""
    text = events.read_text(encoding="utf-8") if events.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    with open(events, "w", encoding="utf-8") as file:
        file.write(whole + event_to_line(outcome))


def _fault(code: int) -> str:
    """Why the runner failed, as far as its exit tells."""
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"the runner ended with {how} and no result"
