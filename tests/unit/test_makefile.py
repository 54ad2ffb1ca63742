"""`make run CONFIG=...` with names that a shell, or `make`, would read as something else."""

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
        f"<workflow/scripts/cli.py><check-config><--><{name}>",
        f"<--cores><all><--configfile><{name}>",
    ]
    assert not (tmp_path / "pwned").exists()


def test_without_a_name_the_default_study_runs(make):
    assert make("run") == "<--cores><all>\n"
