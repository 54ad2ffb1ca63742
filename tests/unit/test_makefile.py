"""`make` with names of studies that a shell, or `make`, would read as something else, and with an
environment that is a link."""

import os
import shutil
import subprocess

import pytest

SHOWN = '#!/bin/sh\nprintf "<%s>" "$@"; echo\n'

NAMES = [
    "study.yaml", "my study.yaml", "it's.yaml", 'a "b".yaml', "$(touch pwned).yaml", "a;b.yaml",
    "a;touch pwned", "`touch pwned`.yaml", "$(shell touch pwned).yaml", "a$b.yaml", "a#b.yaml",
    "a&touch pwned&.yaml", "*.yaml", "-n.yaml", "a\\b.yaml", "ü 文.yaml",
]  # fmt: skip


@pytest.fixture
def make(tmp_path, root):
    """Call `make` where its programs print what they are given."""
    shutil.copy(root / "Makefile", tmp_path)
    for name in ("envs/base.yaml", ".venv/base", ".venv/bin/python", ".venv/bin/snakemake"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHOWN)
        path.chmod(0o755)
    os.utime(tmp_path / "envs/base.yaml", (0, 0))
    variables = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}

    def run(*words):
        return subprocess.run(
            ["make", "--no-print-directory", *words],
            cwd=tmp_path, env=variables, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    return run


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_study_is_passed_on_as_it_is(name, make, tmp_path):
    assert make("run", f"CONFIG={name}").splitlines() == [
        f"<workflow/scripts/start.py><run><--><{name}>",
    ]
    assert not (tmp_path / "pwned").exists()


def test_without_a_name_the_default_study_runs(make):
    assert make("run") == "<workflow/scripts/start.py><run>\n"


@pytest.mark.parametrize("word", ["disturbed", "$(shell touch pwned)", "a b"])
def test_runs_that_are_to_be_repeated_are_passed_on(make, word, tmp_path):
    line, _ = make("run", "CONFIG=one.yaml", f"RERUN={word}").splitlines()
    assert line == f"<workflow/scripts/cli.py><repeat><--><{word}><one.yaml>"
    line, _ = make("run", f"RERUN={word}").splitlines()
    assert line == f"<workflow/scripts/cli.py><repeat><--><{word}>"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", ["base", "dev"])
def test_an_environment_that_is_a_link_is_left_alone(make, tmp_path, root, name):
    shared = (tmp_path / ".venv").rename(tmp_path / "shared")
    (tmp_path / ".venv").symlink_to(shared)
    shutil.copy(root / "envs/dev.yaml", tmp_path / "envs")
    (shared / "dev").touch()
    times = {"envs/base.yaml": 0, "envs/dev.yaml": 0, "shared/base": 1, "shared/dev": 2}
    for file, seconds in {**times, f"envs/{name}.yaml": 3}.items():  # what is asked for is old
        os.utime(tmp_path / file, (seconds, seconds))
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make(f".venv/{name}")
    assert refused.value.stderr.startswith(
        f"error: .venv is a link to {shared}, which may be another folder's: nothing is installed "
        "there; remove the link with `rm .venv`, and run make again\n"
    )
    assert {path: path.stat().st_mtime_ns for path in shared.rglob("*")} == before
