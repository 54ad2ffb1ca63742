"""The kit for a GPU, rehearsed on the CPU in an environment that exists."""

import json
import zipfile

import pytest

from fixtures.commands import start
from touchstone.results.bundle import read_manifest


@pytest.mark.long
def test_the_kit_runs_from_end_to_end_on_a_cpu_and_repeats_nothing(python_of, tmp_path):
    folder = tmp_path / "kit"
    options = ["--device", "cpu", "--python", python_of("pytorch"), "--output", folder]
    options += ["--soak-seconds", 1]
    ended = start("check-gpu", *options)
    assert ended.returncode == 0, ended.stderr
    steps = {path.stem: json.loads(path.read_text()) for path in (folder / "steps").glob("*.json")}
    assert {name for name, one in steps.items() if "failed" in one} == set(), ended.stderr
    assert {"facts", "rounding", "sensors", "soak", "certificate-lenet5-pytorch"} <= set(steps)
    certificate = steps["certificate-lenet5-pytorch"]
    assert certificate["fp64"]["within"] and certificate["fp32"]["within"]
    assert certificate["bf16"]["deviations"]["forward"] > 1e-4
    # The sensor counts the CPU time that the load knows of itself, but for its start and end.
    sensors = steps["sensors"]
    assert 0.5 < sensors["cpu_seconds"] / sensors["load"]["cpu_seconds"] < 1.2
    records = [json.loads(path.read_text()) for path in folder.rglob("records/*/rep1.json")]
    assert records and {one["status"] for one in records} == {"ok"}
    with zipfile.ZipFile(folder / "gpu-check.zip") as file:
        assert {"results/bundle.zip", "results/report/index.html"} <= set(file.namelist())
    assert read_manifest(folder / "results/bundle.zip")["study"]["study"] == "gpu-check"
    again = start("check-gpu", *options)
    assert again.returncode == 0 and again.stderr.count("done before") == len(steps)


def test_without_pytorch_or_a_gpu_it_says_what_to_do(tmp_path):
    ended = start("check-gpu", "--device", "cpu", "--output", tmp_path / "kit")
    assert ended.returncode == 2 and "it has no PyTorch" in ended.stderr
    assert not (tmp_path / "kit").exists()
