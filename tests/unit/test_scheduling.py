"""How tests are shared among processes."""

import os

import pytest

from fixtures.cores import ALL, every_core
from fixtures.scheduling import LongestFirst, scope


@pytest.mark.parametrize(
    "nodeid, expected",
    [
        ("tests/contract/test_parity.py::test_a[jax-jit]", "jax"),
        ("tests/contract/test_nodes.py::test_a[effective-pytorch]", "pytorch"),
        ("tests/contract/test_cntk.py::test_a[our Adam]", "cntk"),
        ("tests/contract/test_records.py::test_a", "tests/contract/test_records.py"),
        ("tests/unit/test_names.py::test_a[jax]", "tests/unit/test_names.py"),
        ("tests/workflow/test_outcomes.py::test_a", "tests/workflow/test_outcomes.py::test_a"),
    ],
)
def test_one_process_runs_the_tests_of_a_framework_or_a_file(nodeid, expected):
    assert scope(nodeid) == expected


def test_what_takes_longest_begins_first():
    queue = LongestFirst()
    for name, count in (("unit/a", 30), ("workflow/b", 2), ("jax", 9), ("unit/d", 60), ("cntk", 9)):
        queue[name] = {f"test_{number}": False for number in range(count)}
    found = [queue.popitem(last=False)[0] for _ in range(len(queue))]
    assert found == ["jax", "unit/d", "workflow/b", "cntk", "unit/a"]
    assert not queue


def test_a_process_beside_others_has_a_core_and_may_have_all_of_them():
    own = os.sched_getaffinity(0)
    assert len(own) == 1 or "PYTEST_XDIST_WORKER" not in os.environ
    with every_core():
        assert sorted(os.sched_getaffinity(0)) == ALL
    assert os.sched_getaffinity(0) == own
