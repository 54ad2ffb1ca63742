"""The package that is built of the project, installed in an environment of its own."""

import os
import subprocess
import sys

import pytest
import yaml

from touchstone.paths import ROOT
from workflow.project import ENVIRONMENTS, OPERATION

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def touchstone(tmp_path_factory):
    """The command, installed from a wheel."""
    folder = tmp_path_factory.mktemp("installed")

    def run(*words):
        subprocess.run(list(map(str, words)), check=True, capture_output=True)

    run(sys.executable, "-m", "pip", "wheel", "--no-deps", ROOT, "-w", folder / "wheels")
    run(sys.executable, "-m", "venv", folder / "venv")
    (wheel,) = (folder / "wheels").glob("*.whl")
    python = folder / "venv/bin/python"
    run(sys.executable, "-m", "uv", "pip", "install", "--python", python, wheel)
    return folder / "venv/bin/touchstone"


def test_a_study_runs_in_any_folder(touchstone, tmp_path):
    study = {
        "study": "mine", "title": "A product", "repeats": 2, "parity": False, "interleave": None,
        "sweeps": [{**OPERATION, "framework": "scipy"}],
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own = {**kept, "TOUCHSTONE_ENVS": str(ENVIRONMENTS), "HOME": str(tmp_path / "home")}

    def run(*words):
        return subprocess.run(
            [touchstone, "run", "mine.yaml", *words],
            cwd=tmp_path, capture_output=True, text=True, env=own,
        )  # fmt: skip

    planned = run("-n").stderr.splitlines()
    assert len(planned) <= 10 and any(line.startswith("2 runs: about ") for line in planned)
    assert "Other steps: gather, parse run 2, plan, plot, report" in planned
    done = run()
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in run("-n").stdout
    assert "run 2 of 2" in done.stderr and "results/report/mine/index.html" in done.stderr
    assert (tmp_path / "results/report/mine/index.html").exists()
    verified = subprocess.run([touchstone, "verify"], cwd=tmp_path, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
