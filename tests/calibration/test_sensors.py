"""The sensors against known answers, through the code that measures a real run.

What a test tree uses is counted by the tree itself, with the clocks of its own processes. A test
that fails while other programs use the machine is tried again when they rest.
"""

import csv
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from calibration.calm import repeated
from fixtures import specs
from touchstone.measure import order
from touchstone.measure.sensors import memory
from touchstone.measure.supervisor import supervise
from touchstone.results.record import build_record
from touchstone.schema.spec import spec_to_json

pytestmark = pytest.mark.alone

STEPS = 3
PRELUDE = """
import json, mmap, os, sys, time
events = open(sys.argv[1], "w")

def say(event, **more):
    events.write(json.dumps(dict(event=event, **more)) + "\\n")
    events.flush()

def edge():
    # Nobody works while the sample is taken.
    os.write(int(os.environ["TOUCHSTONE_SAMPLE_NOW"]), b".")
    time.sleep(0.2)

def burn(seconds):
    while time.process_time() < seconds:
        pass

def phase(name, begin, end, steps):
    say("phase", name=name, begin=begin, end=end, steps=steps, examples=steps)

def chunk(name, first, steps, begin, end):
    say("chunk", phase=name, first_step=first, steps=steps, begin=begin, end=end,
        losses=[1.0] * steps)

def finish(steps=0):
    say("evaluation", epoch=1, step=steps, examples=1, correct=1, loss=1.0)
    say("result", status="ok", reason=None)
"""


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Supervise a runner given as Python text: its rows of telemetry, its events, its record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")

    def run(text, steps=STEPS, record=True, interval=10.0):
        spec = specs.changed(
            specs.training_spec(), factors__batch_size=1, network__training_macs=3,
            data__train_examples=steps, data__test_examples=1, phases__epochs=1,
            phases__warmup_steps=0, phases__warmup_seconds=0.0, sampling_interval=interval,
        )  # fmt: skip
        (tmp_path / "spec.json").write_text(json.dumps(spec_to_json(spec)))
        events = tmp_path / "events.jsonl"
        command = [sys.executable, "-c", PRELUDE + text, str(events)]
        log = tmp_path / "train.log"
        status = supervise(spec, command, tmp_path, log, final=True)
        assert status == "ok", log.read_text()
        with open(tmp_path / "telemetry.csv") as file:
            rows = [{k: float(v or "nan") for k, v in row.items()} for row in csv.DictReader(file)]
        said = [json.loads(line) for line in events.read_text().splitlines()]
        return SimpleNamespace(
            rows=rows,
            known=float(log.read_text() or "nan"),
            outcome=said[-1],
            record=build_record(tmp_path) if record else None,
        )

    return run


def value(record, name):
    return record["metrics"][name]["value"]


BURNERS = """
time.sleep(0.3)  # the first sample is taken meanwhile
begin = time.monotonic()
phase("first_step", begin, begin, 1)
chunk("first_step", 0, 1, begin, begin)
edge()
read, write = os.pipe()
for _ in range(2):
    if not os.fork():
        burn(time.process_time() + 1.25 * {cores})
        os.write(write, b"%.6f\\n" % time.process_time())
        os._exit(0)
os.close(write)
with open(read) as told:
    seconds = sum(map(float, told))
for _ in range(2):
    os.wait()
# Rest until what was burnt makes the share.
time.sleep(max(begin + seconds / {cores} - time.monotonic(), 0))
end = time.monotonic()
edge()
chunk("measured", 1, 2, begin, end)
phase("measured", begin, end, 2)
print(seconds)
finish(3)
"""


@pytest.mark.parametrize("cores", [1.0, 1.5])
@repeated
def test_a_tree_that_burns_so_many_cores(measure, follow, cores):
    # Two processes burn 1.25 x `cores` CPU seconds each, in 2.5 s of the clock if they get them.
    run = measure(BURNERS.format(cores=cores))
    seconds = run.record["phases"]["measured"]
    assert run.known == pytest.approx(2.5 * cores, rel=0.02)
    assert value(run.record, "cpu_cores") == pytest.approx(run.known / seconds, rel=0.02)
    if seconds < 2.5 * 1.01:  # else others had the cores, and the share was smaller
        assert value(run.record, "cpu_cores") == pytest.approx(cores, rel=0.02)
    share = value(run.record, "cpu_cores") / os.cpu_count() * 100
    assert value(run.record, "cpu_utilization") == pytest.approx(share)
    assert run.outcome["cpu_seconds"] >= run.known


SHORT = """
time.sleep(0.3)  # the first sample is taken meanwhile
begin = time.monotonic()
phase("first_step", begin, begin, 1)
chunk("first_step", 0, 1, begin, begin)
begin = time.monotonic()
os.write(int(os.environ["TOUCHSTONE_SAMPLE_NOW"]), b".")
while time.monotonic() < begin + {seconds}:
    pass
end = time.monotonic()
os.write(int(os.environ["TOUCHSTONE_SAMPLE_NOW"]), b".")
chunk("measured", 1, 2, begin, end)
phase("measured", begin, end, 2)
time.sleep(0.1)
finish(3)
"""


@pytest.mark.parametrize("seconds", [0.15, 2.0])
@repeated
def test_half_of_the_cores_taken_is_a_noisy_machine_however_short_the_phase(
    measure, follow, seconds
):
    spin = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(spin) for _ in range(-(-os.cpu_count() // 2))]
    try:
        time.sleep(0.2)
        run = measure(SHORT.format(seconds=seconds))
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    assert "noisy_machine" in run.record["flags"]
    assert value(run.record, "other_cpu_utilization") > 25


MEMORY = """
MIB = 2**20
shared = mmap.mmap(-1, 300 * MIB)  # anonymous, MAP_SHARED
def touch(area):
    for page in range(0, len(area), mmap.PAGESIZE):
        area[page] = 1
ready, go, release = os.pipe(), os.pipe(), os.pipe()
for _ in range(3):
    if not os.fork():
        os.close(release[1])
        os.write(ready[1], b".")
        os.read(go[0], 1)
        touch(shared)
        os.write(ready[1], b".")
        os.read(release[0], 1)  # until the parent has gone on
        os._exit(0)
def all_ready():
    left = 3
    while left:
        left -= len(os.read(ready[0], left))
all_ready()
edge()
private = mmap.mmap(-1, 500 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
touch(private)
os.write(go[1], b"...")
all_ready()
edge()
private.close()
edge()
finish()
"""


@repeated
def test_private_and_shared_memory(measure, follow, monkeypatch):
    monkeypatch.setattr(memory, "SHARE", 1.0)  # at every sample, however close
    run = measure(MEMORY, record=False)
    before, full, after = (row["host_memory"] for row in run.rows[1:4])
    assert full - before == pytest.approx(500 + 300, rel=0.02)
    assert after - before == pytest.approx(300, rel=0.02)
    # Resident sizes count the shared pages in each of the three children, and do not fall.
    marks = [row["host_memory_high_water"] for row in run.rows[1:4]]
    assert marks[1] - marks[0] == pytest.approx(500 + 3 * 300, rel=0.02)
    assert marks[2] == pytest.approx(marks[1], abs=1)
    assert run.rows[2]["processes"] == 4


FORKS = """
edge()
read, write = os.pipe()
def burner(seconds):
    burn(time.process_time() + seconds)
    os.write(write, b"%.6f\\n" % time.process_time())
    os._exit(0)
for i in range(60):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif i % 3 == 0:
        burner(0.02)
    elif i % 3 == 1:  # a grandchild whose parent waits for it
        if not os.fork():
            burner(0.02)
        os.wait()
        os._exit(0)
    else:  # a grandchild whose parent has gone
        if not os.fork():
            burner(0.02)
        os._exit(0)
os.close(write)
with open(read) as told:
    seconds = sum(map(float, told))
edge()
print(seconds)
finish()
"""


@repeated
def test_processes_that_fork_and_die_between_two_samples(measure, follow):
    run = measure(FORKS, record=False)
    burnt = run.rows[2]["cpu_seconds"] - run.rows[1]["cpu_seconds"]
    assert run.known == pytest.approx(1.2, rel=0.1)
    # The forks themselves cost time that the burners do not see; nothing may be lost.
    assert burnt >= run.known * 0.98
    assert burnt <= run.known * 1.02 + 60 * 2 * 0.01
    assert run.outcome["cpu_seconds"] >= run.known
    assert run.rows[2]["minor_page_faults"] - run.rows[1]["minor_page_faults"] > 60


SCRIPTED = """
times = {times}
t = 1000.0
chunk("first_step", 0, 1, t, t + 0.5)
phase("first_step", t, t + 0.5, 1)
begin = t = t + 0.5
for i, seconds in enumerate(times, start=1):
    chunk("measured", i, 1, t - 0.0625, t + seconds)  # begun before the one before had ended
    t += seconds
phase("measured", begin, t, len(times))
finish(i + 1)
"""


def test_scripted_step_times(measure):
    # Exact in binary: 0.125 s for 90 steps, 0.25 s for 8, 1 s for 2, in a mixed order.
    times = [0.125] * 100
    times[3::13] = [0.25] * len(times[3::13])
    times[50] = times[90] = 1.0
    record = measure(SCRIPTED.format(times=times), steps=101).record
    assert (times.count(0.125), times.count(0.25), times.count(1.0)) == (90, 8, 2)
    assert value(record, "throughput") == 100 / (90 * 0.125 + 8 * 0.25 + 2 * 1.0)
    percentiles = [value(record, f"step_time_p{p}") for p in (50, 95, 99)]
    assert percentiles == [125.0, 250.0, 1000.0]


RESTING = """
time.sleep(1.05)
finish()
"""


@repeated
def test_samples_come_at_the_interval(measure):
    run = measure(RESTING, record=False, interval=0.1)
    times = [row["t"] for row in run.rows]
    assert 8 <= len(times) <= 13
    assert (times[-1] - times[0]) / (len(times) - 1) == pytest.approx(0.1, rel=0.25)
