"""Inference cells in the plan: whose weights they take, their names, specs and faults."""

import pytest

from touchstone.plan.checks import Known
from touchstone.plan.estimate import estimate
from touchstone.plan.inference import sources
from touchstone.plan.max_batch import searches
from touchstone.plan.read import ConfigError, name_of
from touchstone.plan.spec import make_spec, spec_digests
from touchstone.plan.study import make_plan
from touchstone.schema.spec import InferenceSpec, TrainingSpec

PYTORCH = "pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.1"
MXNET = "mxnet-lenet5-mnist-5k-cpu-fp32-b64-lr0.1"


def study(*sweeps, **defaults):
    usual = {"network": "lenet5", "dataset": "mnist-5k", "learning_rate": 0.1}
    training = {"framework": ["pytorch", "mxnet"]}
    more = [{"workload": "inference", **sweep} for sweep in sweeps]
    return {
        "study": "test", "title": "A test", "defaults": {**usual, **defaults},
        "sweeps": [training, *more],
    }  # fmt: skip


def faults(config, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(config, root)
    return str(refused.value)


def test_every_inference_cell_has_the_training_cell_of_its_settings(root):
    config = study(
        {"framework": ["pytorch", "mxnet"], "threads": 1},
        {"framework": "mxnet", "batch_size": [1, 8], "trained_batch_size": 64},
        {"framework": ["mxnet", "onnxruntime"], "weights": "pytorch"},
        {"framework": "onnxruntime", "weights": "initial"},
    )
    plan = make_plan(config, root)
    found = [(name.split("-cpu")[0], source) for name, source in plan.weights_from.items()]
    ours, onnx = "mxnet-lenet5-mnist-5k", "onnxruntime-lenet5-mnist-5k"
    assert found == [
        ("pytorch-lenet5-mnist-5k", PYTORCH), (ours, MXNET), (ours, MXNET), (ours, MXNET),
        (ours, PYTORCH), (onnx, PYTORCH),
    ]  # fmt: skip
    assert len(plan.cells) == 9


def test_of_several_training_cells_it_is_the_one_that_agrees_most(root):
    config = study({"framework": "pytorch", "threads": 2, "mode": "eager"})
    config["sweeps"][0] = {"framework": "pytorch", "mode": ["compile", "eager"], "threads": [1, 2]}
    plan = make_plan(config, root)
    (source,) = plan.weights_from.values()
    assert (plan.cells[source].mode, plan.cells[source].threads) == ("eager", 2)


def test_another_seed_or_rate_is_no_training_cell(root):
    for change in ({"seed": 1}, {"learning_rate": 0.2}, {"batch_size": 32}, {"epochs": 3}):
        text = faults(study({"framework": "pytorch", **change}), root)
        assert "sweeps[1].weights: no training cell of this study leaves those of pytorch" in text
    for change in ({"seed": 1}, {"batch_size": 32}):
        assert make_plan(study({"framework": "pytorch", "weights": "initial", **change}), root)


@pytest.mark.parametrize(
    "change, told",
    [
        ({"weights": "mine"}, "weights: 'mine' is none of initial, trained, caffe"),
        ({"framework": "onnxruntime"}, "weights: onnxruntime does not train; name the framework"),
        ({"mode": "best"}, "mode: 'best' is tried in training only"),
        ({"input": "records"}, "input: an inference cell predicts from 'memory' or 'synthetic'"),
        ({"batch_size": 1001}, "batch_size: 1001 is more than the 1000 test examples"),
    ],
)
def test_what_an_inference_cell_cannot_be_is_refused(root, change, told):
    assert told in faults(study({"framework": "pytorch", **change}), root)


def test_a_name_tells_what_counts_and_nothing_else(root):
    plan = make_plan(study({"weights": "initial", "framework": "pytorch"}), root)
    *training, predicting = plan.cells
    more = {"learning_rate": 0.3, "epochs": 2, "evaluate_every": 1}
    (same,) = Known(root).resolved(plan.cells[predicting].model_copy(update=more))
    assert name_of(same) == predicting and same == plan.cells[predicting]
    assert training == [PYTORCH, MXNET]
    assert predicting.startswith("pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.01-inference-")
    # Settings of inference only are not those of a training cell.
    both = study({"framework": "mxnet"}, weights="initial", inference_seconds=1.0)
    assert list(make_plan(both, root).cells)[:2] == training


def test_the_spec_of_training_knows_nothing_of_inference(root):
    plan = make_plan(study({"framework": "pytorch"}), root)
    training, predicting = (
        make_spec(plan.cells[name], 2, root) for name in (PYTORCH, PYTORCH + "-inference")
    )
    assert isinstance(training, TrainingSpec) and isinstance(predicting, InferenceSpec)
    assert training.keep_weights is None and training.factors.workload is None
    assert (predicting.factors.workload, predicting.factors.weights) == ("inference", "trained")
    assert predicting.weights is None  # the file is known when the run begins
    assert predicting.seed == training.seed and predicting.network == training.network
    other = plan.cells[PYTORCH + "-inference"].model_copy(update={"inference_seconds": 1.0})
    inferring = plan.cells[PYTORCH + "-inference"]
    assert spec_digests(other, 1, root) != spec_digests(inferring, 1, root)


def test_inference_is_estimated_and_searched_for_no_batch(root):
    plan = make_plan({**study({"framework": "pytorch"}), "find_max_batch": True}, root)
    assert len(searches(plan)) == 2
    told = estimate(plan, {PYTORCH + "-inference": 2}, root / "config/datasets", cores=2)
    assert 2 * (2 + 2 * 5 + 10) < told.seconds < 2 * 25


def test_no_inference_cell_has_no_source():
    assert sources({}) == ({}, [])
