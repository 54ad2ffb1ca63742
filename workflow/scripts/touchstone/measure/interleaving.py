"""Measure cells in turn: their processes live at the same time, and exactly one of them works.

Abedi and Brecht (2017, "Conducting repeatable experiments in highly variable cloud computing
environments", ICPE) interleave trials in random order; Bulej et al. (2020, "Duet benchmarking",
ICPE) run what is compared at the same time. Here the slices of a round follow one another, so that
what slows down the machine for longer than a round slows down all cells. A slice in which other
programs used the cores, or the hypervisor had moved the cores apart, is set aside and repeated,
whatever its speed is (docs/measuring.md). So is one in which time passed without work
(`standstill.py`), until there is one without.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import NamedTuple

import psutil

from touchstone.measure import core_latency, progress, runner_output
from touchstone.measure.launch import cores, start_runner, variables_of
from touchstone.measure.oom import OomKills
from touchstone.measure.processes import account
from touchstone.measure.sensors.cpu import core_seconds
from touchstone.measure.standstill import Lost, Standstill, is_stopped
from touchstone.schema import status
from touchstone.schema.interleaved import (
    QUIET,
    MeasuredSet,
    Round,
    Slice,
    SliceReport,
    Turns,
    Waiting,
    cores_apart,
    least_latency,
)
from touchstone.schema.spec import RunSpec
from touchstone.schema.values import WrongValue, from_json

BUILD_SECONDS = 600.0
"""That a process may take to import its framework and build its work, and for its first steps."""
EXTRA_SECONDS = 60.0
"""Seconds that a slice may take beyond twenty times its length."""
END_SECONDS = 120.0
"""That a process may take to prove its settings and end."""
WARM_UP_SLICES = 2
"""Slices before the first round, of which the first also finds the size of chunks."""
REST = 0.25
"""Seconds after a slice, until the threads of its framework have stopped spinning."""
LEAST_ROUNDS = 3
MOST_ROUNDS = 2
"""Rounds of a set at most, as a multiple of those that it is to have."""
FREE_SHARE = 0.9
"""Of the available memory that the processes of a set may need together."""
MOST_TIME = 10
"""How long a set repeats slices, as a multiple of the time that its rounds take without."""


class Failed(RuntimeError):
    """A cell cannot be measured in turn: `cell` is its name, `status` how it ended, and `reason`
    why. The text has both."""

    def __init__(self, cell: str, reason: str, how: str = status.ERROR) -> None:
        super().__init__(reason if how == status.ERROR else f"{how}: {reason}")
        self.cell, self.status, self.reason = cell, how, reason


class FailedBeside(Failed):
    """A cell that works by itself failed while others lived beside it."""


class Candidate(NamedTuple):
    """A cell that takes part.

    spec: of its work; `memory` is the host memory that it needs, MiB
    command: of its runner, without the pipes; it writes `events`
    """

    cell: str
    spec: RunSpec
    command: list[str]
    events: Path
    log: Path
    memory: float


class Timing(NamedTuple):
    """How a set is measured: quiet rounds, and seconds of slices, of the work before each, and of
    the rounds of a set at most; whether slices are repeated until the cores are near; quiet rounds
    with which a set ends after that time; how long a slice lasts, s, whose own begin does not
    count beside the rest, so that no work precedes it."""

    rounds: int
    slice_seconds: float
    lead_seconds: float
    max_seconds: float
    near: bool = True
    least_rounds: int = LEAST_ROUNDS
    long_seconds: float = inf


class Process:
    """The process of a candidate: it works when asked, and waits else."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate, self.name = candidate, candidate.cell
        spec = candidate.spec
        self.used = cores(spec.execution.threads)
        self.kills = OomKills(None)
        candidate.events.unlink(missing_ok=True)
        heard, self.commands = os.pipe()
        self.answers, answer = os.pipe()
        command = [*candidate.command, str(heard), str(answer)]
        own = variables_of(spec, self.used)
        with open(candidate.log, "wb") as log:
            self.process = start_runner(command, self.used, own, log, [heard, answer])
        os.close(heard)
        os.close(answer)
        self.ended = os.pidfd_open(self.process.pid)
        self.rest = b""
        self.last: SliceReport | None = None
        self.answering = False  # while it is to answer, nobody stops it but others
        self.standstill: Standstill | None = None
        self.waited = self.waiting_cpu = 0.0
        self.waiting_faults = 0

    def wait_until_built(self) -> None:
        """Wait until it has built its work. Raises Failed."""
        self._line(BUILD_SECONDS)

    def work(self, seconds: float, patience: float = EXTRA_SECONDS) -> SliceReport:
        """Have it work for about so long. Raises Failed."""
        try:
            os.write(self.commands, f"{seconds!r}\n".encode())
        except BrokenPipeError:
            raise self._failed() from None
        line = self._line(20 * seconds + patience)
        try:
            answer = from_json(SliceReport, json.loads(line))
        except (ValueError, WrongValue) as fault:
            raise Failed(self.name, f"its runner answered {line[:80]!r}: {fault}") from None
        if self.last:
            self.waited += answer.arrived - self.last.end
            self.waiting_cpu += answer.cpu_before - self.last.cpu_after
            self.waiting_faults += answer.faults_before - self.last.faults_after
        self.last = answer
        return answer

    def warm_up(self, timing: Timing) -> None:
        """Have it do its first steps, and slices that do not count. Raises Failed."""
        for _ in range(WARM_UP_SLICES):
            self.work(timing.slice_seconds, BUILD_SECONDS)
            if self.lasts(timing.long_seconds):
                return

    def lasts(self, seconds: float) -> bool:
        """Whether its last slice took so long."""
        return self.last is not None and self.last.end - self.last.begin >= seconds

    def memory(self) -> float:
        """Host memory that it and its children have now, MiB; 0 where they are not seen."""
        sizes = []
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.process.pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    sizes.append(process.memory_info().rss)
        return sum(sizes) / 2**20

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep its threads from the cores, on which they may spin after a slice."""
        if self.process.in_container:  # its threads may be in another session
            time.sleep(REST)
            yield
            return
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def finish(self) -> None:
        """Let it prove its settings and end. Raises Failed where it does not end well."""
        os.close(self.commands)
        self.commands = -1
        if not select.select([self.ended], [], [], END_SECONDS)[0]:
            raise Failed(self.name, f"its process did not end within {END_SECONDS:g} s")
        account = runner_output.account_of(self.candidate.events)
        if self.process.wait() or account.result is None or account.result.status != status.OK:
            raise self._failed()

    def kill(self) -> None:
        """End it, in whatever state it is."""
        self.process.end()
        self.process.wait()
        for descriptor in (self.commands, self.answers, self.ended):
            if descriptor >= 0:
                os.close(descriptor)

    @property
    def lost(self) -> Lost:
        """Time in which nothing could work, since its process was started."""
        return self.standstill.lost if self.standstill else Lost()

    @property
    def is_stopped(self) -> bool:
        """Whether somebody has stopped it while it is to work."""
        return self.answering and is_stopped(self.process.pid)

    def cpu_seconds(self) -> float:
        """CPU time of its process so far."""
        usage = account(self.process.pid)
        return usage.cpu_seconds if usage else 0.0

    def _line(self, seconds: float) -> str:
        """The next line of its answers."""
        self.answering = True
        try:
            return self._answer(seconds)
        finally:
            self.answering = False

    def _answer(self, seconds: float) -> str:
        begin, before = time.monotonic(), self.lost
        while b"\n" not in self.rest:
            left = max(begin + seconds - time.monotonic(), 0)
            if not select.select([self.answers], [], [], left)[0]:
                lost = self.lost.since(before).stood
                if time.monotonic() < begin + seconds + lost:
                    begin, before = begin + lost, self.lost
                    continue
                reason = f"its process did not answer within {seconds:,.0f} s"
                raise Failed(self.name, reason, status.TIMEOUT)
            new = os.read(self.answers, 65536)
            if not new:
                raise self._failed()
            self.rest += new
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace")

    def _failed(self) -> Failed:
        """Why it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        result = runner_output.account_of(self.candidate.events).result
        if result and result.status != status.OK:
            return Failed(self.name, str(result.reason), result.status)
        if self.kills.ended(self.process.returncode or 0):
            reason = "the kernel killed it: the host ran out of memory"
            return Failed(self.name, reason, status.OOM)
        tail = runner_output.log_tail(self.candidate.log)
        reason = f"its process ended with exit status {self.process.returncode}"
        return Failed(self.name, "; ".join([reason, *tail[-1:]]))


def groups_that_fit(
    candidates: Sequence[Candidate], memory: float
) -> tuple[list[list[Candidate]], dict[str, str]]:
    """Who takes turns with whom: all, or pairs with the first where they need too much `memory`.

    Also, by cell, why it takes turns with nobody.

    Args:
        candidates: two or more.
        memory: of the host that is available, MiB.
    """
    if sum(candidate.memory for candidate in candidates) <= memory:
        return [list(candidates)], {}
    first, *others = candidates
    pairs = [[first, other] for other in others if first.memory + other.memory <= memory]
    left = {
        other.cell: f"{first.memory + other.memory:,.0f} MiB for it and {first.cell} are more than"
        f" the {memory:,.0f} MiB of memory that are free"
        for other in others
        if first.memory + other.memory > memory
    }
    return pairs, left


def measure_set(
    number: int,
    groups: Sequence[Sequence[Candidate]],
    timing: Timing,
    seed: int,
    least: float = inf,
) -> MeasuredSet:
    """Measure a set, in which each candidate of each group has a fresh process. Raises Failed.

    `least` is the least core latency of the sets before, ns.
    """
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    begin = time.monotonic()
    turns: list[Turns] = []
    waiting: dict[str, Waiting] = {}
    for place, group in enumerate(groups):
        with _processes(group, timing) as processes:
            turns.append(_turns(processes, timing, f"{seed} {number} {place}", least))
            waiting |= _waiting(processes)
            for process in processes:
                process.finish()
    return MeasuredSet(number, started, time.monotonic() - begin, turns, waiting)


def measure_unknown(
    number: int,
    candidates: Sequence[Candidate],
    timing: Timing,
    seed: int,
    least: float = inf,
) -> tuple[MeasuredSet, list[Failed]]:
    """Measure a set of candidates that may fail, and whose memory is not known.

    The first one is warm before the others start, and each of them is taken to need the host
    memory that it has then. Where they do not fit beside it together, only the next one takes
    turns with it. One that fails is left out.

    Returns:
        the set, and those that failed.

    Raises:
        Failed: the first one failed, before the others started.
        FailedBeside: the first one failed while others lived.
    """
    started, begin = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    failed: list[Failed] = []
    with _processes(candidates[:1], timing) as [first]:
        others, excluded = _beside(first, candidates)
        failed += [Failed(cell, why, status.OOM) for cell, why in excluded.items()]
        with _processes(others, timing, failed) as processes:
            turns = _turns_of_survivors(
                first, processes, timing, f"{seed} {number} 0", least, failed
            )
            waiting = _waiting([first, *processes])
            for process in processes:
                _succeeds(process.finish, failed)
        first.finish()
    return MeasuredSet(number, started, time.monotonic() - begin, [turns], waiting), failed


def _beside(
    first: Process, candidates: Sequence[Candidate]
) -> tuple[Sequence[Candidate], dict[str, str]]:
    """Who takes turns with the first candidate, which is warm, and who cannot, and why."""
    if len(candidates) < 2:
        return [], {}
    memory = first.memory()
    taken = [candidate._replace(memory=memory) for candidate in candidates]
    groups, excluded = groups_that_fit(taken, FREE_SHARE * available_mib() + memory)
    return groups[0][1:] if groups else [], excluded


def _turns_of_survivors(
    first: Process,
    others: list[Process],
    timing: Timing,
    seed: str,
    least: float,
    failed: list[Failed],
) -> Turns:
    """The turns of the `first` and the `others`, which lose those that fail.

    Raises FailedBeside where the first one fails.
    """
    while True:
        try:
            return _turns([first, *others], timing, seed, least)
        except Failed as fault:
            if fault.cell == first.name:
                raise FailedBeside(fault.cell, fault.reason, fault.status) from None
            failed.append(fault)
            others[:] = [process for process in others if process.name != fault.cell]


def _succeeds(step: Callable[[], None], failed: list[Failed] | None) -> bool:
    """Whether a step of a process does not fail; a failure is added to `failed`.

    Raises Failed where there is no such list.
    """
    try:
        step()
    except Failed as fault:
        if failed is None:
            raise
        failed.append(fault)
        return False
    return True


def _waiting(processes: Iterable[Process]) -> dict[str, Waiting]:
    """What processes did while others had their turn."""
    return {
        p.name: Waiting(p.waiting_cpu / max(p.waited, 1e-9), p.waiting_faults) for p in processes
    }


@contextlib.contextmanager
def _processes(
    group: Sequence[Candidate], timing: Timing, failed: list[Failed] | None = None
) -> Iterator[list[Process]]:
    """The processes of some candidates, which build their work at the same time, and then warm up.

    Those that fail are added to `failed` and left out; without it Failed is raised.
    """
    processes: list[Process] = []
    try:
        for candidate in group:
            processes.append(Process(candidate))
        with Standstill(
            lambda: sum(p.cpu_seconds() for p in processes),
            lambda: any(p.is_stopped for p in processes),
            max((len(p.used) for p in processes), default=1),
        ) as standstill:
            for process in processes:
                process.standstill = standstill
            built = [p for p in processes if _succeeds(p.wait_until_built, failed)]
            yield [p for p in built if _succeeds(partial(p.warm_up, timing), failed)]
    finally:
        for process in processes:
            process.kill()


def _turns(processes: Sequence[Process], timing: Timing, seed: str, least: float) -> Turns:
    """Rounds until so many are quiet, with near cores, as `timing` says; at most `MOST_ROUNDS`
    times as many. After its `max_seconds` they end with `least_rounds` quiet ones, or with
    `MOST_ROUNDS` times so many."""
    used = sorted({core for process in processes for core in process.used})
    on_cores = any(process.candidate.spec.execution.device == "cpu" for process in processes)
    turns = Turns([process.name for process in processes], [], [])
    usual = timing.rounds * len(processes) * (timing.lead_seconds + timing.slice_seconds)
    least = least if timing.near else inf
    begin = time.monotonic()
    end = begin + timing.max_seconds
    until = min(begin + MOST_TIME * usual, end)
    with core_latency.reader(used if on_cores else []) as read:
        while True:
            turn = list(processes)
            random.Random(f"{seed} {len(turns.rounds)}").shuffle(turn)
            slices = list[Slice]()
            for process in turn:
                *again, last = _attempts(process, timing, used, read, least, until)
                turns.set_aside.extend(again)
                slices.append(last)
                if timing.near:
                    least = min(least, least_latency([*again, last]))
            turns.rounds.append(Round(slices))
            enough = sum(r.quiet and r.near(least) for r in turns.rounds) >= timing.rounds
            late = time.monotonic() >= end
            few = late and sum(r.quiet for r in turns.rounds) >= timing.least_rounds
            most = MOST_ROUNDS * (timing.least_rounds if late else timing.rounds)
            if enough or few or len(turns.rounds) >= most:
                return turns


def _attempts(
    process: Process,
    timing: Timing,
    used: Collection[int],
    read: core_latency.Read | None,
    least: float,
    until: float,
) -> Iterator[Slice]:
    """Slices until one is quiet, with near cores, or the time for more has passed; the last one is
    whole."""
    while True:
        lost_before = process.lost
        before = _lead(process, timing, read, least, until)
        part = _slice(process, timing, used, read, before)
        lost = process.lost.since(lost_before)
        if lost.too_long:
            progress.say(f"{process.name}: {lost}; this slice is repeated")
            yield part._replace(stood_still=round(lost.seconds, 3))
            continue
        yield part
        if (part.quiet and part.near(least)) or time.monotonic() >= until:
            return
        if not part.quiet:
            _wait_until_quiet(used, until)


def _wait_until_quiet(used: Collection[int], until: float) -> None:
    """Wait until no other program uses the cores, or the time has passed."""
    while time.monotonic() < until:
        busy, begin = core_seconds(used), time.monotonic()
        time.sleep(REST)
        if core_seconds(used) - busy < QUIET * (time.monotonic() - begin):
            return


def _lead(
    process: Process, timing: Timing, read: core_latency.Read | None, least: float, until: float
) -> float | None:
    """Have a process work, so that caches fill and the threads of others fall asleep: again until
    the cores are near, which work brings about, or the time has passed.

    Returns: the core latency after that, ns.
    """
    while True:
        long = process.lasts(timing.long_seconds)
        if not long:
            process.work(timing.lead_seconds)
        latency = _latency(process, read)
        if long or latency is None or not cores_apart(latency, least) or time.monotonic() >= until:
            return latency


def _slice(
    process: Process,
    timing: Timing,
    used: Collection[int],
    read: core_latency.Read | None,
    latency: float | None,
) -> Slice:
    """A slice, before which the cores had this latency, ns."""
    before, begin = core_seconds(used), time.monotonic()
    answer = process.work(timing.slice_seconds)
    after, end = core_seconds(used), time.monotonic()
    latencies = [latency, _latency(process, read)]
    own = answer.cpu_after - answer.cpu_before
    others = max(after - before - own, 0.0) / (end - begin)
    return Slice(
        process.name, answer.begin, answer.end - answer.begin, answer.examples, round(others, 4),
        max((value for value in latencies if value is not None), default=None),
    )  # fmt: skip


def _latency(process: Process, read: core_latency.Read | None) -> float | None:
    """The core latency, ns, before the cores have rested, after which they may be elsewhere."""
    if read is None:
        return None
    with process.stopped():
        return read()


def available_mib() -> float:
    """Host memory that programs can have without swapping, MiB."""
    return float(psutil.virtual_memory().available) / 2**20
