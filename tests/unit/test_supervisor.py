"""The supervisor, over scripted runners: outcomes, limits, sensors."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from touchstone.measure import attempts, oom, order, processes, sampler, sensors, supervisor
from touchstone.measure.launch import Fault
from touchstone.measure.oom import OomKills
from touchstone.measure.sensors import GAUGE, Column, gpu


def test_a_runner_that_says_how_it_went(watch):
    run = watch("print('hello'); say(event='result', status='diverged', reason='nan')")
    outcome = run.events[-1]
    assert run.status == "diverged"
    assert {k: outcome[k] for k in ("event", "status", "reason", "exit_code")} == {
        "event": "outcome", "status": "diverged", "reason": "nan", "exit_code": 0,
    }  # fmt: skip
    assert run.log == "hello\n"
    assert run.env["sensors"]["gpu"] == {
        "available": False, "reason": "the cell trains on the CPU",
        "columns": {name: column.unit for name, column in gpu.COLUMNS.items()},
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


def test_a_runner_beyond_its_time_is_stopped_with_its_children(watch, late_after):
    late_after('{"half')
    run = watch(
        "import subprocess; child = subprocess.Popen([sys.executable, '-c', 'import time;"
        "time.sleep(3600)']); say(child=child.pid); events.write('{\"half'); events.flush();"
        "time.sleep(3600)",
    )
    assert run.status == "timeout"
    assert run.events[-1]["reason"] == "it ran longer than the limit of 30 s"
    assert [list(event) for event in run.events[:-1]] == [["event", "child"]]
    wait_for_the_end_of(run.events[0]["child"])


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_the_end_of(pid):
    """Return when a process has ended that was killed; pytest ends a test that waits too long."""
    while running(pid):
        time.sleep(0.01)


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
        ("os.kill(os.getpid(), 45)", "signal 45"),
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
        "say(begun=True); events.write('{half'); events.flush()\n"
        "for i in range(30): print('line', i, flush=True)\n"
        "raise ValueError('broken')",
        final=True,
    )
    outcome = run.events[-1]
    assert [event["event"] for event in run.events] == ["note", "outcome"]
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


@pytest.fixture
def kills(monkeypatch, tmp_path):
    """A file of the kernel that counts kills for want of memory, of a run's own group or not."""

    def count(own):
        file = tmp_path / "memory.events"
        file.write_text("low 0\noom 1\noom_kill 3\n")

        class Kills(OomKills):
            def __init__(self, group):
                super().__init__(None)
                self.own, self.place, self.before = own, file, 3

        monkeypatch.setattr(supervisor, "OomKills", Kills)
        return f"open({str(file)!r}, 'w').write('low 0\\noom 2\\noom_kill 4\\n')\n"

    return count


@pytest.mark.parametrize("own, code", [(False, 9), (True, 9), (True, "exit")])
def test_a_kill_that_the_kernel_counts_is_a_lack_of_memory(watch, kills, own, code):
    """In the run's own group it may be one of its other processes."""
    ending = "sys.exit(1)" if code == "exit" else "os.kill(os.getpid(), 9)"
    run = watch(kills(own) + ending)
    assert (run.status, run.events[-1]["reason"]) == (
        "oom", "the kernel killed it: the host ran out of memory",
    )  # fmt: skip


@pytest.mark.parametrize("code", [1, 137])
def test_the_kill_of_another_program_is_no_lack_of_memory_of_the_run(watch, kills, code):
    with pytest.raises(Fault, match=f"exit status {code} and no result"):
        watch(kills(own=False) + f"sys.exit({code})")


def test_a_kill_that_the_kernel_does_not_count_is_a_fault(watch, kills):
    kills(own=True)
    with pytest.raises(Fault, match="signal SIGKILL and no result"):
        watch("os.kill(os.getpid(), 9)")


def test_the_count_of_the_runs_own_group_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(oom, "own_group", lambda: tmp_path)
    monkeypatch.setattr(oom, "MACHINE", tmp_path / "vmstat")
    assert not OomKills(None).ended(-9)  # nobody counts
    (tmp_path / "vmstat").write_text("pgfault 5\noom_kill 7\n")
    assert OomKills(None).place == tmp_path / "vmstat"
    (tmp_path / "memory.events").write_text("oom_kill 1\noom_group_kill 0\n")
    (tmp_path / "run").mkdir()
    shared = OomKills(tmp_path / "run")
    assert (shared.place, shared.own) == (tmp_path / "memory.events", False)
    (tmp_path / "run/memory.events").write_text("oom_kill 0\n")
    exact = OomKills(tmp_path / "run")
    (tmp_path / "memory.events").write_text("oom_kill 2\noom_group_kill 0\n")
    assert exact.own and not exact.ended(-9)  # another program's
    assert shared.ended(-9) and not shared.ended(1)


def test_where_a_run_started(watch):
    begin = time.monotonic()
    first, second = (watch("say(event='result', status='ok', reason=None)") for _ in range(2))
    assert [run.env["start"]["position"] for run in (first, second)] == [1, 2]
    assert first.env["start"]["block"] == 1
    assert first.env["start"]["idle_seconds"] is None
    assert "no run before" in first.env["unknown"]["start.idle_seconds"]
    assert 0 < second.env["start"]["idle_seconds"] < time.monotonic() - begin
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


def test_nothing_of_a_run_goes_on_after_it(watch, follow):
    run = watch(
        "import subprocess\n"
        "sleeper = [sys.executable, '-c', 'import time; time.sleep(3600)']\n"
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
        self.COLUMNS, self.script = {column: Column("1", GAUGE)}, iter(script)
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
    slow, quick = Scripted("slow", 0.0, 0.8), Scripted("quick")
    found = {"quick": quick, "slow": slow}
    monkeypatch.setattr(sensors, "modules", lambda: found)
    run = watch("time.sleep(1.6); say(event='result', status='ok', reason=None)", interval=0.02)

    def answers(name):
        return [row[name] for row in run.rows if row[name] == row[name]]

    gaps = zip(answers("slow"), answers("slow")[1:], strict=False)
    begin, end = max(gaps, key=lambda gap: gap[1] - gap[0])
    assert end - begin >= 0.8
    meanwhile = [t for t in answers("quick") if begin < t < end]
    assert len(meanwhile) >= 5  # 40 on an idle machine
    times = [row["t"] for row in run.rows]
    assert times == sorted(times)
    # The late answer is in a row of its own, at the time when it came.
    late = next(row for row in run.rows if row["slow"] == end)
    assert late["quick"] != late["quick"]
    assert 0 <= late["t"] - end < end - begin
    known = run.env["sensors"]
    assert known["slow"]["longest_seconds"] >= 0.8
    assert known["slow"]["missed"] > known["quick"]["missed"]


def test_rows_are_in_order_of_time_even_if_a_reading_is_known_late(monkeypatch):
    monkeypatch.setattr(sensors, "modules", lambda: {"quick": Scripted("quick")})
    file = io.StringIO()
    known = sampler.Sampler(sensors.Watched(os.getpid(), "cpu"), file)
    known.sample()
    before = time.monotonic() - 1.0
    known.readers["quick"].answer = before, {"quick": before}
    known.finish()
    first, late = csv.DictReader(io.StringIO(file.getvalue()))
    assert float(late["quick"]) == before and late["t"] == first["t"]


def test_an_answer_that_comes_while_a_tick_begins_is_not_lost(monkeypatch):
    readings = []

    class Noted(Scripted):
        def sample(self):
            found = super().sample()
            readings.append(found[self.column])
            return found

    monkeypatch.setattr(sensors, "modules", lambda: {"slow": Noted("slow", sampler.GRACE + 0.1)})
    watched, file = sensors.Watched(os.getpid(), "cpu"), io.StringIO()
    known = sampler.Sampler(watched, file)
    known.sample()
    monkeypatch.setattr(watched, "refresh", lambda: time.sleep(0.3))
    known.sample()
    known.sample()
    known.finish()
    rows = csv.DictReader(io.StringIO(file.getvalue()))
    assert [float(row["slow"]) for row in rows if row["slow"]] == readings
    assert len(readings) == 2


def test_a_sensor_that_hangs_or_fails_ends_no_run(watch, monkeypatch):
    found = {"hangs": Scripted("hangs", 1e6), "fails": Scripted("fails", *[OSError("gone")] * 99)}
    monkeypatch.setattr(sensors, "modules", lambda: found)
    run = watch("time.sleep(1); say(event='result', status='ok', reason=None)")
    assert run.status == "ok"
    assert len(run.rows) >= 2
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


def test_memory_that_a_new_process_borrows_counts_once(watch, follow, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    run = watch(
        "import subprocess\nkept = bytearray(os.urandom(1)) * (300 << 20)\n"
        f"pipe = {str(tmp_path / 'pipe')!r}\n"
        "writer = subprocess.Popen(['sh', '-c', 'sleep 0.6; : > ' + pipe])\n"
        # It has the memory of this process until it executes `true`: once the pipe has a writer.
        "pid = os.posix_spawn('/bin/true', ['true'], {},"
        " file_actions=[(os.POSIX_SPAWN_OPEN, 0, pipe, os.O_RDONLY, 0)])\n"
        "os.waitpid(pid, 0); writer.wait(); say(event='result', status='ok', reason=None)"
    )
    assert run.status == "ok" and max(row["processes"] for row in run.rows) >= 3
    assert 300 < max(row["host_memory"] for row in run.rows) < 360


def test_a_sample_is_taken_when_the_runner_asks_for_it(watch):
    run = watch(
        "time.sleep(0.5); say(slept=time.monotonic())\n"
        "os.write(int(os.environ['TOUCHSTONE_SAMPLE_NOW']), b'.'); time.sleep(1)\n"
        "say(awake=time.monotonic())\n"
        "say(event='result', status='ok', reason=None)",
        interval=60.0,
    )
    assert len(run.rows) == 2
    assert run.events[0]["slept"] <= run.rows[1]["t"] <= run.events[1]["awake"]


def test_the_runner_dies_with_its_supervisor(tmp_path, root):
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from touchstone.measure.supervisor import supervise\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from fixtures.specs import training_spec\n"
        "command = [sys.executable, '-c', 'import os, sys, time; print(os.getpid(), flush=True);"
        "time.sleep(3600)']\n"
        "supervise(training_spec(), command, Path('.'), Path('log'))\n"
    )
    folders = [root / "workflow/scripts", root / "tests"]
    process = subprocess.Popen([sys.executable, "-c", text, *map(str, folders)], cwd=tmp_path)
    try:
        log = tmp_path / "log"
        while not (log.exists() and log.read_text().strip()):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    wait_for_the_end_of(int(log.read_text()))
