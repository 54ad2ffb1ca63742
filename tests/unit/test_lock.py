"""The lock that a killed execution leaves."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from fixtures.commands import call
from touchstone.driver import Process
from touchstone.measure import folder_lock as lock
from touchstone.schema.variables import DRIVER as DRIVER_VARIABLE
from touchstone.workflow import start

DRIVER = "import time; print(flush=True); time.sleep(600)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a lock as Snakemake writes it."""
    monkeypatch.chdir(tmp_path)
    lock.LOCKS.mkdir(parents=True)
    (lock.LOCKS / "0.input.lock").write_text("results/plan.tsv\n")
    return tmp_path


@pytest.fixture
def living(folder):
    """Another process that looks like an execution of Snakemake in the working folder."""
    program = folder / "snakemake"
    program.write_text(DRIVER)
    process = subprocess.Popen([sys.executable, program], cwd=folder, stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_lock_that_is_left_is_explained(folder, capsys):
    start.check_lock(["snakemake", "--cores", "1"])
    said = capsys.readouterr().err
    assert "`make unlock`" in said and "safe" in said
    start.check_lock(["snakemake", "--unlock"])
    assert capsys.readouterr().err == ""


def test_the_lock_of_a_living_execution_is_its_own(living, capsys):
    assert lock.driver() == living.pid
    start.check_lock(["snakemake"])
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit, match=f"process {living.pid}; end it first"):
        start.check_lock(["snakemake", "--unlock"])
    living.kill()
    living.wait()
    while lock.driver():
        time.sleep(0.01)
    assert lock.is_left()


def test_without_a_lock_there_is_nothing_to_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    start.check_lock(["snakemake"])
    assert capsys.readouterr().err == ""


@pytest.fixture
def killed(folder):
    """The note of an execution that was killed in this folder."""
    process = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE)
    process.stdout.readline()
    lock.OWNER.write_text(f"{Process.of(process.pid)}\n")
    process.kill()
    while Process.read(lock.OWNER.read_text()).is_alive():  # dead, and not yet waited for
        time.sleep(0.01)
    yield process
    process.wait()


def test_the_lock_of_a_dead_owner_is_removed_with_one_line(killed, capsys):
    done = call("release-lock")
    assert done.returncode == 0 and f"process {killed.pid}, was killed" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not list(lock.LOCKS.glob("*"))
    assert call("release-lock").stderr == ""


def test_a_lock_is_kept_whose_owner_may_live(killed, folder):
    owner = Process.read(lock.OWNER.read_text())
    others = {
        "itself": Process.of(os.getpid()),
        "another boot or machine": owner._replace(world="0000/pid:[1]"),
        "no one knows who": "",
    }
    for why, other in others.items():
        lock.OWNER.write_text(f"{other}\n")
        assert lock.release() == "" and lock.is_left(), why
    # A number that the system gave to another process names a dead one.
    lock.OWNER.write_text(f"{Process.of(os.getpid())._replace(started='1')}\n")
    assert lock.release() != ""


@pytest.fixture
def writer(folder):
    """A process that has a file of the results open."""
    (folder / "results").mkdir()
    code = f"file = open('results/events.jsonl', 'w'); {DRIVER}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_lock_is_kept_while_a_process_has_results_open(killed, writer, monkeypatch):
    monkeypatch.setattr(lock, "ENDS", 0.0)
    assert lock.release() == "" and lock.is_left()


def test_a_lock_waits_for_the_jobs_of_its_dead_owner(killed, writer, monkeypatch):
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: writer.kill())
    assert lock.release() != ""


def test_a_lock_is_kept_while_another_execution_runs(killed, living, monkeypatch):
    monkeypatch.setattr(lock, "ENDS", 0.0)
    assert lock.release() == "" and list(lock.LOCKS.glob("*.lock"))


JOB = "import subprocess, sys, time; from touchstone.driver import end_with_it; end_with_it(); "
JOB += "print(flush=True); time.sleep(600)"
LEADER = "import subprocess, sys, time; from touchstone.driver import lead; lead(); "
LEADER += f"job = subprocess.Popen([sys.executable, '-c', {JOB!r}], stdout=subprocess.PIPE); "
LEADER += "job.stdout.readline(); print(job.pid, flush=True); time.sleep(600)"


def test_a_job_ends_with_its_driver(root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root / "workflow/scripts"))
    leader = subprocess.Popen([sys.executable, "-c", LEADER], stdout=subprocess.PIPE, text=True)
    job = psutil.Process(int(leader.stdout.readline()))
    assert job.is_running()
    leader.kill()
    leader.wait()
    job.wait(timeout=30)


def test_a_job_elsewhere_watches_nobody(root, monkeypatch):
    """That of a cluster has the number of a process of another machine."""
    monkeypatch.setenv("PYTHONPATH", str(root / "workflow/scripts"))
    gone = Process.of(os.getpid())._replace(number=2**22 + 1, world="0000/pid:[1]")
    monkeypatch.setenv(DRIVER_VARIABLE, str(gone))
    job = subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE)
    assert job.stdout.readline() and job.poll() is None
    job.kill()
    job.wait()


def test_a_job_of_slurm_outlives_the_driver_that_submitted_it(root, monkeypatch):
    """It may run on the same machine, with the driver's variables."""
    monkeypatch.setenv("PYTHONPATH", str(root / "workflow/scripts"))
    gone = Process.of(os.getpid())._replace(number=2**22 + 1)
    monkeypatch.setenv(DRIVER_VARIABLE, str(gone))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    job = subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE)
    assert job.stdout.readline() and job.poll() is None
    job.kill()
    job.wait()
