"""The kit for a GPU, rehearsed on the CPU in an environment that exists."""

import json
import zipfile

import pytest

from fixtures.commands import start
from fixtures.runs import edit_json
from touchstone.commands import check_gpu
from touchstone.errors import UsageError
from touchstone.gpu_check.steps import Kit
from touchstone.measure import skip
from touchstone.results.bundle import read_manifest


@pytest.mark.release
def test_the_kit_runs_from_end_to_end_on_a_cpu_and_repeats_nothing(python_of, tmp_path):
    folder = tmp_path / "kit"
    options = ["--device", "cpu", "--python", python_of("pytorch"), "--output", folder]
    options += ["--soak-seconds", 1]
    ended = start("check-gpu", *options)
    assert ended.returncode == 0, ended.stderr
    steps = {path.stem: json.loads(path.read_text()) for path in (folder / "steps").glob("*.json")}
    assert {name for name, one in steps.items() if "failed" in one} == set(), ended.stderr
    named = {"facts", "rounding", "sensors", "soak", "certificate-lenet5-pytorch", "experts"}
    assert named <= set(steps)
    assert {"ours", "expert"} <= {row["side"] for row in steps["experts"]["rows"]}
    certificate = steps["certificate-lenet5-pytorch"]
    assert certificate["fp64"]["within"] and certificate["fp32"]["within"]
    assert certificate["bf16"]["deviations"]["forward"] > 1e-4
    # The sensor counts the CPU time that the load knows of itself.
    sensors = steps["sensors"]
    assert 0.5 < sensors["cpu_seconds"] / sensors["load"]["cpu_seconds"] < 1.2
    records = [json.loads(path.read_text()) for path in folder.rglob("records/*/rep1.json")]
    # No CPU has TF32.
    statuses = {(one["factors"]["precision"] == "tf32", one["status"]) for one in records}
    assert statuses == {(False, "ok"), (True, "unsupported")}
    with zipfile.ZipFile(folder / "gpu-check.zip") as file:
        assert {"results/bundle.zip", "results/report/index.html"} <= set(file.namelist())
    assert read_manifest(folder / "results/bundle.zip")["study"] == "gpu-check"
    again = start("check-gpu", *options)
    assert again.returncode == 0 and again.stderr.count("done before") == len(steps)
    late = next(path for path in folder.rglob("records/*/rep1.json") if "lenet5" in str(path))
    edit_json(late, status="timeout")
    assert start("check-gpu", *options).returncode == 0
    assert json.loads(late.read_text())["status"] != "timeout"


def test_only_what_is_asked_for_in_its_order():
    names = ["facts", "pytorch-a", "jax-a", "jax-b", "turns"]
    assert check_gpu._named(names, []) == names
    assert check_gpu._named(names, ["turns", "jax", "-a"]) == [
        "turns",
        "jax-a",
        "jax-b",
        "pytorch-a",
    ]
    with pytest.raises(UsageError, match="--only caffe mxnet: no step or cell"):
        check_gpu._named(names, ["caffe", "jax", "mxnet"])


def test_without_pytorch_or_a_gpu_it_says_what_to_do(tmp_path):
    ended = start("check-gpu", "--device", "cpu", "--output", tmp_path / "kit")
    assert ended.returncode == 2 and "it has no PyTorch" in ended.stderr
    assert not (tmp_path / "kit").exists()


def test_on_a_gpu_the_study_has_every_framework_that_is_there(python_of):
    plan = check_gpu._plan(Kit("gpu", python_of("pytorch")))
    assert {cell.framework for cell in plan.cells.values()} == {"pytorch"}
    assert {cell.device for cell in plan.cells.values()} == {"gpu"}
    assert next(iter(plan.cells.values())).network == "resnet50"
    assert [cell.network for cell in plan.cells.values() if cell.mode == "compile_graphs"] == [
        "resnet20-cifar"
    ]


def test_nobody_takes_turns_before_two_frameworks_have_run_the_same(
    python_of, tmp_path, monkeypatch, capsys
):
    kit = Kit("cpu", python_of("pytorch"))
    monkeypatch.chdir(tmp_path)
    check_gpu._turns(check_gpu._plan(kit), kit, 0.0)
    assert "turns  left out: no two frameworks" in capsys.readouterr().err


@pytest.mark.skipif(skip.no_device("gpu") is None, reason="this machine may have a GPU")
def test_without_a_gpu_it_says_how_to_rehearse(python_of, tmp_path):
    ended = start("check-gpu", "--python", python_of("pytorch"), "--output", tmp_path / "kit")
    assert ended.returncode == 2 and "`--device cpu` rehearses" in ended.stderr
    assert not (tmp_path / "kit").exists()
