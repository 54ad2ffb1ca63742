"""The commands that messages name fit how the reader started, and do what they say."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from touchstone import started
from touchstone.datasets.errors import repair
from touchstone.measure import folder_lock
from touchstone.paths import CLI
from touchstone.schema.variables import STARTED

STARTS = {
    "plain": ("--cores 1", "snakemake --cores 1"),
    "nothing": ("", "snakemake --cores all"),
    "conda": ("--use-conda --cores 2 --configfile a.yaml", "snakemake --use-conda --cores 2"),
    "Slurm": ("--profile profiles/slurm -n", "snakemake --profile profiles/slurm"),
    "elsewhere": ("-d '/my results' --cores=all", "snakemake -d '/my results' --cores=all"),
}
"""What Snakemake was started with, and how every later command begins."""


@pytest.mark.parametrize("case", STARTS)
def test_commands_fit_how_the_reader_started(case, monkeypatch, tmp_path):
    monkeypatch.delenv(STARTED)
    monkeypatch.chdir(tmp_path)
    given, start = STARTS[case]
    started.note(shlex.split(given))
    assert started.again("--unlock") == started.unlock() == f"{start} --unlock"
    assert f"type `{start} --unlock`" in folder_lock.left_text()
    own, study = f"{sys.executable} {CLI}", "'my study.yaml'"
    before, after = "", ""
    if case == "elsewhere":  # the reader is in another folder than the results
        study = f"'{tmp_path}/my study.yaml'"
        before, after = f"(cd {tmp_path} && ", ")"
    assert repair().startswith(f"`{before}{own} verify --repair{after}` ")
    assert started.repeat("all", "my study.yaml") == (
        f"{before}{own} repeat all {study}{after} && {start} --configfile {study}"
    )


def test_who_uses_make_is_told_of_make(monkeypatch):
    monkeypatch.setenv(STARTED, "make")
    started.note(["--cores", "all"])
    assert (started.unlock(), started.verify()) == ("make unlock", "make verify")
    assert repair().startswith("`make verify REPAIR=1` ")
    assert started.repeat("all", "a b.yaml") == "make run CONFIG='a b.yaml' RERUN=all"


def test_a_command_by_hand_fits_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(STARTED)
    monkeypatch.chdir(tmp_path)
    assert not started.by_make()
    Path(".venv").mkdir()
    for path in (Path("Makefile"), Path(".venv/base")):
        path.touch()
    assert started.by_make()


def test_the_command_that_repairs_does_it(monkeypatch, tmp_path):
    """Taken at its word, by a shell."""
    monkeypatch.setenv(STARTED, "snakemake --cores all")
    monkeypatch.chdir(tmp_path)
    manifest = Path("results/data/toy/png/manifest.json")
    manifest.parent.mkdir(parents=True)
    manifest.write_text("damaged")
    assert subprocess.run(started.verify(), shell=True, capture_output=True).returncode == 1
    done = subprocess.run(started.verify(repair=True), shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and not manifest.exists()
    assert f"type: snakemake --cores all {manifest}" in done.stdout
    assert subprocess.run(started.verify(), shell=True, capture_output=True).returncode == 0
