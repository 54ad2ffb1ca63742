"""The package that is built of the project, installed in an environment of its own."""

import os
import subprocess
import sys

import pytest
import yaml
from PIL import Image

from touchstone.paths import ROOT
from touchstone.schema.variables import STARTED
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
    kept = {name: os.environ[name] for name in os.environ.keys() - {"PYTHONPATH", STARTED}}
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


def test_a_data_set_that_is_described_in_a_folder_is_used_there(touchstone, tmp_path):
    for name, grey in (("cat", 0), ("dog", 255)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(10):
            image = Image.new("L", (28, 28), abs(grey - number))
            image.save(tmp_path / "pets" / name / f"{number}.png")
    sweep = {"framework": "pytorch", "network": "lenet5", "dataset": "pets", "batch_size": 4}
    study = {"study": "pets", "title": "Pets", "sweeps": [sweep]}
    (tmp_path / "pets.yaml").write_text(yaml.safe_dump(study))
    own = ("--test-share", "0.2", "--output", "config/datasets/pets.yaml")
    for words in (("describe-folder", "pets", *own), ("check", "pets.yaml")):
        done = subprocess.run([touchstone, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "pets: 1 cell, 3 runs" in done.stdout
