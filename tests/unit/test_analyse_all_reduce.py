"""All-reduce: how it is planned, what its bandwidths are, and that a wrong sum is noticed."""

import json

import numpy as np
import pytest

from fixtures.records import require_valid, value
from touchstone import operations
from touchstone.plan.read import ConfigError
from touchstone.plan.spec import make_spec
from touchstone.plan.study import make_plan
from touchstone.results.record import build_record
from unit.test_analyse_operations import make_operation


def study(**sweep):
    sweep = {"framework": "pytorch", "network": "all_reduce", "dataset": "1000", **sweep}
    return {"study": "test", "title": "A test", "repeats": 1, "sweeps": [sweep]}


def test_as_many_take_part_as_the_cell_has_replicas(root):
    plan = make_plan(study(replicas=[2, 4]), root)
    assert [cell.replicas for cell in plan.cells.values()] == [2, 4]
    spec = make_spec(list(plan.cells.values())[1], 1, root)
    assert (spec.execution.replicas, spec.operation.exchanged) == (4, 4000)
    assert spec.execution.replicas_are == "processes"


def test_any_other_operation_has_one_replica_and_the_spec_of_before(root):
    product = study(network="gemm", dataset="2x3x4")
    product["defaults"] = {"replicas": 2}
    product["sweeps"].append({**study()["sweeps"][0], "replicas": 2})
    cell, _ = make_plan(product, root).cells.values()
    assert cell.replicas == 1
    assert make_spec(cell, 1, root).operation.exchanged is None


@pytest.mark.parametrize(
    "sweep, told",
    [
        ({}, "replicas: all_reduce is between several; set replicas to 2 or more"),
        ({"replicas": 2, "threads": 3}, "threads: 3 cannot be split evenly over 2 replicas"),
        ({"replicas": 2, "precision": "fp64"}, "precision: all_reduce is written for fp32"),
    ],
)
def test_what_cannot_be_is_refused(sweep, told, root):
    with pytest.raises(ConfigError) as refused:
        make_plan(study(**sweep), root)
    assert told in str(refused.value)


@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_every_replica_must_have_the_sum_of_all(replicas):
    from touchstone.operations.all_reduce import own

    operation = operations.load("all_reduce")
    operation.replicas = replicas
    a = operation.arrays(np.random.RandomState(1), 1001)["a"]
    parts = [own(a, rank) for rank in range(replicas)]
    total = np.sum(parts, axis=0, dtype=np.float64)
    assert operation.deviation([total] * replicas, a) == 0
    assert operation.deviation([np.stack([total] * replicas)], a) == 0
    assert operation.deviation([total] * (replicas - 1) + [total - parts[1]], a) > 0.1
    assert operation.deviation([total / replicas], a) > 0.1
    assert operation.deviation([total.astype(np.float32) * 1.01], a) > 5e-3


def test_the_bandwidths_are_those_of_nccl_tests(tmp_path):
    """Of an array of 4 MiB, 4 calls/s and 4 replicas: 2 (4 - 1) / 4 = 1.5."""
    path = make_operation(tmp_path, flops=0) / "spec.json"
    spec = json.loads(path.read_text())
    spec["operation"]["exchanged"] = 2**22
    spec["execution"]["replicas"] = 4
    path.write_text(json.dumps(spec))
    record = build_record(tmp_path)
    require_valid(record)
    assert value(record, "algorithm_bandwidth") == 4 * 2**22 / 1e9
    assert value(record, "bus_bandwidth") == pytest.approx(1.5 * 4 * 2**22 / 1e9)


def test_no_other_operation_has_them(tmp_path):
    record = build_record(make_operation(tmp_path))
    for name in ("algorithm_bandwidth", "bus_bandwidth"):
        assert record["metrics"][name]["value"] is None
        assert record["metrics"][name]["reason"] == "only an all-reduce exchanges an array"


def test_replicas_are_part_of_the_name(root):
    plan = make_plan(study(replicas=[2, 4]), root)
    assert len(plan.cells) == 2
