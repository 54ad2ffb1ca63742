"""The spec of a run: all that its runner reads, and its digest."""

from fixtures.studies import faults
from touchstone.plan.max_batch import STEPS, probe_spec, searches
from touchstone.plan.model import Cell
from touchstone.plan.read import digest
from touchstone.plan.spec import make_spec, spec_digests
from touchstone.plan.study import make_plan
from touchstone.schema.spec import Augmentation, Limits, Optimizer, spec_to_json


def test_a_spec_has_all_that_a_runner_needs(root):
    cell = Cell(
        framework="mxnet", network="lenet5", dataset="mnist-5k", mode="static", threads=1, seed=7
    )
    spec = make_spec(cell, 3, root)
    assert spec.seed == 9
    assert spec.data.folder == "results/data/mnist-5k/recordio"
    assert spec.network.parameter_count == 61706
    assert spec.execution.threads == 1
    assert spec.optimizer == Optimizer(
        name="sgd", learning_rate=0.01, weight_decay=0.0, decoupled=False, spared=[],
        settings={"momentum": 0.9, "nesterov": False},
    )  # fmt: skip
    assert spec.augmentation is None and spec.deviations == []
    told = {
        "optimizer": "adam", "weight_decay_form": "decoupled", "weight_decay_on": "weights",
        "schedule": "step", "milestones": [82.0, 123.0], "crop_padding": 4,
        "network": "resnet20-cifar",
    }  # fmt: skip
    spec = make_spec(cell.model_copy(update=told), 1, root)
    assert spec.optimizer == Optimizer(
        name="adam", learning_rate=0.01, weight_decay=0.0, decoupled=True,
        spared=["bias", "scale", "offset"],
        settings={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    )  # fmt: skip
    assert spec.schedule.milestones == [82.0, 123.0]
    assert spec.augmentation == Augmentation(crop_padding=4, flip=False)
    assert ["batch normalisation" in told for told in spec.deviations] == [True]


def test_a_limit_of_steps_is_only_in_the_spec_and_the_name_of_its_cell(study, root):
    study["sweeps"] = [
        {"framework": "pytorch", "steps": [None, 30]},
        {"framework": "onnxruntime", "workload": "inference", "weights": "initial"},
    ]
    plan = make_plan({**study, "find_max_batch": True}, root)
    whole, limited, predicts = plan.cells.values()
    assert (whole.steps, limited.steps, predicts.steps) == (None, 30, None)
    assert list(plan.cells)[1].startswith(f"{next(iter(plan.cells))}-")
    specs = [make_spec(cell, 1, root) for cell in (whole, limited)]
    assert specs[1].phases == specs[0].phases._replace(measured_steps=30)
    assert specs[1].factors == specs[0].factors._replace(steps=30)
    assert len(searches(plan)) == 1
    # What it trained for so many steps is no weights to predict with.
    study["sweeps"] = [
        {"framework": "pytorch", "steps": 30},
        {"framework": "pytorch", "workload": "inference"},
    ]
    assert "no training cell of this study leaves those of pytorch" in faults(study, root)


def test_replicas_are_only_in_the_specs_of_their_cells(study, root):
    study["sweeps"] = [
        {"framework": "pytorch", "batch_size": 64, "replicas": [1, 2]},
        {"framework": "pytorch", "batch_size": 64, "replicas": 2, "batch_split": "per_replica"},
        {"framework": "caffe", "batch_size": 64, "replicas": 2},
    ]
    plan = make_plan(study, root)
    alone, split, own, caffe = (make_spec(cell, 1, root) for cell in plan.cells.values())
    assert (alone.execution.replicas, alone.execution.replicas_are) == (1, None)
    assert split.execution.replicas == 2 and split.factors.batch_size == 64
    assert split.execution.replicas_are == "processes"
    assert own.execution.batch_split == "per_replica"
    assert own.factors.batch_size == 128
    assert caffe.execution.replicas_are is None
    assert "NCCL" in caffe.execution.why_no_replicas
    names = list(plan.cells)
    assert names[0] == "pytorch-lenet5-mnist-5k-cpu-fp32-b64-lr0.01"
    assert all(name.startswith(f"{names[0]}-") for name in names[1:3])


def test_nodes_are_only_in_the_specs_of_their_cells(study, root):
    study["sweeps"] = [
        {"framework": "pytorch", "replicas": 2, "nodes": [1, 3], "batch_size": 96},
        {"framework": ["pytorch", "tensorflow", "caffe"], "nodes": 2, "batch_split": "per_replica"},
    ]
    plan = make_plan(study, root)
    one, three, pair, tensorflow, caffe = (make_spec(cell, 1, root) for cell in plan.cells.values())
    assert one.execution.nodes == 1
    assert [spec.execution.nodes for spec in (three, pair)] == [3, 2]
    assert (three.execution.replicas, pair.execution.replicas) == (2, 1)
    assert pair.factors.batch_size == 128
    assert pair.execution.why_no_nodes is None
    assert "MirroredStrategy" in tensorflow.execution.why_no_nodes
    assert "NCCL" in caffe.execution.why_no_nodes
    names = list(plan.cells)
    assert len(set(names)) == 5 and names[2].startswith("pytorch-lenet5-mnist-5k-cpu-fp32-b64-")


def test_one_replica_has_the_whole_batch_whatever_the_split(study, root):
    study["sweeps"] = [{"framework": "pytorch", "batch_split": "per_replica", "replicas": [1, 2]}]
    one, two = make_plan(study, root).cells.values()
    assert (one.batch_split, two.batch_split) == ("effective", "per_replica")
    assert (one.global_batch_size, two.global_batch_size) == (64, 128)


def test_a_probe_has_few_steps_of_its_batch_size_under_the_limit(study, root):
    cell = next(iter(searches(make_plan({**study, "find_max_batch": True}, root)).values()))
    spec = probe_spec(cell, 300, 512.0, root, None)
    assert spec.factors.batch_size == 300 and spec.limits.memory_mib == 512.0
    assert spec.phases.probe_steps == STEPS


def test_the_limits_of_a_spec_are_the_cells_own_and_no_machines(study, root):
    study["sweeps"] = [{"framework": "pytorch", "time_limit_factor": [10.0, 20.0, None]}]
    specs = [make_spec(cell, 1, root) for cell in make_plan(study, root).cells.values()]
    usual = Limits(seconds=3600.0, memory_mib=None, factor=10.0)
    assert [spec.limits for spec in specs] == [
        usual, usual._replace(factor=20.0), usual._replace(factor=None)
    ]  # fmt: skip


def test_the_digest_of_a_spec_tells_every_part_of_it(study, root):
    cell = next(iter(make_plan(study, root).cells.values()))
    digests = {
        *spec_digests(cell, 2, root),
        *spec_digests(cell.model_copy(update={"momentum": 0.8}), 1, root),
        *spec_digests(cell.model_copy(update={"network": "lenet_caffe"}), 1, root),
    }
    assert len(digests) == 4


def test_the_digests_of_all_repeats_are_those_of_their_specs(study, root):
    study["sweeps"] += [
        {"framework": "pytorch", "network": "gemm", "dataset": "3x4x5"},
        {"framework": "pytorch", "workload": "inference", "weights": "initial", "seed": 7},
    ]
    for cell in make_plan(study, root).cells.values():
        specs = [spec_to_json(make_spec(cell, repeat, root)) for repeat in (1, 2, 3)]
        for spec in specs:
            if "network" in spec:
                spec["network"] = digest(spec["network"])
        assert spec_digests(cell, 3, root) == [digest(spec) for spec in specs]
        assert len(set(spec_digests(cell, 3, root))) == 3
