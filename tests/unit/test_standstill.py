"""Time that passes without work: real processes that are stopped, and a machine that is busy."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import psutil
import pytest

from fixtures.scripted import START
from fixtures.specs import changed, training_spec
from fixtures.turns import candidate
from touchstone.measure import attempts, interleaving, order, standstill
from touchstone.measure.interleaving import Process, Timing, measure_set
from touchstone.measure.standstill import Lost, Standstill
from touchstone.measure.supervisor import StoodStill, supervise

pytestmark = pytest.mark.long

WORK = (
    "say(begun=os.getpid())\n"
    "end = time.process_time() + 1.5\n"
    "while time.process_time() < end: pass\n"
    "say(event='result', status='ok', reason=None)"
)
SUPERVISOR = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from fixtures.specs import changed, training_spec
from touchstone.measure.supervisor import supervise
spec = changed(training_spec(), cell="cell", execution__threads=1, sampling_interval=0.2,
               limits={"seconds": 60.0, "memory_mib": None, "factor": None})
command = [sys.executable, "-c", sys.argv[3], "events.jsonl"]
print(supervise(spec, command, Path("."), Path("train.log"), final=sys.argv[4] == "final"))
"""


@pytest.fixture
def begin(tmp_path, root):
    """Start the supervisor of `WORK` in a process of its own, and wait until the work has begun:
    the supervisor's process, and the process id of the runner."""
    started = []

    def start(final="final"):
        folders = [str(root / "tests"), str(root / "workflow/scripts")]
        process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, *folders, START + WORK, final],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        events = tmp_path / "events.jsonl"
        while not (events.exists() and events.read_text().endswith("\n")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        return process, json.loads(events.read_text().splitlines()[0])["others"]["begun"]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def stop(seconds, *pids):
    """Stop processes for some seconds."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # its supervisor has ended it
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("whose", ["all", "the runner"])
def test_a_run_that_was_stopped_is_an_error(begin, tmp_path, whose):
    process, runner = begin()
    stop(3, *([process.pid] if whose == "all" else []), runner)
    out, err = process.communicate(timeout=60)
    assert out.strip() == "error", err
    outcome = json.loads((tmp_path / "events.jsonl").read_text().splitlines()[-1])
    assert outcome["status"] == "error" and outcome["reason"].startswith("all stood still for ")
    # It is made again by the next execution.
    assert attempts.reasons(tmp_path) == [outcome["reason"]]


def test_an_execution_tries_it_again_at_once(begin):
    process, runner = begin(final="first attempt")
    stop(2, process.pid, runner)
    _, err = process.communicate(timeout=60)
    assert process.returncode and "Fault: all stood still for " in err


def test_a_stop_of_the_supervisor_takes_no_time_from_its_run(begin):
    process, runner = begin()
    worker = psutil.Process(runner)
    before = sum(worker.cpu_times()[:2])
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    while sum(worker.cpu_times()[:2]) < before + 0.7:
        time.sleep(0.05)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=60)
    assert out.strip() == "ok", err


def _burn(gone):
    while not gone.is_set():
        for _ in range(10_000):
            pass


@pytest.fixture
def busy():
    """A machine on which many programs want each core, at a higher priority where that may be."""
    gone = multiprocessing.Event()
    cores = os.sched_getaffinity(0)
    others = [multiprocessing.Process(target=_burn, args=(gone,)) for _ in range(8 * len(cores))]
    for other in others:
        other.start()
    yield
    gone.set()
    for other in others:
        other.join()


def test_a_busy_machine_does_not_stand_still(begin, busy):
    process, _ = begin()
    out, err = process.communicate(timeout=120)
    assert out.strip() == "ok", err


class Clock:
    """The clocks of a machine that did something between the beats."""

    def __init__(self, monkeypatch, **passed):
        self.values = dict.fromkeys(("monotonic", "boot", "waited", "steal", "busy", "cpu"), 0.0)
        clock = SimpleNamespace(
            monotonic=lambda: self.values["monotonic"], CLOCK_BOOTTIME=7,
            clock_gettime=lambda _: self.values["boot"],
        )  # fmt: skip
        monkeypatch.setattr(standstill, "time", clock)
        times = lambda: SimpleNamespace(  # noqa: E731
            user=self.values["busy"], nice=0.0, system=0.0, irq=0.0, softirq=0.0,
            steal=self.values["steal"],
        )  # fmt: skip
        monkeypatch.setattr(standstill, "psutil", SimpleNamespace(cpu_times=times))
        monkeypatch.setattr(standstill.os, "cpu_count", lambda: 2)

    def passes(self, seconds, boot=None, **more):
        self.values["monotonic"] += seconds
        self.values["boot"] += seconds if boot is None else boot
        for name, value in more.items():
            self.values[name] += value


@pytest.mark.parametrize(
    "passed, slept, late",
    [
        ({"seconds": 0.2}, 0, 0),
        ({"seconds": 0.2, "boot": 40.2}, 40, 0),
        ({"seconds": 40.2}, 0, 40),
        ({"seconds": 40.2, "waited": 40.0}, 0, 0),
        ({"seconds": 40.2, "steal": 40.0}, 0, 0),
        ({"seconds": 40.2, "waited": 30.0}, 0, 10),
        # Where the kernel does not count how long a thread waits, all cores are busy or are not.
        ({"seconds": 40.2, "waited": None, "busy": 80.0}, 0, 0),
        ({"seconds": 40.2, "waited": None, "busy": 0.0}, 0, 40),
    ],
)
def test_what_the_clocks_say(monkeypatch, passed, slept, late):
    clock = Clock(monkeypatch)
    counts = passed.pop("waited", 0.0)
    waited = lambda _: None if counts is None else clock.values["waited"]  # noqa: E731
    monkeypatch.setattr(standstill._Clocks, "_waited", waited)
    clocks = standstill._Clocks(lambda: clock.values["cpu"])
    clock.passes(**passed, **({"waited": counts} if counts else {}))
    assert clocks.passed() == pytest.approx((slept, late, 0.0), abs=1e-6)


def test_a_machine_that_slept_is_said_to_have(monkeypatch):
    passed = iter([(0.0, 0.0, 0.0), (40.0, 0.0, 0.0)])
    monkeypatch.setattr(standstill._Clocks, "passed", lambda _: next(passed, (0.0, 0.0, 0.0)))
    with Standstill(lambda: 0.0, lambda: False, 1) as found:
        while not found.lost.too_long:
            time.sleep(0.01)
        assert str(found.lost) == "this machine slept for 40 s"


MARK = """
seen = set()
def step():
    seen.add(arrived)
    if len(seen) == 6:
        open({path!r}, "w").close()
    time.sleep(0.01)
"""
"""A runner whose steps leave a file in its sixth slice, after two to warm up and two to lead."""


def _measure(folder, mark, sender):
    cells = [candidate(folder, "a", MARK.format(path=str(mark)), threads=1),
             candidate(folder, "b", threads=1)]  # fmt: skip
    timing = Timing(rounds=3, slice_seconds=0.8, lead_seconds=0.05, max_seconds=0.0)
    sender.send(measure_set(1, [cells], timing, seed=1))


def test_a_slice_in_which_all_was_stopped_is_set_aside(tmp_path):
    """No slice that counts lasts longer than its work, though no time is left to repeat any."""
    receiver, sender = multiprocessing.Pipe()
    mark = tmp_path / "mark"
    conductor = multiprocessing.Process(target=_measure, args=(tmp_path, mark, sender))
    conductor.start()
    try:
        while not mark.exists():
            assert conductor.is_alive()
            time.sleep(0.01)
        stop(3, conductor.pid, *(one.pid for one in psutil.Process(conductor.pid).children()))
        assert receiver.poll(60)
        measured = receiver.recv()
    finally:
        conductor.kill()
        conductor.join()
    (turns,) = measured.turns
    assert len(turns.rounds) >= 3
    counted = [part for each in turns.rounds for part in each.slices]
    assert max(part.seconds for part in counted) < 3
    assert all(part.stood_still == 0 for part in counted)
    assert any(1 < part.stood_still < 10 for part in turns.set_aside)


def test_an_answer_may_be_as_late_as_all_stood_still(tmp_path, monkeypatch):
    monkeypatch.setattr(interleaving, "EXTRA_SECONDS", 0.0)
    monkeypatch.setattr(Process, "lost", property(lambda _: Lost(0.0, time.monotonic() - begin)))
    begin = time.monotonic()
    process = Process(candidate(tmp_path, "a", "def rest(): pass\ndef step(): time.sleep(1)"))
    try:
        process.wait_until_built()
        assert process.work(0.01, patience=0.0).steps == 1
    finally:
        process.kill()


@pytest.mark.parametrize("trial", [False, True])
def test_a_trial_that_stood_still_has_no_outcome(tmp_path, monkeypatch, trial):
    monkeypatch.setattr(Standstill, "lost", Lost(slept=40.0))
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    command = [sys.executable, "-c", "pass"]
    with pytest.raises(StoodStill) if trial else nullcontext():
        spec = changed(training_spec(), execution__threads=1)
        how = supervise(spec, command, tmp_path, tmp_path / "log", final=True, trial=trial)
        assert how == "error"
    assert (tmp_path / attempts.NAME).exists() != trial
