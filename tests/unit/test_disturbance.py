"""A run that other programs slow down is ended with a reason; one that is only slow goes on."""

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from fixtures.specs import changed, training_spec
from touchstone.measure import attempts, disturbance, order
from touchstone.measure.disturbance import LEAST_SECONDS, START, Disturbance
from touchstone.measure.sensors import Watched, cpu
from touchstone.measure.supervisor import supervise
from touchstone.schema.spec import Limits

SLOW = """
import json, sys, time
def say(event, **more):
    with open(sys.argv[1], "a") as events:
        events.write(json.dumps(dict(event=event, **more)) + "\\n")
begin = time.monotonic()
say("phase", name="first_step", begin=begin, end=begin, steps=1, examples=1)
while time.monotonic() < begin + float(sys.argv[2]):
    pass
say("result", status="ok", reason=None)
"""


@pytest.fixture
def slow_run(tmp_path, monkeypatch):
    """Supervise a runner that spins for some seconds, longer than ten times its estimate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")

    def run(estimate, seconds):
        monkeypatch.setattr(disturbance, "LEAST_SECONDS", 10 * estimate)
        spec = changed(
            training_spec(), execution__threads=1, sampling_interval=0.1,
            limits={"seconds": 60.0, "memory_mib": None, "factor": 10.0, "estimate": estimate},
        )  # fmt: skip
        events = tmp_path / "events.jsonl"
        command = [sys.executable, "-c", SLOW, str(events), str(seconds)]
        status = supervise(spec, command, tmp_path, tmp_path / "train.log")
        reason = json.loads(events.read_text().splitlines()[-1])["reason"]
        return SimpleNamespace(status=status, reason=reason)

    return run


@pytest.mark.alone
def test_a_slow_run_beside_spinning_programs_is_ended(slow_run, follow, tmp_path):
    spin = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(spin) for _ in range(-(-os.cpu_count() // 2))]
    try:
        run = slow_run(estimate=0.1, seconds=4)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert run.status == "timeout"
    assert run.reason.startswith(
        "it ran 1 s after its first step, more than 10 times the 0.10 s estimated for its steps; "
        "other programs used "
    )
    assert "% of the machine's CPU time meanwhile: end them and run again, which" in run.reason
    # The next execution makes the run again.
    assert attempts.faults(str(tmp_path)) == 1


def ours():
    """CPU time of the processes that this one has started, s: a machine with nobody else. This one
    is left out, as coverage slows it down."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return sum(each.user + each.system for each in times)


@pytest.mark.alone
def test_a_run_that_is_as_slow_by_itself_goes_on(slow_run, follow, tmp_path, monkeypatch):
    monkeypatch.setattr(disturbance, "machine_seconds", ours)
    run = slow_run(estimate=0.04, seconds=1)
    assert (run.status, run.reason) == ("ok", None)
    assert attempts.faults(str(tmp_path)) == 0


class Clock:
    """Times that a test sets: of the clock, of the machine's cores, of the run."""

    def __init__(self):
        self.now = self.machine = self.run = 0.0

    def cpu_seconds(self):
        return self.run


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(disturbance, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(disturbance, "machine_seconds", lambda: clock.machine)
    monkeypatch.setattr(disturbance.os, "cpu_count", lambda: 4)
    return clock


def at(clock, now, others):
    """Let the clock be at `now`; others have used that share of four cores, the run one core."""
    clock.now, clock.run = now, now
    clock.machine = now + others * 4 * now


def test_patience_ends_at_the_estimate_times_the_factor_where_others_run(clock):
    one = Disturbance(Limits(3600.0, None, 10.0, 12.5), clock)
    for now, others, ended in ((130, 0.5, False), (136, 0.09, False), (136, 0.5, True)):
        at(clock, float(now), others)
        assert bool(one.reason(first_step=10.0)) == ended
    assert one.reason(first_step=10.0) == (
        "it ran 126 s after its first step, more than 10 times the 12.50 s estimated for its steps;"
        " other programs used 50 % of the machine's CPU time meanwhile: end them and run again, "
        "which repeats this run, or raise `time_limit_factor`"
    )


def test_a_run_has_time_to_compile_and_the_shortest_has_some_for_its_steps(clock):
    one = Disturbance(Limits(3600.0, None, 10.0, 0.01), clock)
    for now, first_step, ended in (
        (START + LEAST_SECONDS - 1, None, False), (START + LEAST_SECONDS + 1, None, True),
        (500 + LEAST_SECONDS - 1, 500.0, False), (500 + LEAST_SECONDS + 1, 500.0, True),
    ):  # fmt: skip
        at(clock, now, 0.5)
        assert bool(one.reason(first_step)) == ended
    assert one.reason(None).startswith("it ran 531 s without ending a step, more than 10 times")


@pytest.mark.parametrize(
    "limits",
    [Limits(60.0, None, None), Limits(60.0, None, 10.0), Limits(60.0, None, None, 1.0)],
    ids=["a probe", "a GPU", "no factor"],
)
def test_without_an_estimate_or_a_factor_patience_has_no_end(clock, limits):
    one = Disturbance(limits, clock)
    at(clock, 1e6, 0.9)
    assert one.reason(1.0) is None and one.reason(None) is None


def test_stolen_time_counts_as_used_by_others(monkeypatch):
    times = SimpleNamespace(
        user=1.0, nice=2.0, system=4.0, idle=8.0, iowait=16.0, irq=32.0, softirq=64.0, steal=128.0,
        guest=256.0, guest_nice=512.0,
    )  # fmt: skip
    monkeypatch.setattr(psutil, "cpu_times", lambda: times)
    # Guests are in user and nice already; idle and iowait are no use.
    assert cpu.machine_seconds() == 1 + 2 + 4 + 32 + 64 + 128


def test_the_clock_of_the_machine_sees_what_this_process_uses():
    """Sanity of the real clocks: what is used here is the machine's, and not others'."""
    here = Watched(os.getpid(), "cpu", processes=[os.getpid()])
    machine, own = cpu.machine_seconds(), here.cpu_seconds()
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    assert here.cpu_seconds() - own == pytest.approx(0.5, abs=0.05)
    assert cpu.machine_seconds() - machine >= 0.45
