"""The lock that a killed execution leaves."""

import subprocess
import sys
import time

import pytest

from touchstone.workflow import lock, start

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
