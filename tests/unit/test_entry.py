"""The command `touchstone`: its help, and what it hands on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.cli import parse_args

from touchstone import cli, entry, started
from touchstone.schema.variables import PROFILE, STARTED


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Each test leaves the environment as it was."""
    monkeypatch.setenv(STARTED, started.TOUCHSTONE)


def test_the_help_has_the_commands_for_users_with_a_line_each():
    listed = {name: text for group in entry.commands().values() for name, text in group.items()}
    assert {"run", "check", "compare", "verify", "describe-folder", "bundle"} <= set(listed)
    assert not {"parse", "gather", "in-env", "run-node", "pin"} & set(listed)
    assert {entry.SHORT.get(name, name) for name in listed} - {*entry.OWN} < {*cli.names()}
    for name, text in listed.items():
        assert f"\n  {name:16} {text.rstrip('.')}\n" in entry.help_text() and len(text) > 20
    assert all(entry.commands().values())


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_without_a_command_it_prints_the_help(capsys, words):
    entry.main(words)
    assert capsys.readouterr().out.startswith("usage: touchstone COMMAND")


@pytest.fixture
def executed(monkeypatch, tmp_path):
    """What replaces the process."""
    found = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda path, words: found.append(words))
    return found


def test_a_study_is_checked_and_run_in_the_working_folder(executed, root):
    study = str(root / "config/studies/machine-check.yaml")
    entry.main(["run", study, "--printshellcmds"])
    (words,) = executed
    start = [sys.executable, "-m", "snakemake", "--snakefile", str(root / "Snakefile")]
    start += entry._profile_options()
    assert words == [*start, "--cores", "all", f"--configfile={study}", "--printshellcmds"]
    entry.main(["machine-check", "--cores", "2"])
    assert executed[1] == [*start, f"--configfile={study}", "--cores", "2"]
    entry.main(["run"])
    assert executed[2] == [*start, "--cores", "all"]
    entry.main(["run", "--cores", "2"])
    assert executed[3] == [*start, "--cores", "2"]


def test_snakemake_gets_the_settings_of_the_profile_without_its_line(executed, root, capsys):
    entry.main(["run", "--cores", "2"])
    given = executed[0][3:]
    ours = vars(parse_args(given)[1])
    assert capsys.readouterr().err == ""
    theirs = vars(parse_args([*given[:2], "--cores", "2"])[1])
    assert "Using workflow specific profile" in capsys.readouterr().err
    assert ours.pop("workflow_profile") == "none" and not theirs.pop("workflow_profile")
    for options in (ours, theirs):
        options["max_jobs_per_timespan"] = vars(options["max_jobs_per_timespan"])
    assert ours == theirs and ours["rerun_triggers"]


@pytest.mark.parametrize("how", ["option", "variable", "folder"])
def test_a_profile_of_the_user_is_left_to_snakemake(how, executed, monkeypatch):
    words = ["--profile=mine"] if how == "option" else []
    if how == "variable":
        monkeypatch.setenv(PROFILE, "mine")
    if how == "folder":
        Path("profiles/default").mkdir(parents=True)
    entry.main(["run", *words])
    assert "--workflow-profile" not in executed[0]


def test_the_name_of_a_study_may_begin_as_an_option(executed, monkeypatch):
    monkeypatch.setattr(entry, "_ours", lambda *words: None)
    entry.main(["run", "--", "-n.yaml"])
    assert executed[0][-1] == "--configfile=-n.yaml"


def test_the_help_of_run_is_ours(capsys):
    entry.main(["run", "--help"])
    assert capsys.readouterr().out.startswith("usage: touchstone run [STUDY]")


def test_a_dry_run_removes_no_lock(executed, monkeypatch):
    called = []
    monkeypatch.setattr(cli, "main", called.append)
    for words in (["-n"], ["--dry-run"], []):
        entry.main(["run", *words])
    assert called == [["release-lock"]] and len(executed) == 3


def test_the_option_of_a_dry_run_may_come_first(executed, root, monkeypatch):
    monkeypatch.setattr(entry, "_ours", lambda *words: None)
    entry.main(["run", "-n", "my.yaml", "--quiet"])
    (command,) = executed
    assert "--configfile=my.yaml" in command
    assert command[-2:] == ["-n", "--quiet"]


def test_a_study_with_faults_is_not_run(executed, tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text("study: bad\n")
    with pytest.raises(SystemExit) as ended:
        entry.main(["run", "bad.yaml"])
    assert "bad.yaml: without title, sweeps" in str(ended.value) and executed == []


def test_messages_name_it_where_it_was_the_start():
    started.note(["--cores", "all"])
    assert os.environ[STARTED] == started.TOUCHSTONE
    assert started.verify() == "touchstone verify"
    assert started.unlock() == "touchstone run --unlock"
    assert started.repeat("all", "my study.yaml") == (
        "touchstone repeat all 'my study.yaml' && touchstone run 'my study.yaml'"
    )


def test_a_checkout_has_it(root):
    program = [sys.executable, root / "workflow/scripts/start.py", "--help"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.stdout == entry.help_text() + "\n", done.stderr
