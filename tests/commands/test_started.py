"""Each command, started once: exit status and messages are those of the call in a test's process.

What the commands do is tested by calls (`fixtures.commands.call`), all over `tests/`.
"""

import json
import subprocess
import sys

import numpy as np
import pytest

from fixtures.commands import call, start
from touchstone import __version__
from touchstone.cli import names
from touchstone.paths import CLI

STARTS = {
    "bundle": (("none", "--output", "bundle.zip"), 1, "error: "),
    "check-config": (("study.yaml",), 1, "error: "),
    "check-gpu": (("--device", "none"), 2, "usage: touchstone "),
    "check-published": (("table.csv", "--output", "found.csv"), 2, "error: "),
    "check-style": (("--root", "."), 1, "error: "),
    "compare": (("none", "none"), 2, "usage: touchstone compare "),
    "compare-parity": (("net", "a.npz", "b.npz", "--output", "net.json"), 0, ""),
    "convert": (
        ("none", "--source", ".", "--format", "lmdb", "--output", "out", "--config-folder", "."),
        1,
        "error: ",
    ),
    "describe-folder": ((".", "--test-share", "2", "--output", "a"), 2, "usage: touchstone "),
    "document-config": (("more",), 2, "usage: touchstone "),
    "document-findings": (("more",), 2, "usage: touchstone "),
    "document-record": (("more",), 2, "usage: touchstone "),
    "document-run": (("more",), 2, "usage: touchstone "),
    "download": (("none", "--output", "out", "--config-folder", "."), 1, "error: "),
    "gather": (
        ("--plan", "none", "--records", "none", "--output", "out", "--findings", "findings.json"),
        1,
        "error: ",
    ),
    "in-env": (("none.yaml", "environments"), 1, "error: "),
    "install": (("none.txt",), 1, "error: "),
    "interleave": (("--plan", "none"), 2, "usage: touchstone "),
    "judge": (
        ("--plan", "none", "--config", "study.yaml", "--tables", "none", "--records", "none")
        + ("--output", "out", "--page", "page.html"),
        1,
        "error: ",
    ),
    "max-batch": (("--cell", "{"), 2, "usage: touchstone "),
    "merge": (("one.zip", "--output", "out"), 1, "error: "),
    "parity": (("lenet5",), 2, "usage: touchstone "),
    "parse": (("none", "--output", "record.json"), 1, "error: "),
    "pin": ((), 2, "usage: touchstone "),
    "plan": (("--config", "{", "--plan", "p.tsv", "--resolved", "r.yaml"), 2, "usage: touchstone "),
    "plot": (
        ("--plan", "none", "--tables", "none", "--records", "none", "--findings", "none")
        + ("--output", "out"),
        1,
        "error: ",
    ),
    "export": (("pyperf", "none", "--output", "a.json"), 1, "error: "),
    "profile": (("--run", "none", "--output", "a.json", "--log", "a.log"), 1, "error: "),
    "release-lock": ((), 0, ""),
    "repeat": (("disturbed", "study.yaml"), 1, "error: "),
    "report": (
        ("--findings", "none", "--figures", "none", "--config", "none", "--output", "page.html"),
        1,
        "error: ",
    ),
    "run": (("--cell", "{"), 2, "usage: touchstone "),
    "run-node": (("--at", "here"), 2, "usage: touchstone "),
    "tabulate-parity": (("certificate.json", "--output", "parity.csv"), 1, "error: not shown "),
    "verify": ((".",), 0, ""),
    "wheels": (("none",), 1, "error: none: no such environment; there are base, "),
}
"""By command: arguments, exit status, how its messages begin."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a fault for each command that reads a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("colour: blue\n")
    (tmp_path / "table.csv").write_text("metric,unit,value\n")
    np.savez(tmp_path / "a.npz", unsupported="no layer x")
    np.savez(tmp_path / "b.npz", unsupported="no layer y")
    entry = {"equal": False, "deviations": {}, "beyond": ["fp64 update"]}
    certificate = {"network": "net", "reference": "a", "frameworks": {"b": entry}}
    certificate |= {"format": 1, "tolerances": {}}
    (tmp_path / "certificate.json").write_text(json.dumps(certificate))
    return tmp_path


def test_every_command_is_started():
    assert sorted(STARTS) == names()


@pytest.mark.parametrize("name", STARTS)
def test_a_started_command_ends_as_a_called_one_does(name, folder):
    arguments, status, begin = STARTS[name]
    started, called = start(name, *arguments), call(name, *arguments)
    assert started.returncode == called.returncode == status
    assert (started.stdout, started.stderr) == (called.stdout, called.stderr)
    assert started.stderr.startswith(begin) and bool(started.stderr) == bool(status)
    assert "Traceback" not in started.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "output", "errors"),
    [
        (["--version"], 0, f"touchstone {__version__}\n", ""),
        ([], 2, "", "usage: touchstone "),
        (["colour"], 2, "", "usage: touchstone "),
    ],
)
def test_the_program_names_its_version_and_refuses_what_is_no_command(
    arguments, status, output, errors
):
    ended = subprocess.run([sys.executable, CLI, *arguments], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (status, output)
    assert ended.stderr.startswith(errors) and bool(ended.stderr) == bool(errors)


def test_a_python_without_what_a_command_imports_is_named():
    ended = subprocess.run(
        [sys.executable, "-E", "-S", CLI, "check-gpu"], capture_output=True, text=True
    )
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.startswith(f"error: {sys.executable} lacks the module ")
