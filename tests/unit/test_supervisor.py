"""The supervisor, over scripted runners: outcomes, limits, sensors."""

import csv
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fixtures.specs import changed, training_spec
from touchstone.measure import attempts, order, processes, sensors, supervisor
from touchstone.measure.sensors import gpu
from touchstone.measure.supervisor import Fault, supervise
from touchstone.paths import SCRIPTS

pytestmark = pytest.mark.alone

START = (
    "import json, os, sys, time\n"
    "events = open(sys.argv[1], 'w')\n"
    "def say(event='note', **more):\n"
    "    events.write(json.dumps(dict(event=event, **more)) + '\\n'); events.flush()\n"
)


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Supervise a runner given as Python text, and give back all that it left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")

    def run(text, seconds=30.0, mib=None, threads=1, interval=0.1, final=False, wait="default"):
        spec = changed(
            training_spec(), cell="cell", execution__threads=threads, execution__wait_policy=wait,
            limits={"seconds": seconds, "memory_mib": mib, "factor": None},
            sampling_interval=interval,
        )  # fmt: skip
        events = tmp_path / "events.jsonl"
        command = [sys.executable, "-c", START + text, str(events)]
        status = supervise(spec, command, tmp_path, tmp_path / "train.log", final)
        with open(tmp_path / "telemetry.csv") as file:
            rows = [{k: float(v or "nan") for k, v in row.items()} for row in csv.DictReader(file)]
        return SimpleNamespace(
            status=status,
            events=[json.loads(line) for line in events.read_text().splitlines()],
            rows=rows,
            env=json.loads((tmp_path / "env.json").read_text()),
            log=(tmp_path / "train.log").read_text(),
        )

    return run


def test_a_runner_that_says_how_it_went(watch):
    run = watch("print('hello'); say(event='result', status='diverged', reason='nan')")
    outcome = run.events[-1]
    assert run.status == "diverged"
    assert {k: outcome[k] for k in ("event", "status", "reason", "exit_code")} == {
        "event": "outcome", "status": "diverged", "reason": "nan", "exit_code": 0,
    }  # fmt: skip
    assert run.log == "hello\n"
    assert run.env["sensors"]["gpu"] == {
        "available": False, "reason": "the cell trains on the CPU", "columns": gpu.COLUMNS,
    }  # fmt: skip


@pytest.mark.parametrize("wait, told", [("default", None), ("passive", "PASSIVE")])
def test_the_runner_gets_the_cores_the_threads_and_the_waiting_of_the_spec(watch, wait, told):
    run = watch(
        "say(cores=sorted(os.sched_getaffinity(0)), threads=os.environ['OMP_NUM_THREADS'],"
        " wait=os.environ.get('OMP_WAIT_POLICY')); say(event='result', status='ok', reason=None)",
        wait=wait,
    )
    first = sorted(os.sched_getaffinity(0))[0]
    assert run.events[0] == {"event": "note", "cores": [first], "threads": "1", "wait": told}
    assert run.env["run"]["affinity"] == [first]


def test_more_threads_than_cores_are_refused(watch):
    with pytest.raises(Fault, match="threads: 1000 are asked for"):
        watch("", threads=1000)


def test_a_runner_beyond_its_time_is_stopped_with_its_children(watch, tmp_path):
    begin = time.monotonic()
    run = watch(
        "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time;"
        "time.sleep(60)']); say(child=child.pid); events.write('{\"half'); events.flush();"
        "time.sleep(60)",
        seconds=1.0,
    )
    assert time.monotonic() - begin < 5
    assert run.status == "timeout"
    assert run.events[-1]["reason"] == "it ran longer than the limit of 1 s"
    assert [list(event) for event in run.events[:-1]] == [["event", "child"]]
    time.sleep(0.2)
    assert not running(run.events[0]["child"])


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_runner_beyond_its_memory_is_out_of_memory(watch):
    run = watch("kept = []\nwhile True: kept.append(b'x' * 2**24); time.sleep(0.01)", mib=200)
    assert run.status == "oom"
    assert "exceeds the limit of 200 MiB" in run.events[-1]["reason"]


@pytest.mark.parametrize(
    "text, how",
    [
        ("raise ValueError('broken')", "exit status 1"),
        ("os.kill(os.getpid(), 11)", "signal SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "signal SIGKILL"),
        ("pass", "exit status 0"),
    ],
)
def test_anything_else_is_a_fault_with_the_end_of_the_log(watch, text, how):
    with pytest.raises(Fault, match=f"ended with {how} and no result") as fault:
        watch(text)
    if "ValueError" in text:
        assert "ValueError: broken" in str(fault.value)


def test_a_fault_at_the_last_attempt_is_an_outcome(watch, tmp_path):
    run = watch(
        "say(event='start'); events.write('{half'); events.flush()\n"
        "for i in range(30): print('line', i, flush=True)\n"
        "raise ValueError('broken')",
        final=True,
    )
    outcome = run.events[-1]
    assert [event["event"] for event in run.events] == ["start", "outcome"]
    assert (run.status, outcome["exit_code"]) == ("error", 1)
    assert outcome["reason"] == "the runner ended with exit status 1 and no result"
    assert len(outcome["log_tail"]) == 20 and outcome["log_tail"][-1] == "ValueError: broken"
    assert "cpu_seconds" in run.rows[0] and run.env["machine"]["logical_cores"]
    # What the rule's params count, so that the next execution makes the run again.
    (line,) = (tmp_path / attempts.NAME).read_text().splitlines()
    assert json.loads(line)["reason"] == outcome["reason"]


def test_faults_are_counted_per_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wildcards = SimpleNamespace(cell="a", repeat="2")
    assert attempts.errors(wildcards) == 0
    folder = tmp_path / "results/runs/a/rep2"
    folder.mkdir(parents=True)
    for count in (1, 2):
        attempts.note(folder, "broken")
        assert attempts.errors(wildcards) == count
    assert attempts.errors(SimpleNamespace(cell="a", repeat="1")) == 0


def test_a_shell_that_says_137_is_no_proof_of_a_lack_of_memory(watch):
    with pytest.raises(Fault, match="exit status 137"):
        watch("sys.exit(137)")


@pytest.mark.parametrize(
    "ending", ["os.kill(os.getpid(), 9)", "sys.exit(137)"], ids=["SIGKILL", "137"]
)
def test_a_kill_that_the_kernel_counts_is_a_lack_of_memory(watch, monkeypatch, ending):
    counts = iter([3, 4])
    monkeypatch.setattr(supervisor.environment, "kernel_oom_kills", lambda: next(counts))
    run = watch(ending)
    assert (run.status, run.events[-1]["reason"]) == (
        "oom", "the kernel killed it: the host ran out of memory",
    )  # fmt: skip


def test_where_a_run_started(watch):
    first, second = (watch("say(event='result', status='ok', reason=None)") for _ in range(2))
    assert [run.env["start"]["position"] for run in (first, second)] == [1, 2]
    assert first.env["start"]["block"] == 1
    assert first.env["start"]["idle_seconds"] is None
    assert "no run before" in first.env["unknown"]["start.idle_seconds"]
    # Between the runs lies what the first one's env.json took, and nothing else.
    assert 0 < second.env["start"]["idle_seconds"] < 5
    for run in (first, second):
        for part in ("machine", "software", "start"):
            for name, value in run.env[part].items():
                assert value is not None or run.env["unknown"][f"{part}.{name}"]


def test_the_rest_before_a_run_ends_with_the_machines_start(tmp_path, monkeypatch):
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    order.ended()
    assert order.idle_seconds()[0] is not None
    monkeypatch.setattr(order, "_boot", lambda: "another")
    assert order.idle_seconds() == (None, "the first run since the machine was started")


def test_nothing_of_a_run_goes_on_behind_it(watch, follow):
    run = watch(
        "import subprocess\n"
        "sleeper = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "child = subprocess.Popen(sleeper, start_new_session=True)\n"
        "say(child=child.pid); say(event='result', status='ok', reason=None)"
    )
    assert run.status == "ok" and not running(run.events[0]["child"])
    assert not list(processes.own_group().glob(f"{processes.PREFIX}{os.getpid()}-*"))


@pytest.fixture
def own_group(follow, monkeypatch):
    """A control group that no other supervisor is in, as this process's own."""
    own = processes.own_group() / f"test-{os.getpid()}"
    own.mkdir()
    monkeypatch.setattr(processes, "own_group", lambda: own)
    yield own
    for group in *own.glob(f"{processes.PREFIX}*"), own:
        group.rmdir()


@pytest.mark.parametrize("follow", ["group"], indirect=True)
def test_a_supervisor_removes_what_killed_ones_left_and_no_other_group(own_group):
    """A run's group is empty until its runner is in it."""
    left = own_group / f"{processes.PREFIX}1-left"
    left.mkdir()
    first, _ = processes.make_group()
    assert not left.exists()
    second, _ = processes.make_group()
    assert first.path.exists() and second.path.exists()
    for group in first, second:
        group.remove()
        assert not group.path.exists()


class Scripted:
    """A sensor module whose n-th reading takes the n-th of some seconds, or raises."""

    def __init__(self, column, *script):
        self.COLUMNS, self.script = {column: "1"}, iter(script)
        self.column = column

    def unavailable(self, watched):
        return None

    def Sensor(self, watched):
        return self

    def sample(self):
        step = next(self.script, 0.0)
        if isinstance(step, Exception):
            raise step
        time.sleep(step)
        return {self.column: time.monotonic()}


def test_a_slow_sensor_delays_no_other_and_shows_its_gap(watch, monkeypatch):
    slow, quick = Scripted("slow", 0.0, 1.0), Scripted("quick")
    found = {"quick": quick, "slow": slow}
    monkeypatch.setattr(sensors, "modules", lambda: found)
    run = watch("time.sleep(1.9); say(event='result', status='ok', reason=None)")
    quick_times = [row["quick"] for row in run.rows if row["quick"] == row["quick"]]
    gaps = [b - a for a, b in zip(quick_times, quick_times[1:], strict=False)]
    assert max(gaps) < 0.45  # the one tick that waited: an interval and the grace at most
    slow_times = [row["slow"] for row in run.rows if row["slow"] == row["slow"]]
    gaps = [b - a for a, b in zip(slow_times, slow_times[1:], strict=False)]
    assert 0.95 < max(gaps) < 1.4
    times = [row["t"] for row in run.rows]
    assert times == sorted(times)
    # The late answer stands in a row of its own, at the time when it came.
    (late,) = [row for row in run.rows if row["quick"] != row["quick"]]
    assert late["t"] == pytest.approx(late["slow"], abs=0.05)
    known = run.env["sensors"]["slow"]
    assert known["missed"] >= 5 and known["longest_seconds"] == pytest.approx(1.0, abs=0.1)
    assert run.env["sensors"]["quick"]["missed"] == 0


def test_a_sensor_that_hangs_or_fails_ends_no_run(watch, monkeypatch):
    found = {"hangs": Scripted("hangs", 1e6), "fails": Scripted("fails", *[OSError("gone")] * 99)}
    monkeypatch.setattr(sensors, "modules", lambda: found)
    begin = time.monotonic()
    run = watch("time.sleep(0.5); say(event='result', status='ok', reason=None)")
    assert run.status == "ok" and time.monotonic() - begin < 5
    assert len(run.rows) >= 3
    assert run.env["sensors"]["fails"]["missing"] == {"fails": "OSError: gone"}


def test_a_crash_after_the_result_leaves_the_result(watch):
    run = watch("say(event='result', status='ok', reason=None); os.kill(os.getpid(), 11)")
    assert (run.status, run.events[-1]["exit_code"]) == ("ok", -11)


BURN = "def burn(s):\n t = time.process_time()\n while time.process_time() - t < s: pass\n"


def test_cpu_time_and_memory_of_the_tree(watch, follow):
    run = watch(
        BURN + "import resource, subprocess\nkept = bytearray(os.urandom(1)) * (300 << 20)\n"
        "child = subprocess.Popen([sys.executable, '-c', '''import time\n"
        + BURN
        + "burn(0.5)''' ])\n"
        "burn(0.5); child.wait(); time.sleep(0.25)\n"
        "used = [resource.getrusage(who) for who in (0, resource.RUSAGE_CHILDREN)]\n"
        "say(used=sum(one.ru_utime + one.ru_stime for one in used))\n"
        "say(event='result', status='ok', reason=None)"
    )
    cpu = [row["cpu_seconds"] for row in run.rows]
    assert cpu == sorted(cpu)
    total = run.events[-1]["cpu_seconds"]
    assert total >= 1.0
    assert total == pytest.approx(run.events[0]["used"], rel=0.1)
    assert cpu[-1] == pytest.approx(total, abs=0.1), "a reaped child's time was lost"
    assert 300 < max(row["host_memory"] for row in run.rows) < 360
    assert max(row["processes"] for row in run.rows) == 2


def test_a_sample_is_taken_when_the_runner_asks_for_it(watch):
    run = watch(
        "time.sleep(0.3); os.write(int(os.environ['TOUCHSTONE_SAMPLE_NOW']), b'.')\n"
        "say(asked=time.monotonic()); time.sleep(0.3)\n"
        "say(event='result', status='ok', reason=None)",
        interval=60.0,
    )
    assert len(run.rows) == 2
    assert run.rows[1]["t"] == pytest.approx(run.events[0]["asked"], abs=0.1)


def test_two_runs_never_overlap(tmp_path):
    text = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from touchstone.measure.supervisor import machine_to_itself\n"
        "with machine_to_itself():\n"
        "    begin = time.monotonic(); time.sleep(0.4); print(begin, time.monotonic())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", text, str(SCRIPTS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(3)
    ]
    ended = [process.communicate() for process in started]
    spans = sorted([float(t) for t in out.split()] for out, _ in ended)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert sum("waiting for another measured run" in err for _, err in ended) >= 1


def test_the_runner_dies_with_its_supervisor(tmp_path, root):
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from touchstone.measure.supervisor import supervise\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from fixtures.specs import training_spec\n"
        "command = [sys.executable, '-c', 'import os, sys, time; print(os.getpid(), flush=True);"
        "time.sleep(60)']\n"
        "supervise(training_spec(), command, Path('.'), Path('log'))\n"
    )
    folders = [root / "workflow/scripts", root / "tests"]
    process = subprocess.Popen([sys.executable, "-c", text, *map(str, folders)], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 20
        log = tmp_path / "log"
        while not (log.exists() and log.read_text().strip()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    time.sleep(0.3)
    assert not running(int(log.read_text()))
