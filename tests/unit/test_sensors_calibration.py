"""The sensors against known answers, through the code that measures a real run.

What a test tree uses is counted by the tree itself, with the clocks of its own processes, so
that the answers are as exact on a busy machine as on an idle one.
"""

import csv
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fixtures.nvml import PID, TRACE, ReplayedNvml
from fixtures.runs import edit_json, make_run, write_telemetry
from touchstone.measure import order
from touchstone.measure.sensors import Watched, gpu, memory
from touchstone.measure.supervisor import supervise
from touchstone.results.record import build_record

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

    def run(text, steps=STEPS, record=True):
        spec = {
            "format": 1, "cell": "cell", "repeat": 1, "seed": 1, "deviations": [],
            "factors": {"batch_size": 1, "device": "cpu"},
            "network": {"training_macs": 3},
            "data": {"train_examples": steps, "test_examples": 1},
            "phases": {"epochs": 1, "warmup_steps": 0, "warmup_seconds": 0.0},
            "execution": {"device": "cpu", "threads": None, "wait_policy": "default"},
            "limits": {"seconds": 60.0, "memory_mib": None}, "sampling_interval": 10.0,
        }  # fmt: skip
        (tmp_path / "spec.json").write_text(json.dumps(spec))
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
            known=next((event["seconds"] for event in said if event["event"] == "known"), None),
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
say("known", seconds=seconds)
finish(3)
"""


@pytest.mark.parametrize("cores", [1.0, 1.5])
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
say("known", seconds=seconds)
finish()
"""


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


# The GPU


@pytest.fixture
def replay(tmp_path, monkeypatch):
    """Read a trace with the sensor, and judge a run of which it is the telemetry."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def run(samples=TRACE["samples"], **properties):
        nvml = ReplayedNvml(samples)
        for name, setting in properties.items():
            setattr(nvml, name, setting)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        watched = Watched(PID, "gpu", processes=[PID])
        assert gpu.unavailable(watched) is None
        sensor = gpu.Sensor(watched)
        rows = []
        for nvml.at, sample in enumerate(samples):
            read = sensor.sample()
            assert list(read) == list(gpu.COLUMNS)
            rows.append({"t": sample["t"], **{k: v for k, v in read.items() if v is not None}})
        folder = make_run(tmp_path, device="gpu", gpu=True)
        write_telemetry(folder, rows)
        edit_json(folder / "env.json", sensors__gpu__missing=sensor.missing)
        return SimpleNamespace(record=build_record(folder), rows=rows, sensor=sensor)

    return run


def changed(**changes):
    """The trace's samples, each field changed by a function of its value."""
    return [{**s, **{k: f(s[k]) for k, f in changes.items()}} for s in TRACE["samples"]]


def test_energy_by_counter_and_by_integration(replay):
    run = replay()
    assert value(run.record, "gpu_energy") == pytest.approx(TRACE["joules"], rel=1e-3)
    assert value(run.record, "gpu_energy_integrated") == pytest.approx(TRACE["joules"], rel=1e-3)
    per_image = TRACE["joules"] / 960
    assert value(run.record, "gpu_energy_per_image") == pytest.approx(per_image, rel=1e-3)
    assert "energy_disagrees" not in run.record["flags"]
    assert run.sensor.missing == {}


def test_every_reading_is_in_its_unit(replay):
    run = replay()
    now = next(row for row in run.rows if row["t"] == 107.29)
    energy = TRACE["samples"][8]["energy_mj"] - TRACE["samples"][0]["energy_mj"]
    assert now == {
        "t": 107.29, "gpu_energy": energy / 1000, "gpu_power": 672.5,
        "gpu_power_average": 656.625, "gpu_utilization": 97, "gpu_memory": 5120.0,
        "gpu_process_memory": 4608.0, "gpu_temperature": 39, "gpu_sm_clock": 1980,
        "gpu_memory_clock": 3201, "gpu_throttle_reasons": 4, "gpu_pcie_tx": 120.0,
        "gpu_pcie_rx": 2400.0,
    }  # fmt: skip
    assert "power_capped" in run.record["flags"] and "throttled" not in run.record["flags"]


@pytest.mark.parametrize(
    "factor, flagged", [(1.04, False), (1.06, True), (0.96, False), (0.94, True)]
)
def test_counter_and_integral_that_differ_by_5_percent(replay, factor, flagged):
    samples = changed(power_mw=lambda power: round(power * factor))
    assert ("energy_disagrees" in replay(samples).record["flags"]) is flagged


def test_a_counter_that_wraps(replay):
    size = gpu.ENERGY_SIZE
    middle = TRACE["samples"][7]["energy_mj"]
    run = replay(changed(energy_mj=lambda energy: (energy - middle) % size))
    assert value(run.record, "gpu_energy") == pytest.approx(TRACE["joules"], rel=1e-3)
    assert "energy_disagrees" not in run.record["flags"]


def test_a_counter_that_is_reset_shows_in_the_integral(replay):
    middle = TRACE["samples"][7]["energy_mj"]
    samples = changed(energy_mj=lambda energy: energy - (middle if energy >= middle else 0))
    run = replay(samples)
    # What came between the last reading and the reset is lost, here 1 of 3.75 s, and flagged.
    assert 0.6 < value(run.record, "gpu_energy") / TRACE["joules"] < 0.8
    assert "energy_disagrees" in run.record["flags"]


def test_a_device_that_vanishes(replay):
    run = replay(lost_at=7)
    assert [len(row) for row in run.rows] == [13] * 7 + [1] * 6  # only the time
    assert run.sensor.missing == dict.fromkeys(gpu.COLUMNS, "NVML: GPU is lost")
    lost = run.record["metrics"]["gpu_energy"]
    assert lost["value"] is None and lost["reason"].endswith("(NVML: GPU is lost)")
    assert "sampling_gaps" in run.record["flags"]
    assert value(run.record, "throughput") == 256.0


def test_a_driver_that_does_not_know_instant_power(replay):
    fields = {gpu_field("INSTANT"), gpu_field("AVERAGE")}
    run = replay(unsupported=fields)
    assert run.rows[8]["gpu_power"] == 656.625  # what nvmlDeviceGetPowerUsage says
    assert run.sensor.missing == {"gpu_power_average": "NVML: Not Supported"}
    reason = run.record["metrics"]["gpu_power_average"]["reason"]
    assert reason == "NVML: Not Supported"


def gpu_field(name):
    import pynvml

    number: int = getattr(pynvml, f"NVML_FI_DEV_POWER_{name}")
    return number


def test_processes_that_the_driver_numbers_otherwise(replay, monkeypatch):
    monkeypatch.setattr("fixtures.nvml.PID", 1)
    run = replay()
    assert "names none of the run's processes" in run.sensor.missing["gpu_process_memory"]
    assert value(run.record, "gpu_process_memory_peak") is None


@pytest.mark.parametrize(
    "visible, index", [(None, 0), ("0", 0), ("0,1", 0), ("1", None), ("", None), ("-1", None)]
)
def test_the_first_visible_device(monkeypatch, visible, index):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = gpu.device(ReplayedNvml(TRACE["samples"]))
    assert found == (None if index is None else f"device {index}")


def test_two_devices_are_one_row(monkeypatch):
    """Energy, power and memory are added, shares and clocks averaged, the hottest counts."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = ReplayedNvml(TRACE["samples"])
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 3, raising=False)
    monkeypatch.setattr(
        nvml,
        "nvmlDeviceGetTemperature",
        lambda one, _: nvml.now and 40 + int(one[-1]),
        raising=False,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    one, two = (gpu.Sensor(Watched(PID, "gpu", processes=[PID], devices=count)) for count in (1, 2))
    for nvml.at in (0, 8):
        single, double = one.sample(), two.sample()
    for column in ("gpu_energy", "gpu_power", "gpu_memory", "gpu_process_memory", "gpu_pcie_rx"):
        assert double[column] == 2 * single[column] > 0
    for column in ("gpu_utilization", "gpu_sm_clock", "gpu_throttle_reasons"):
        assert double[column] == single[column] > 0
    assert (single["gpu_temperature"], double["gpu_temperature"]) == (40, 41)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,-1,0")
    assert gpu.devices(nvml, 3) == ["device 1"]
    nvml.at = nvml.lost_at = 9
    assert set(two.sample().values()) == {None}
    assert two.missing == dict.fromkeys(gpu.COLUMNS, "NVML: GPU is lost")
