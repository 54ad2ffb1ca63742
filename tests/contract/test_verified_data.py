"""Every framework: no run on damaged records is `ok`, and a repair lets it pass."""

import json
import shutil
import tempfile

import numpy as np
import pytest

from fixtures.commands import call
from fixtures.records import require_valid
from fixtures.specs import FEW_STEPS
from touchstone.environments import installed
from touchstone.measure import order
from touchstone.plan import frameworks
from touchstone.schema.variables import DEPLOYMENT, ENVS

CELL = {
    "network": "lenet5", "dataset": "mnist-5k", "wait_policy": "passive",
    "time_limit_factor": None, **FEW_STEPS,
}  # fmt: skip


@pytest.fixture
def record_of(tmp_path, monkeypatch, python_of):
    """Make a run as the workflow does, in `tmp_path`: its record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(DEPLOYMENT, "venv")
    monkeypatch.setenv(ENVS, str(installed()))

    def run(framework, **settings):
        python_of(framework)
        mode = frameworks.modes(framework)[0]
        cell = json.dumps({**CELL, "framework": framework, "mode": mode, **settings})
        folder = tmp_path / "results/runs/cell/rep1"
        options = ["--cell", cell, "--repeat", 1, "--attempt", 2, "--run", folder]
        done = call("run", *options, "--log", folder / "train.log")
        assert done.returncode == 0, done.stderr
        done = call("parse", folder, "--output", "record.json")
        assert done.returncode == 0, done.stderr
        record = json.loads((tmp_path / "record.json").read_text())
        require_valid(record)
        return record

    return run


@pytest.mark.parametrize("framework", frameworks.names())
def test_a_flipped_byte_ends_a_run_and_a_repair_lets_it_pass(framework, record_of, study, tmp_path):
    kind = frameworks.record_format(framework)
    whole = study.folder / "results/data/mnist-5k" / kind
    folder = tmp_path / "results/data/mnist-5k" / kind
    shutil.copytree(whole, folder)
    splits = json.loads((folder / "manifest.json").read_text())["splits"]
    path = folder / max(splits["train"]["files"], key=lambda file: file["bytes"])["name"]
    content = bytearray(path.read_bytes())
    content[np.random.RandomState(1).randint(len(content))] ^= 1
    path.write_bytes(content)
    for given in ("memory", "records"):
        record = record_of(framework, input=given)
        assert record["status"] == "error"
        assert record["reason"].startswith(f"{path.relative_to(tmp_path)}: its SHA-256 is not")
    done = call("verify", "--repair")
    assert done.returncode == 0 and f"deleted {path.relative_to(tmp_path)}: " in done.stdout
    assert not path.exists() and not (folder / "manifest.json").exists()
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    record = record_of(framework, input="records")
    assert record["status"] == "ok", record["reason"]
    data = record["provenance"]["data"]
    assert data["folder"] == f"results/data/mnist-5k/{kind}"
    assert data["files"] == sum(len(split["files"]) for split in splits.values())
