"""Interrupted and killed executions, on real runs: they end within seconds, and the same command
continues."""

import contextlib
import os
import signal
import time
from itertools import product

import psutil
import pytest

from fixtures.interpreters import plant
from fixtures.tiers import tiered
from touchstone.environments import ensure
from touchstone.signals import INTERRUPTIONS
from workflow.project import ENVIRONMENTS, OPERATION, ROOT, Project

END = 10.0
"""Seconds after which nothing of an interrupted execution is left."""
LONG = {"sets": 3, "rounds": 50, "slice_seconds": 2.0, "max_seconds": 600}
"""Turns that take longer than a test watches them."""


USUAL = {"study": "interrupted", "title": "A test", "repeats": 1, "parity": False}
STAGES = dict.fromkeys(
    ("gather", "plot", "report"), {"sweeps": [{**OPERATION, "framework": "scipy"}]}
) | {
    "convert": {
        "sweeps": [{"framework": "mxnet", "network": "lenet5", "dataset": "mnist-5k", "steps": 2}]
    }
}
"""By command that an execution is interrupted in, what it measures."""


@pytest.fixture(autouse=True)
def heeded():
    """What the tests were started with may ignore a terminal that closes, as nohup does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    """By command that it spends its time in, a project."""
    folder = tmp_path_factory.mktemp("projects")
    pinned = ensure(ROOT / "envs/scipy.yaml", ENVIRONMENTS)
    mine = {"framework": "scipy", "python": str(plant(folder / "mine", beside=pinned))}
    turns = {
        **USUAL, "interleave": LONG, "environments": {"mine": mine}, "defaults": {"threads": 1},
        "sweeps": [{**OPERATION, "framework": "scipy", "environment": ["pinned", "mine"]}],
    }  # fmt: skip
    run = {**USUAL, "sweeps": [{**OPERATION, "framework": "scipy", "operation_seconds": 600}]}
    return {
        "run": Project(folder / "run", ENVIRONMENTS, run),
        "interleave": Project(folder / "turns", ENVIRONMENTS, turns),
    }


def command_of(process, name, runners):
    """Wait until a command of an execution has all of its runners; returns it."""
    while True:
        assert process.poll() is None, process.stdout.read()
        for child in descendants(process):
            words = child.info["cmdline"] or []
            if words[2:3] == [name] and len(child.children()) >= runners:
                return child
        time.sleep(0.05)


def commands(process):
    """The command lines of all processes that an execution has started."""
    return [child.info["cmdline"] or [] for child in descendants(process)]


def descendants(process):
    """All processes that an execution has started."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            child.info = child.as_dict(["cmdline"])
        except psutil.Error:
            continue
        found.append(child)
    return found


def ended(process, others):
    """Wait for the end of an execution and all of its processes, which takes seconds; returns its
    exit status and its output."""
    begin = time.monotonic()
    output, _ = process.communicate(timeout=120)
    left = psutil.wait_procs(others, timeout=begin + END - time.monotonic())[1]
    assert time.monotonic() - begin < END and not left, (left, output)
    return process.returncode, output


RUNNERS = {"run": 1, "interleave": 2}
"""How many runners a command has."""
KEPT = {"run": "0 of 1", "interleave": "all 2"}
"""What is kept of the runs of a project that is interrupted in a command."""


@pytest.mark.parametrize(
    ("number", "name"),
    tiered(product(INTERRUPTIONS, RUNNERS), lambda case: case == (signal.SIGTERM, "interleave")),
)
def test_an_interrupted_execution_ends_within_seconds_with_one_line(projects, name, number):
    """The signal comes to the driver only; a terminal sends it to its jobs too."""
    process = projects[name].start("--cores", "all")
    command_of(process, name, RUNNERS[name])
    others = descendants(process)
    process.send_signal(number)
    status, output = ended(process, others)
    last = output.rstrip().splitlines()[-1]
    assert last == f"Interrupted: {KEPT[name]} runs are kept. The same command continues.", output
    assert "Traceback" not in output and "Error" not in output and status == 128 + number
    assert not projects[name].locked()


def test_ctrl_c_in_a_terminal_prints_no_traceback(projects):
    """It reaches the driver, the shells and the commands at the same time."""
    process = projects["interleave"].start("--cores", "all")
    supervisor = command_of(process, "interleave", 2)
    others = descendants(process)
    group = os.getpgid(supervisor.pid)
    for member in (process, *others):
        with contextlib.suppress(ProcessLookupError):  # some end by themselves
            if os.getpgid(member.pid) == group:
                os.kill(member.pid, signal.SIGINT)
    status, output = ended(process, others)
    assert status == 128 + signal.SIGINT and "Traceback" not in output and "Error" not in output
    assert output.count("Interrupted: ") == 1


@pytest.mark.long
def test_an_execution_that_is_interrupted_while_it_plans_says_so(projects):
    project = projects["run"]
    plans = 'BEFORE_RUNS = print("planning", flush=True)\nimport time\n\ntime.sleep(600)'
    project.edit("workflow/rules/common.smk", "BEFORE_RUNS = len(PLAN.order) + 1", plans)
    process = project.start("--cores", "all")
    while "planning" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    status, output = ended(process, [])
    project.edit("workflow/rules/common.smk", plans, "BEFORE_RUNS = len(PLAN.order) + 1")
    assert status == 128 + signal.SIGINT and "Traceback" not in output
    assert "Interrupted: " in output and not project.locked()


SLOW = """
import time

_quick = run


def run(arguments):
    time.sleep(600)
"""
"""Added to a command, it takes ten minutes."""


def interrupt(project, is_awaited):
    """Interrupt an execution as soon as it has started an awaited command: it ends in one line."""
    process = project.start("--cores", "all")
    while not any(map(is_awaited, commands(process))):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)
    others = descendants(process)
    process.send_signal(signal.SIGINT)
    status, output = ended(process, others)
    assert status == 128 + signal.SIGINT and "Traceback" not in output
    assert output.rstrip().splitlines()[-1].startswith("Interrupted: "), output


@pytest.mark.long
@pytest.mark.parametrize("command", STAGES)
def test_an_execution_that_is_interrupted_beside_its_runs_continues(tmp_path, command):
    """A stage of data, or one after the runs: no result is lost, and nothing is left."""
    project = Project(tmp_path / "project", ENVIRONMENTS, {**USUAL, **STAGES[command]})
    project.add(f"commands/{command}", SLOW)
    interrupt(project, lambda words: words[2:3] == [command])
    kept = {path: path.stat().st_mtime_ns for path in project.folder.glob("results/runs/**/rep*")}
    assert bool(kept) == (command != "convert") and not project.locked()
    project.add(f"commands/{command}", "run = _quick\n")
    assert "Report: " in project.run("--cores", "all")
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in kept}.items()


@pytest.mark.long
def test_an_installation_that_is_interrupted_is_made_again(tmp_path):
    config = {**USUAL, **STAGES["report"]}
    project = Project(tmp_path / "project", tmp_path / "environments", config)
    interrupt(project, lambda words: "install" in words)
    assert "Report: " in project.run("--cores", "all")


@pytest.mark.long
@pytest.mark.parametrize("name", RUNNERS)
def test_a_supervisor_that_is_killed_is_tried_again(projects, name):
    process = projects[name].start("--cores", "all")
    supervisor = command_of(process, name, RUNNERS[name])
    runners = supervisor.children()
    supervisor.kill()
    assert not psutil.wait_procs(runners, timeout=END)[1]
    again = command_of(process, name, RUNNERS[name])
    assert again.pid != supervisor.pid
    others = descendants(process)
    process.send_signal(signal.SIGTERM)
    assert "Trying to restart job" in ended(process, others)[1]


@pytest.mark.long
@pytest.mark.parametrize("name", RUNNERS)
def test_nothing_is_left_of_an_execution_whose_driver_is_killed(projects, name):
    process = projects[name].start("--cores", "all")
    command_of(process, name, RUNNERS[name])
    others = descendants(process)
    process.kill()
    ended(process, others)
    assert projects[name].locked()
    assert "was killed: its lock is removed" in projects[name].command("release-lock")
    rule = {"run": "train"}.get(name, name)
    assert projects[name].jobs()[rule] == 1
