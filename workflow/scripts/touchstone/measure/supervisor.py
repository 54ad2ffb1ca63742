"""Run a runner: one at a time on a machine, watched, limited, its outcome typed.

A runner that says how it went, that exceeds a limit, or that the kernel kills for want of
memory has an outcome, which is a result. Anything else is a fault of the machine or of
our code: `Fault` is raised, so that the run may be tried again, or, at the last attempt, the
outcome is `error`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from touchstone import __version__
from touchstone.containers import is_launcher
from touchstone.contents import Contents
from touchstone.measure import (
    attempts,
    environment,
    order,
    processes,
    runner_output,
    sensors,
    variables,
)
from touchstone.measure.core_latency import core_latency
from touchstone.measure.disturbance import Disturbance
from touchstone.measure.launch import Fault, Runner, cores, start_runner, variables_of
from touchstone.measure.oom import OomKills
from touchstone.measure.progress import Progress, execution
from touchstone.measure.sampler import Sampler
from touchstone.measure.sensors import memory
from touchstone.measure.standstill import Standstill, is_stopped
from touchstone.schema import status
from touchstone.schema.events import Outcome
from touchstone.schema.spec import ProgramSpec, RunSpec
from touchstone.schema.variables import SAMPLE_NOW

MEMORY_INTERVAL = 0.1
"""Seconds between looks at the memory of a run that has a limit."""


class StoodStill(Fault):
    """A trial in which time passed without work: it has no outcome, and is to be tried again."""


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


def supervise(
    spec: RunSpec,
    command: list[str],
    folder: Path,
    log: Path,
    final: bool = False,
    trial: bool = False,
    other_nodes: OtherNodes | None = None,
    data: dict[str, Any] | None = None,
) -> str:
    """Run `command` for `spec`; leave events.jsonl, telemetry.csv and env.json in `folder`.

    `command` is to write `folder`/events.jsonl. Returns the status, which is also the last
    event's. A runner that ends without a result raises Fault, or, if this attempt is `final`,
    has the outcome `error`; so does a run in which time passed without work (`standstill.py`).
    Raises Fault where it cannot even be started. A `trial` is none of the study's runs: it has no
    place in their order, nor in the account of progress, and where time passed without work it
    raises StoodStill, final or not. Where a run has several nodes, `other_nodes` may end it too.
    `data` is what was verified of the record files, for env.json.
    """
    device = spec.execution.device
    used = cores(spec.execution.threads)
    run_variables = variables_of(spec, used)
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    unknown: environment.Unknown = {}
    run = _run(used, run_variables, is_launcher(command[0]))
    start = _start(spec, run["started"], unknown, trial)
    processes.become_reaper()
    others = frozenset(processes.children(os.getpid()))
    group, without = processes.make_group()
    kills = OomKills(group.path if group else None)
    sample_requests, request_sample = os.pipe()
    os.set_blocking(request_sample, False)
    runner_variables, descriptors = (
        {**run_variables, SAMPLE_NOW: str(request_sample)},
        [request_sample],
    )
    if other_nodes:
        runner_variables |= other_nodes.variables
        descriptors += other_nodes.descriptors
    latencies = [core_latency(used)]
    begin = time.monotonic()
    with open(log, "wb") as output:
        process = start_runner(command, used, runner_variables, output, descriptors, group)
    os.close(request_sample)
    progress = Progress(spec, events)
    devices = spec.execution.replicas
    watched = sensors.Watched(process.pid, device, group, others, devices=devices)
    try:
        telemetry = folder / "telemetry.csv"
        stops = partial(is_stopped, process.pid)
        with Standstill(watched.cpu_seconds, stops, len(used)) as standstill:
            sensor_facts, stopped = _watch(
                process,
                sample_requests,
                watched,
                spec,
                telemetry,
                log,
                progress,
                other_nodes,
                standstill,
            )
            lost = standstill.lost
    finally:
        os.close(sample_requests)
        # Whatever happens to this process, nothing of the run goes on after it.
        process.end()
        cpu_seconds, out_of_memory = _end(process, watched, kills)
    latencies.append(core_latency(used))
    is_program = isinstance(spec, ProgramSpec)
    run["core_latency"] = [latency for latency in latencies if latency is not None]
    code = process.returncode
    account = runner_output.account_of(events)
    result = account.result
    if other_nodes and not stopped and result and result.status == status.OK:
        stopped = other_nodes.ended()
    lines: list[str] = []
    reason: str | None
    if lost.too_long:
        how, reason = status.ERROR, str(lost)
    elif stopped:
        how, reason, lines = stopped
    elif result:
        how, reason = result.status, result.reason
        lines = runner_output.log_tail(log) if how == status.ERROR else []
    elif out_of_memory:
        how, reason = status.OOM, "the kernel killed it: the host ran out of memory"
    else:
        lines = runner_output.log_tail(log)
        how, reason = status.ERROR, account.fault or _fault(code)
        if is_program and code == 0:
            reason = "the script ended its process itself, with os._exit or the like"
    runner_output.shorten_log(log)
    stood_still = trial and lost.too_long
    # A program that fails is a result: another try would fail too.
    if how == status.ERROR and not stood_still and (not is_program or lost.too_long):
        if not final:
            where = f"; its log {log} ends:" if lines else ""
            raise Fault("\n".join([f"{reason}{where}", *lines]))
        attempts.note(folder, str(reason))
    reason = reason and runner_output.shortened(reason)
    tail = lines if how == status.ERROR else None
    outcome = Outcome(how, reason, code, begin, time.monotonic(), cpu_seconds, tail)
    runner_output.close(events, account, outcome)
    if without:
        unknown["run.control_group"] = without
    software = _software(spec, environment.installed(command[0], unknown))
    _describe(folder, software, data, run, start, sensor_facts, unknown)
    if not trial:
        progress.finish(how)
    elif stood_still:
        raise StoodStill(str(lost))
    return how


def close_without_running(spec: RunSpec, folder: Path, log: Path, how: str, reason: str) -> None:
    """Leave the files of a run whose outcome is known without a runner."""
    used = cores(spec.execution.threads)
    own = variables_of(spec, used)
    why = "no runner was started"
    start = {"execution": execution(), "block": spec.repeat, "position": None,
             "idle_seconds": None, "cpu_temperature": None}  # fmt: skip
    unknown = {f"start.{name}": why for name, value in start.items() if value is None}
    for name in ("packages", "environment.python", "environment.digest"):
        unknown[f"software.{name}"] = why
    log.write_text(f"{reason}\n", encoding="utf-8")
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    now = time.monotonic()
    tail = runner_output.log_tail(log) if how == status.ERROR else None
    outcome = Outcome(how, runner_output.shortened(reason), None, now, now, None, tail)
    runner_output.close(events, runner_output.account_of(events), outcome)
    (folder / "telemetry.csv").write_text("t\n")
    _describe(folder, _software(spec, None), None, _run(used, own), start, {}, unknown)
    Progress(spec, events).finish(how)


def _software(spec: RunSpec, contents: Contents | None) -> dict[str, Any]:
    """What `software` in env.json says of the environment of a run."""
    return {
        "packages": contents and contents.packages,
        "environment": {
            "name": spec.factors.environment,
            "python": contents and contents.version,
            "digest": contents and contents.digest,
            **({"image": contents.image} if contents and contents.image else {}),
        },
    }


def _run(used: list[int], own: dict[str, str], in_container: bool = False) -> dict[str, Any]:
    """What `run` in env.json says of a run that begins now."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "threads": len(used),
        "affinity": used,
        "environment": {**variables.recorded(os.environ, in_container), **own},
        "dropped": variables.dropped(os.environ, in_container),
        "load_before": environment.load(),
        "core_latency": [],
    }


def _describe(
    folder: Path,
    software: dict[str, Any],
    data: dict[str, Any] | None,
    run: dict[str, Any],
    start: dict[str, Any],
    sensor_facts: dict[str, Any],
    unknown: environment.Unknown,
) -> None:
    """Write env.json."""
    if data is None:
        unknown["data"] = "no record files were read"
    (folder / "env.json").write_text(
        json.dumps(
            {
                "format": 1,
                "machine": environment.machine(unknown),
                "software": {
                    "touchstone": __version__,
                    "git_commit": environment.git_commit(Path(__file__).parent, unknown),
                    **software,
                },
                "data": data,
                "run": run,
                "start": start,
                "sensors": sensor_facts,
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
    if (began := execution()) is None:
        unknown["start.execution"] = "the run was made by no execution of the workflow"
    return {
        "execution": began,
        "block": spec.repeat,
        "position": None if trial else order.enter(spec, started),
        "idle_seconds": idle,
        "cpu_temperature": environment.cpu_temperature(unknown),
    }


def _end(process: Runner, watched: sensors.Watched, kills: OomKills) -> tuple[float, bool]:
    """Reap the runner and end what it left behind.

    Returns the CPU time of all of them, s, and whether the kernel ended it for want of memory.
    """
    _, ended, usage = os.wait4(process.pid, 0)
    process.returncode = process.exit_code(ended)
    order.ended()
    watched.end()
    out_of_memory = kills.ended(process.returncode)
    if watched.group is None:
        total = usage.ru_utime + usage.ru_stime + watched.reaped.cpu_seconds
        return total, out_of_memory
    total = watched.group.cpu_seconds()
    watched.group.remove()
    return total, out_of_memory


def _watch(
    process: Runner,
    sample_requests: int,
    watched: sensors.Watched,
    spec: RunSpec,
    telemetry: Path,
    log: Path,
    progress: Progress,
    other_nodes: OtherNodes | None,
    standstill: Standstill,
) -> tuple[dict[str, Any], Ending | None]:
    """Sample until the process ends or is to be stopped.

    A sample is taken every interval, and whenever a byte comes through the pipe `sample_requests`:
    the runner sends one at the edges of the measured phase. Returns what is known of every
    sensor, and the outcome if it is to be stopped, or was by `other_nodes`; at a standstill none.
    """
    seconds, mib = spec.limits.seconds, spec.limits.memory_mib
    interval = spec.sampling_interval
    disturbance = Disturbance(spec.limits, watched)
    due = time.monotonic()
    deadline = due + seconds
    stopped: Ending | None = None
    ended = os.pidfd_open(process.pid)
    heard = (
        [ended, sample_requests]
        if other_nodes is None
        else [ended, sample_requests, other_nodes.fileno()]
    )
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
                    if why := runner_output.too_much(log, progress.events):
                        tail = runner_output.log_tail(log)
                        return sampler.finish(), Ending(status.ERROR, why, tail)
                while (now := time.monotonic()) < due:
                    wait = max(min(due, deadline) - now, 0)
                    if mib is not None:
                        wait = min(wait, MEMORY_INTERVAL)
                    ready = select.select(heard, [], [], wait)[0]
                    # Before all else: a limit may have passed meanwhile.
                    if standstill.lost.too_long or ended in ready:
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
                    if sample_requests in ready:
                        if os.read(sample_requests, 64):
                            break
                        heard.remove(sample_requests)  # the runner has closed its end
    finally:
        os.close(ended)


def _memory(watched: sensors.Watched, limit: float) -> float:
    """Host memory of the run's processes, MiB, exact where it exceeds `limit`."""
    watched.refresh()
    return memory.Sensor(watched).used(limit)


def _fault(code: int) -> str:
    """Why the runner failed, as far as its exit tells."""
    names = {kind.value: kind.name for kind in signal.Signals}
    how = f"signal {names.get(-code, -code)}" if code < 0 else f"exit status {code}"
    return f"the runner ended with {how} and no result"
