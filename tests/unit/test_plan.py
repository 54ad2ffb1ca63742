"""The plan: cells, names, order, and what a configuration is refused for."""

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml

from fixtures.studies import faults
from touchstone.paths import ROOT, brace_fault
from touchstone.plan import devices, frameworks
from touchstone.plan.deployment import deployment_fault
from touchstone.plan.estimate import estimate
from touchstone.plan.max_batch import as_planned, searches
from touchstone.plan.model import Cell, Study
from touchstone.plan.parts import Interleave
from touchstone.plan.read import ConfigError, canonical, name_of, read, read_on_default
from touchstone.plan.spec import make_spec, spec_digests
from touchstone.plan.study import check_results, make_plan


def test_sweeps_are_crosses_in_their_order(study, root):
    plan = make_plan(study, root)
    assert list(plan.cells) == [
        "pytorch-lenet5-mnist-5k-cpu-fp32-b32-lr0.1",
        "pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.1",
        "mxnet-lenet5-mnist-5k-cpu-fp32-b32-lr0.1",
        "mxnet-lenet5-mnist-5k-cpu-fp32-b64-lr0.1",
        "tensorflow-lenet5-mnist-5k-cpu-fp32-b64-lr1.0",
    ]
    assert plan.cells["mxnet-lenet5-mnist-5k-cpu-fp32-b32-lr0.1"].mode == "static"
    assert len(plan.order) == 15


def test_a_precision_is_in_the_name_and_of_products_in_the_traffic(study, root):
    study["sweeps"] = [
        {"framework": "pytorch", "precision": ["fp32", "bf16"]},
        {"framework": "pytorch", "network": "gemm", "dataset": "3x4x5",
         "precision": ["fp64", "tf32", "bf16"]},
    ]  # fmt: skip
    cells = make_plan(study, root).cells
    assert [name.split("-")[-3] for name in list(cells)[:2]] == ["fp32", "bf16"]
    specs = [make_spec(cell, 1, root) for cell in cells.values()]
    assert specs[1].execution.precision == specs[1].factors.precision == "bf16"
    assert [spec.operation.traffic for spec in specs[2:]] == [8 * 47, 4 * 47, 2 * 47]


def test_an_operation_in_a_precision_that_it_is_not_written_for_is_refused(study, root):
    study["sweeps"] = [
        {"framework": "pytorch", "network": "memory_copy", "dataset": "1", "precision": "bf16"}
    ]
    assert (
        "sweeps[0].precision: memory_copy is written for fp32, not 'bf16'; choose one of them"
    ) in faults(study, root)


def test_a_sweep_overrides_the_defaults(study, root):
    study["defaults"]["epochs"] = 3
    study["sweeps"][1]["epochs"] = [4, 5]
    epochs = [cell.epochs for cell in make_plan(study, root).cells.values()]
    assert epochs == [3, 3, 3, 3, 4, 5]


def test_blocks_have_every_cell_once_in_an_order_that_is_seeded_and_differs(study, root):
    study["repeats"] = 20
    plan = make_plan(study, root)
    assert plan.order == make_plan(study, root).order
    blocks = [plan.order[i : i + 5] for i in range(0, 100, 5)]
    for repeat, block in enumerate(blocks, 1):
        assert {run[1] for run in block} == {repeat}
        assert {run[0] for run in block} == set(plan.cells)
    assert len({tuple(cell for cell, _ in block) for block in blocks}) > 10


def test_a_name_tells_apart_whatever_differs_and_hides_what_is_usual(root):
    cell = Cell(framework="pytorch", network="lenet5", dataset="mnist-5k", mode="eager")
    usual = cell.model_copy(update={"mode": "eager_channels_last"})
    other = usual.model_copy(update={"momentum": 0.5})
    names = [name_of(each) for each in (cell, usual, other)]
    assert names[1] == "pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"
    assert len(set(names)) == 3
    assert all(name.startswith(names[1]) for name in names)


def test_threads_and_waiting_are_factors(study, root):
    study["sweeps"][0] |= {"threads": [None, 1], "wait_policy": ["default", "passive", "active"]}
    plans = make_plan(study, root).cells
    cells = {name: cell for name, cell in plans.items() if cell.framework == "pytorch"}
    pairs = {(cell.threads, cell.wait_policy) for cell in cells.values()}
    assert len(pairs) == 6 and len(cells) % 6 == 0
    digests = {spec_digests(cell, 1, root)[0] for cell in cells.values()}
    assert len(digests) == len(cells)


def test_the_order_of_keys_changes_nothing(study, root):
    turned = dict(reversed(study.items()))
    turned["sweeps"] = [dict(reversed(sweep.items())) for sweep in study["sweeps"]]
    plans = make_plan(study, root), make_plan(turned, root)
    assert canonical(plans[0].resolved()) == canonical(plans[1].resolved())
    assert plans[0].order == plans[1].order


def test_a_list_of_milestones_is_one_value_and_a_list_of_lists_several(root):
    sweep = {
        "framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k", "schedule": "step",
    }  # fmt: skip
    sweeps = [
        {**sweep, "milestones": [10, 15]},
        {**sweep, "milestones": [[5], [5, 12.5]], "seed": 1},
    ]
    plan = make_plan({"study": "s", "title": "t", "sweeps": sweeps}, root)
    found = [cell.milestones for cell in plan.cells.values()]
    assert found == [[10.0, 15.0], [5.0], [5.0, 12.5]]


BAD = {
    "an unknown key": ({"titel": "x"}, "titel: unknown key; did you mean 'title'?"),
    "a wrong type": ({"repeats": "3"}, "repeats: input should be a valid integer, not '3'"),
    "no repeats": ({"repeats": 0}, "repeats: input should be greater than 0, not 0"),
    "no sweep": ({"sweeps": []}, "sweeps: list should have at least 1 item"),
    "a blank title": ({"title": " \u00a0"}, "title: string should have at least 1 character"),
    "a price without a currency": (
        {"price_per_hour": "0.40"},
        "price_per_hour: string should match pattern",
    ),
    "a mirror that is a word": ({"mirror": "none"}, "mirror: string should match pattern"),
    "a mirror that is no web server": ({"mirror": "file:///etc"}, "mirror: string should match"),
    "a scale's sweep that is a number": (
        {"scale": "smoke", "scales": {"smoke": {"sweeps": 5}}},
        "scales.smoke.sweeps: input should be a valid list, not 5",
    ),
    "a sweep that is a word": ({"sweeps": ["x"]}, "sweeps[0]: 'x' is no mapping"),
}
BAD_SETTINGS = {
    "an unknown setting": ({"batchsize": 4}, "sweeps[0].batchsize: unknown setting; did you"),
    "an unknown framework": ({"framework": "torch"}, "no framework is named 'torch'; did you"),
    "an unknown network": ({"network": ["lenet"]}, "sweeps[0].network[0]: no network is named"),
    "an unknown data set": ({"dataset": "mnist5"}, "sweeps[0].dataset: no dataset is named"),
    "an unknown device": ({"device": "tpu"}, "sweeps[0].device: input should be 'cpu', 'gpu' or"),
    "an unknown mode": ({"mode": "fast"}, "sweeps[0].mode: pytorch has no mode 'fast'"),
    "a mode for GPUs": (
        {"mode": "compile_graphs"},
        "sweeps[0].mode: pytorch has 'compile_graphs' on GPUs only; set device to gpu",
    ),
    "milestones of no step": ({"milestones": [3]}, "milestones: [3.0] with the schedule 'const"),
    "a step without milestones": ({"schedule": "step"}, "milestones: [] with the schedule 'step"),
    "milestones beyond the end": (
        {"schedule": "step", "milestones": [30]},
        "epochs: 20 end before the last",
    ),
    "nesterov without momentum": ({"nesterov": True, "momentum": 0.0}, "nesterov: only sgd with"),
    "an empty list": ({"epochs": []}, "sweeps[0].epochs: an empty list; give it a value"),
    "batch size 0": ({"batch_size": [64, 0]}, "sweeps[0].batch_size[1]: input should be greater"),
    "a batch of more than all": ({"batch_size": 4001}, "sweeps[0].batch_size: 4001 is more than"),
    "a single step": ({"batch_size": 4000, "epochs": 1}, "epochs: a single step leaves none"),
    "more steps than there are": (
        {"steps": 621},
        "steps: 621 are more than half of the 1240 in 20 epochs, and warm-up may take the other"
        " half; write epochs: 21, or fewer steps",
    ),
    "steps and a target": (
        {"steps": 9, "target_accuracy": 0.9},
        "steps: a run that ends after some steps evaluates nothing; leave evaluate_every",
    ),
    "a batch that cannot be split": (
        {"replicas": 3},
        "sweeps[0].batch_size: 64 examples cannot be split evenly over 3 replicas",
    ),
    "a batch that cannot be split over nodes": (
        {"replicas": 2, "nodes": 3},
        "sweeps[0].batch_size: 64 examples cannot be split evenly over 6 replicas on 3 nodes",
    ),
    "threads that cannot be split": (
        {"replicas": 2, "threads": 3},
        "sweeps[0].threads: 3 cannot be split evenly over 2 replicas",
    ),
    "a batch of more than all, with those of all replicas": (
        {"replicas": 2, "batch_size": 2001, "batch_split": "per_replica"},
        "sweeps[0].batch_size: 4002 is more than",
    ),
    "a negative rate": ({"learning_rate": -1.0}, "learning_rate: input should be greater than 0"),
    "a rate in words": ({"learning_rate": "1e-3"}, "1.0e-3 rather than 1e-3"),
    "a number that is none": ({"momentum": float("nan")}, "sweeps[0].momentum: "),
    "no number at all": ({"time_limit": float("inf")}, "time_limit: input should be a finite"),
    "a truth for a number": ({"epochs": True}, "sweeps[0].epochs: input should be a valid int"),
    "a text for a network of images": (
        {"dataset": "synthetic-text", "network": "vo2021-conv"},
        "network: vo2021-conv takes images, synthetic-text has text",
    ),
    "several labels from records": (
        {"dataset": "source-code", "network": "gpt-10m", "input": "records"},
        "input: gpt-10m learns several labels of each example, which records do not hold; set it"
        " to memory",
    ),
    "a prediction of several labels": (
        {
            "dataset": "source-code",
            "network": "gpt-10m",
            "workload": "inference",
            "mode": "eager",
            "weights": "initial",
        },
        "workload: gpt-10m gives several labels for each example, which inference does not compare",
    ),
    "pixels of a data set without a foreground": (
        {"dataset": "mnist-64", "network": "unet"},
        "dataset: unet labels pixels, and mnist-64 does not say which are of what its labels name;"
        " choose one with a foreground, as mnist-5k-32",
    ),
    "labels of pixels that would move": (
        {"dataset": "mnist-5k-32", "network": "unet", "flip": True},
        "crop_padding, crop_area, flip: the labels of unet are of pixels, which would move; set"
        " them to 0 and false",
    ),
    "a padding that may leave nothing": (
        {"crop_padding": 28},
        "crop_padding: 28 pixels around the 28 of mnist-5k, so that a window may have nothing of",
    ),
    "digits of another script": (
        {"network": "gemm", "dataset": "\uff16x6x6"},
        "dataset: no dataset is named '\uff16x6x6'",
    ),
    "an example that would be cut twice": (
        {"crop_padding": 2, "crop_area": 0.5},
        "crop_area: with crop_padding each example would be cut twice; set one of them to 0",
    ),
    "a text that is augmented": (
        {"dataset": "synthetic-text", "network": "lstm-text", "flip": True},
        "flip: a text is not augmented",
    ),
    "the same cell twice": ({"batch_size": [64, 64]}, "sweeps[0]: repeats the cell pytorch-len"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_study(case, study, root):
    change, message = BAD[case]
    assert message in faults({**study, **change}, root)


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_setting(case, study, root):
    change, message = BAD_SETTINGS[case]
    study["sweeps"] = [{"framework": "pytorch", **change}]
    assert message in faults(study, root)


TIMES = re.compile("seconds|interval|time_limit$|^epochs$")


def test_no_time_is_without_end(study, root):
    """A slip of the pen would begin a study of a million years."""
    for model, given in ((Cell, "defaults"), (Interleave, "interleave")):
        names = [name for name in model.model_fields if TIMES.search(name)]
        assert len(names) > 2
        for name in names:
            text = faults({**study, given: {name: 10**15}}, root)
            assert f"{given}.{name}: input should be less than or equal to " in text, name


def test_all_faults_are_reported_at_once(study, root):
    study["sweeps"] = [{"framework": "pytorch", **change} for change, _ in BAD_SETTINGS.values()]
    text = faults({**study, "titel": "x"}, root)
    for change, message in [*BAD_SETTINGS.values(), BAD["an unknown key"]]:
        assert message.split(": ")[-1] in text, change


def test_a_missing_setting_is_named(study, root):
    study["defaults"] = {}
    text = faults(study, root)
    assert "sweeps[0].network: missing; name one: alexnet, " in text
    assert "sweeps[1].dataset: missing; name one: " in text


@pytest.mark.parametrize(
    "content, message",
    [
        (b"study: \xff", "not UTF-8 at byte 7; save it as UTF-8"),
        (b"study: [a", "not valid YAML"),
        (b"- a", "holds no mapping"),
        (
            b"study: a\nsweeps:\n  - {epochs: 1, network: x, epochs: 2}\nstudy: b\n",
            r"study \(lines 1, 4\); epochs \(lines 3, 3\); keep one each",
        ),
    ],
)
def test_unreadable_files(content, message, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as refused:
        read(path)
    assert str(path) in str(refused.value)


def test_a_study_may_be_json(tmp_path):
    """Snakemake takes tabs and 1e-1 in it, which are no YAML."""
    path = tmp_path / "study.json"
    path.write_text('{"study": "s",\n\t"defaults": {"operation_seconds": 1e-1}}')
    assert read(path) == {"study": "s", "defaults": {"operation_seconds": 0.1}}
    for text in ('{"study": }', '{"study": "s", "study": "t"}', "study: s"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"study\.json: not valid JSON: .*; mend that place"):
            read(path)


@pytest.mark.parametrize("method", ["apptainer", "env-modules"])
def test_software_that_no_rule_has_is_refused(method):
    """Snakemake would ignore it."""
    assert deployment_fault(["conda"]) == deployment_fault([]) == ""
    fault = deployment_fault(["conda", method])
    assert fault.startswith(f"--software-deployment-method {method}: ") and "container:" in fault


def test_a_brace_in_the_path_of_a_checkout_is_refused():
    assert brace_fault(Path("/home/é x/it's")) == ""
    assert "move the checkout to a path without braces" in brace_fault(Path("/home/{x}/y"))


def test_results_of_another_format_are_refused(tmp_path):
    path = tmp_path / "config.resolved.yaml"
    check_results(path)
    path.write_text("results_format: 3\n")
    check_results(path)
    for garbage in (b"\xff\xfe", b"a: [", b"- 1", b"\0", b"a: 1\na: 2\n"):
        path.write_bytes(garbage)
        with pytest.raises(ConfigError, match="delete it and start again"):
            check_results(path)
    path.write_text("results_format: 1\n")
    with pytest.raises(ConfigError, match="results_format is 1, this version writes 3; move"):
        check_results(path)


def test_the_generated_pages_are_not_stale(root):
    from touchstone.commands.document_config import readme, schema

    for text in ((root / "config/README.md").read_text(), readme()):
        assert all(f"| `{key}` |" in text for key in (*Cell.model_fields, *Study.model_fields))
    assert (root / "config/README.md").read_text() == readme(), "run `make docs`"
    assert json.loads((root / "config/schema.json").read_text()) == schema(), "run `make docs`"


def test_the_defaults_of_the_generated_page_are_what_a_study_has(root, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "study: mine\ntitle: Mine\nsweeps:\n"
        "  - {framework: pytorch, network: lenet5, dataset: mnist-5k}\n"
    )
    study = make_plan(read_on_default(root, path), root).study
    page = (root / "config/README.md").read_text()
    parts = dict(section.split("\n", 1) for section in page.split("\n## ")[1:])
    ours = parts["What most studies set"] + parts["More of a study"]
    in_turn = parts["Measuring in turn, in `interleave`"]
    for text, found in ((ours, study), (in_turn, study.interleave)):
        for key, field in type(found).model_fields.items():
            if field.is_required():
                continue
            (row,) = [line for line in text.splitlines() if line.startswith(f"| `{key}` |")]
            value = getattr(found, key)
            shown = row.split(" | ")[2]
            if key == "interleave":
                assert Interleave(**json.loads(shown.split("`")[1])) == value
            else:
                assert json.loads(shown.split("`")[1]) == value, key


def test_the_schema_accepts_the_default_study_and_refuses_a_typo(root):
    import jsonschema

    from touchstone.commands.document_config import schema

    study = read(root / "config/config.yaml")
    jsonschema.validate(study, schema())
    study["sweeps"][0]["batchsize"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(study, schema())


def test_cells_that_differ_in_nothing_that_takes_memory_share_a_search(study, root):
    study["sweeps"][1]["memory_limit"] = 512.0
    assert searches(make_plan(study, root)) == {}
    plan = make_plan({**study, "find_max_batch": True}, root)
    found = searches(plan)
    assert [cell.framework for cell in found.values()] == ["pytorch", "mxnet", "tensorflow"]
    assert all(name.startswith(f"{cell.framework}-lenet5-mnist") for name, cell in found.items())
    settings = as_planned(list(found.values())[2])
    assert settings["memory_limit"] == "512.0" and settings["threads"] == ""
    assert not {"batch_size", "learning_rate", "epochs", "seed"} & settings.keys()
    study["sweeps"][0]["threads"] = [1, 2]
    assert len(searches(make_plan({**study, "find_max_batch": True}, root))) == 5
    study["sweeps"][0]["mode"] = "best"
    assert len(searches(make_plan({**study, "find_max_batch": True}, root))) == 1


def test_a_plan_of_networks_imports_no_numpy(root):
    # It would take longer than all else that a plan reads, in every job of a cluster too.
    asked = """
import sys
from pathlib import Path
from touchstone.plan.spec import spec_digests
from touchstone.plan.read import read
from touchstone.plan.study import make_plan
plan = make_plan(read(Path("config/config.yaml")), Path("."))
for cell in plan.cells.values():
    spec_digests(cell, 3, Path("."))
print("numpy" in sys.modules)
"""
    variables = {"PYTHONPATH": str(root / "workflow/scripts")}
    command = [sys.executable, "-c", asked]
    ended = subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True)
    assert ended.stdout == "False\n", ended.stderr


SYSTEMS = yaml.safe_load((ROOT / "tests/fixtures/systems.yaml").read_text(encoding="utf-8"))
NO_GPU = {"caffe", "cntk"}
"""Frameworks without an environment for GPUs."""


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """A machine with an NVIDIA GPU, for the plan."""
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(devices, "FOLDER", tmp_path)


def systems(name):
    """Each system of a source, as settings."""
    for cross in SYSTEMS[name]:
        for values in product(*cross.values()):
            system = dict(zip(cross, values, strict=True))
            system.pop("machine", None)
            yield system


@pytest.mark.parametrize(
    ("name", "number"),
    {"yin2020": 60, "vo2021": 36, "lawrence2017": 6, "piccione2018": 135}.items(),
)
def test_every_system_of_a_source_is_planned_where_a_gpu_is(root, name, number, gpu):
    """Those that nothing can run are rows with their reason."""
    text = (root / f"config/studies/{name}.yaml").read_text()
    plan = make_plan(study_of(root, text.replace("&replicas [1]", "&replicas [1, 2]")), root)
    wanted = list(systems(name))
    assert len(wanted) == number
    for system in wanted:
        found = [
            cell for cell in plan.cells.values()
            if all(getattr(cell, key) == value for key, value in system.items())
        ]  # fmt: skip
        assert found, system
        without = system["device"] == "gpu" and system.get("framework") in NO_GPU
        assert all(bool(frameworks.unsupported(cell)) == without for cell in found)


@pytest.mark.parametrize("name", SYSTEMS)
def test_without_a_gpu_its_cells_are_those_of_the_cpu(root, name, tmp_path, monkeypatch):
    text = (root / f"config/studies/{name}.yaml").read_text()
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    plan = make_plan(study_of(root, text), root)
    assert {cell.device for cell in plan.cells.values()} == {"cpu"} and not plan.unsupported_text
    (tmp_path / "nvidia0").touch()
    assert len(make_plan(study_of(root, text), root).cells) == 2 * len(plan.cells)
    # Another machine that reads the resolved study plans the same.
    assert "available" not in str(plan.resolved()["sweeps"])


def study_of(root, text):
    """A study's text on top of the default study."""
    return {**read(root / "config/config.yaml"), **yaml.safe_load(text)}


def test_a_cell_that_nothing_can_run_is_planned_with_its_reason(study, root):
    study["sweeps"] = [{**study["sweeps"][0], "framework": ["caffe"], "device": "gpu"}]
    plan = make_plan(study, root)
    line = "unsupported cells: {}, as no environment has caffe for GPUs: no envs/caffe-gpu.yaml"
    assert plan.unsupported_text == line.format(len(plan.cells)) and plan.cells
    made = estimate(plan, dict.fromkeys(plan.cells, 3), root / "config/datasets", cores=2)
    assert (made.seconds, made.gpu_runs) == (0.0, 0)


def test_photos_that_records_cannot_hold_make_a_cell_unsupported():
    cell = Cell(framework="cntk", network="resnet50", dataset="ilsvrc2012", mode="default")
    assert frameworks.unsupported(cell) == (
        "ilsvrc2012 has photos, and cntk reads png records, which hold none"
    )
    assert frameworks.unsupported(cell.model_copy(update={"input": "synthetic"})) is None


def test_the_devices_of_a_machine_are_no_default_of_all_cells(study, root):
    study["defaults"] = {**study.get("defaults", {}), "device": "available"}
    assert "device: available is for a sweep" in faults(study, root)
