"""The published studies' configurations, their scales, and the estimate of time and disk."""

import copy

import pytest
import yaml

from fixtures.published import STUDIES
from touchstone.plan.estimate import (
    FLOPS_PER_CORE,
    SECONDS_PER_RUN,
    SECONDS_PER_STEP,
    Estimate,
    estimate,
    seconds_of_run,
    seconds_of_steps,
)
from touchstone.plan.read import ConfigError, read_on_default
from touchstone.plan.setting import OPERATION
from touchstone.plan.study import make_plan, whole_cells

SCALES = ("paper", "hour", "smoke")
STUDY = {
    "study": "test",
    "title": "A test",
    "repeats": 3,
    "defaults": {"network": "lenet5", "dataset": "mnist", "framework": "mxnet"},
    "sweeps": [{"batch_size": [32, 64], "epochs": 10}, {"learning_rate": 0.1}],
    "scales": {
        "smoke": {
            "repeats": 1,
            "defaults": {"dataset": "mnist-5k"},
            "sweeps": [{"epochs": 1}, {}],
        }
    },
}


@pytest.fixture
def study():
    return copy.deepcopy(STUDY)


def overlaid(root, name, **keys):
    return {**read_on_default(root, root / f"config/studies/{name}.yaml"), **keys}


def faults(config, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(config, root)
    return str(refused.value)


# Scales


def test_a_scale_shortens_every_cell_and_drops_none(study, root):
    whole = make_plan(study, root)
    short = make_plan({**study, "scale": "smoke"}, root)
    assert (whole.study.repeats, short.study.repeats) == (3, 1)
    pairs = list(zip(whole.cells.values(), short.cells.values(), strict=True))
    assert [(a.batch_size, a.epochs, b.batch_size, b.epochs) for a, b in pairs] == [
        (32, 10, 32, 1),
        (64, 10, 64, 1),
        (64, 20, 64, 20),
    ]
    assert {b.dataset for _, b in pairs} == {"mnist-5k"}


def test_a_scale_keeps_some_cells_and_each_is_what_it_is_in_the_whole_study(study, root):
    sweeps = [{"epochs": 1, "batch_size": [64]}, {}]
    study["scales"]["smoke"]["sweeps"] = sweeps
    config = {**study, "scale": "smoke"}
    short = make_plan(config, root)
    wholes = whole_cells(short, config, root)
    pairs = [(wholes[name], cell) for name, cell in short.cells.items()]
    assert [(a.batch_size, a.epochs, b.epochs) for a, b in pairs] == [(64, 10, 1), (64, 20, 20)]
    assert {a.dataset for a, _ in pairs} == {"mnist"}


def test_the_resolved_configuration_of_a_scale_plans_the_same(study, root):
    plan = make_plan({**study, "scale": "smoke"}, root)
    resolved = yaml.safe_load(yaml.safe_dump(plan.resolved()))
    assert make_plan(resolved, root).cells == plan.cells


@pytest.mark.parametrize(
    "change, told",
    [
        ({"scale": "hour"}, "scale: the study has no 'hour'"),
        ({"scale": "tiny"}, "scale: input should be 'paper', 'hour' or 'smoke'"),
        ({"scales": {"smoke": {"sweeps": [{}]}}}, "scales.smoke.sweeps: 1 mappings for 2 sweeps"),
        ({"scales": {"smoke": {"sweep": []}}}, "scales.smoke.sweep: unknown key"),
        (
            {"scales": {"smoke": {"sweeps": [{"batch_size": 4}, {}]}}},
            "scales.smoke.sweeps[0].batch_size: a list of values",
        ),
        (
            {"scales": {"smoke": {"sweeps": [{"batch_size": [64, 8]}, {}]}}},
            "scales.smoke.sweeps[0].batch_size: 8 is not among the values of the sweep",
        ),
        (
            {"scales": {"smoke": {"sweeps": [{"epochs": [1]}, {}]}}},
            "scales.smoke.sweeps[0].epochs: a list of values for a single one",
        ),
        (
            {"scales": {"smoke": {"defaults": {"seed": [1, 2]}}}},
            "scales.smoke.defaults.seed: a list of values",
        ),
        ({"scales": {"smoke": {"defaults": {"dataset": "x"}}}}, "no dataset is named 'x'"),
    ],
)
def test_a_scale_that_cannot_be_is_refused(study, root, change, told):
    assert told in faults({**study, "scale": "smoke", **change}, root)


# The studies


LEFT_OUT = {("yin2020", "smoke"): 24, ("vo2021", "hour"): 2, ("vo2021", "smoke"): 3}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", (*STUDIES, "algoperf2025", "lambda2025"))
def test_every_study_has_its_cells_at_every_scale(root, name, scale):
    """All of them, but for those that short scales leave out to repeat the others."""
    plan = make_plan(overlaid(root, name, scale=scale), root)
    left_out = len(make_plan(overlaid(root, name), root).cells) - len(plan.cells)
    assert left_out == LEFT_OUT.get((name, scale), 0)
    if scale == "smoke":  # needs no network: its data are made, or come with a package
        embedded = {"mnist-5k"}
        sets = {cell.dataset for cell in plan.cells.values() if cell.kind != OPERATION}
        assert all(name in embedded or name.startswith("synthetic") for name in sets)


TRAINED = (10, 128, 0.01)
"""Epochs, batch size and learning rate with which yin2020 compares the frameworks' accuracy."""


def test_yin2020_has_the_grid_of_its_tables(root):
    cells = make_plan(overlaid(root, "yin2020"), root).cells.values()
    sizes = [4, 8, 16, 32, 64, 128, 256, 512, 1024]
    speed = {(c.framework, c.batch_size) for c in cells if c.epochs == 1}
    assert speed == {(f, s) for f in ("pytorch", "tensorflow", "mxnet") for s in sizes}
    accuracy = [c for c in cells if c.epochs == 10 and c.framework == "tensorflow"]
    rates = {c.learning_rate for c in accuracy if c.batch_size == 128}
    assert rates == {0.001, 0.005, 0.01, 0.03, 0.05, 0.07}
    assert sorted(c.batch_size for c in accuracy if c.learning_rate == 0.01) == sizes
    timed = [(c.learning_rate, c.target_accuracy) for c in cells if c.epochs == 30]
    assert timed == [(rate, 0.6) for rate in sorted(rates)]
    assert {c.momentum for c in cells} == {0.0}
    assert all(c.training_accuracy == (c.epochs == 10) for c in cells)
    alike = [c.framework for c in cells if (c.epochs, c.batch_size, c.learning_rate) == TRAINED]
    assert sorted(alike) == ["mxnet", "pytorch", "tensorflow"]


def test_piccione2018_has_every_network_of_every_data_set(root):
    cells = make_plan(overlaid(root, "piccione2018"), root).cells.values()
    found = {(c.dataset, c.network, c.batch_size, c.learning_rate) for c in cells}
    assert found == {
        ("mnist", "lenet-caffe", 64, 0.01),
        ("cifar10", "alexnet-cifar", 128, 0.01),
        ("cifar10", "resnet50-cifar", 128, 0.1),
        ("cifar10", "googlenet-cifar", 128, 0.1),
        ("cifar10", "vgg16-cifar", 128, 0.01),
        ("synthetic-224", "alexnet", 128, 0.01),
        ("synthetic-224", "resnet50", 8, 0.1),
        ("synthetic-224", "googlenet", 8, 0.001),
        ("synthetic-224", "vgg16", 8, 0.001),
    }
    assert {(c.input, c.reader_threads) for c in cells} == {("records", None)}
    examples = {"mnist": 60_000, "cifar10": 50_000}
    steps = {(c.dataset, c.batches(n).steps) for c in cells if (n := examples.get(c.dataset))}
    assert steps == {("mnist", 938), ("cifar10", 390)}  # as its table of iterations has them
    assert {(c.dataset == "synthetic-224", c.steps) for c in cells} == {(True, 300), (False, None)}
    for scale in ("hour", "smoke"):
        short = make_plan(overlaid(root, "piccione2018", scale=scale), root).cells.values()
        assert {c.steps for c in short} == {None}


def test_keras3_has_plain_and_tuned_code_of_three_frameworks(root):
    plan = make_plan(overlaid(root, "keras3"), root)
    assert [(c.framework, c.style, c.mode) for c in plan.cells.values()] == [
        ("pytorch", "plain", "eager"),
        ("pytorch", "plain", "compile"),
        ("pytorch", "plain", "keras"),
        ("tensorflow", "plain", "keras"),
        ("jax", "plain", "keras"),
        ("jax", "plain", "nnx"),
        ("pytorch", "tuned", "eager"),
        ("tensorflow", "tuned", "function"),
        ("jax", "tuned", "jit"),
    ]
    shared = {(c.network, c.dataset, c.batch_size, c.steps) for c in plan.cells.values()}
    assert shared == {("bert-base", "synthetic-text-512", 32, 100)}  # as in the source


# The estimate


def test_the_estimate_counts_arithmetic_steps_and_runs(study, root):
    plan = make_plan(study, root)
    name = next(iter(plan.cells))  # batch size 32, 10 epochs
    found = estimate(plan, {name: 2}, root / "config/datasets", cores=4)
    steps = 10 * 1875
    # LeNet-5's multiply-accumulates; those for the gradient by the images are not needed.
    work = 2 * ((3 * 416_520 - 117_600) * steps * 32 + 416_520 * 10_000)
    one = work / (4 * FLOPS_PER_CORE) + steps * SECONDS_PER_STEP + SECONDS_PER_RUN
    assert found.seconds == pytest.approx(2 * one)
    assert found.runs == 2 and found.gpu_runs == 0
    assert found.bytes > 70_000 * 28 * 28


def test_a_run_of_one_cell_is_estimated_by_itself(study, root):
    """What `limits.estimate` has: the whole less the start, by the cores that there are."""
    folder = root / "config/datasets"
    study["sweeps"] += [
        {"framework": "pytorch", "network": "gemm", "dataset": "3x4x5"},
        {"framework": "pytorch", "workload": "inference", "weights": "initial"},
        {"framework": "pytorch", "device": "gpu"},
    ]
    study["defaults"] = {**study["defaults"], "framework": "pytorch"}
    *_, trained, called, predicts, gpu = make_plan(study, root).cells.values()
    for cell in (trained, called, predicts):
        steps = seconds_of_steps(cell, folder, 2)
        assert seconds_of_run(cell, folder, 2) == steps + SECONDS_PER_RUN
        assert seconds_of_steps(cell, folder, 1) == steps or cell is not called
    assert seconds_of_steps(called, folder, 2) == called.warmup_seconds + called.operation_seconds
    images = 2 * 416_520 * 10_000 / (2 * FLOPS_PER_CORE)
    lasts = predicts.warmup_seconds + 2 * predicts.inference_seconds
    assert seconds_of_steps(predicts, folder, 2) == pytest.approx(images + lasts)
    one = trained.model_copy(update={"threads": 1})
    assert seconds_of_steps(one, folder, 8) == seconds_of_steps(trained, folder, 1)
    assert seconds_of_steps(gpu, folder, 2) is None and seconds_of_run(gpu, folder, 2) is None


def test_the_estimate_of_a_limit_of_steps_counts_these_and_no_evaluation(study, root):
    study["defaults"]["steps"] = 30
    plan = make_plan(study, root)
    name = next(iter(plan.cells))  # batch size 32
    found = estimate(plan, {name: 1}, root / "config/datasets", cores=4)
    work = 2 * (3 * 416_520 - 117_600) * (30 + 20) * 32
    one = work / (4 * FLOPS_PER_CORE) + (30 + 20) * SECONDS_PER_STEP + SECONDS_PER_RUN
    assert found.seconds == pytest.approx(one)


def test_an_estimate_has_two_digits_and_its_bounds():
    found = Estimate(9, 250.0, 0, 2e6, 1).text
    assert found.startswith("9 runs and 1 comparison in turn: about 4.2 min (83 s to 12 min), ")
    assert Estimate(9, 336.0, 0, 2e6).text.startswith("9 runs: about 5.6 min (110 s to 17 min), ")


def test_the_page_on_studies_has_their_estimates(root):
    """At the scale `smoke`, on two cores."""
    names = ("lawrence2017", "vo2021", "keras3", "yin2020", "piccione2018")
    minutes = []
    for name in names:
        config = {**read_on_default(root, root / f"config/studies/{name}.yaml"), "scale": "smoke"}
        plan = make_plan(config, root)
        runs = dict.fromkeys(plan.cells, plan.study.repeats)
        seconds = estimate(plan, runs, root / "config/datasets", cores=2).seconds
        minutes.append(f"{seconds / 60:.2g}")
    page = " ".join((root / "docs/studies.md").read_text().split())
    listed = f"{', '.join(minutes[:-1])} and {minutes[-1]} min on two cores ({', '.join(names)})"
    assert f"The estimates of the five `smoke` are {listed}." in page


def test_runs_on_a_gpu_are_counted_and_not_estimated(study, root):
    study["defaults"] |= {"device": "gpu", "framework": "pytorch", "input": "synthetic"}
    plan = make_plan(study, root)
    found = estimate(plan, dict.fromkeys(plan.cells, 3), root / "config/datasets", cores=2)
    assert (found.seconds, found.gpu_runs) == (0, 9)
    assert "9 runs on a GPU, not estimated" in found.text
    assert found.bytes == pytest.approx(9 * 3e5)  # noise needs no data
