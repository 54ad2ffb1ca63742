"""An all-reduce in every framework that has replicas, as its own runner makes it."""

import json

import pytest

from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec

pytestmark = pytest.mark.long

ABLE = [name for name in frameworks.adapters() if frameworks.replicas(name)[0]]
SHORT = {"operation_seconds": 0.3, "warmup_seconds": 0.05, "warmup_steps": 2}


@pytest.fixture
def reduced(root, once):
    """Runs an all-reduce: its events. `scripts` may be a changed copy of ours."""

    def run(framework, replicas, elements, scripts=root / "workflow/scripts"):
        cell = Cell(
            framework=framework, network="all_reduce", dataset=str(elements), replicas=replicas,
            mode=frameworks.modes(framework)[0], batch_size=1, input="synthetic", **SHORT,
        )  # fmt: skip
        ended, events = once(framework, make_spec(cell, 1, root), ".jsonl", code=scripts)
        return ended, [json.loads(line) for line in events.read_text().splitlines()]

    return run


@pytest.mark.parametrize("framework", ABLE)
def test_every_replica_has_the_sum_of_all(framework, reduced):
    ended, events = reduced(framework, 3, 100_001)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert events[-1]["status"] == "ok", events[-1]
    (deviation,) = (e["value"] for e in events if e["event"] == "deviation")
    calls = sum(e["steps"] for e in events if e["event"] == "chunk" and e["phase"] == "measured")
    print(framework, calls, deviation)
    assert deviation <= 1e-6


@pytest.mark.framework("pytorch")
def test_a_sum_of_fewer_replicas_is_noticed(reduced, planted):
    """The second process takes part with zeros."""
    scripts = planted(
        "operations/all_reduce",
        """
class Operation(Operation):
    def pytorch(self, adapter, a):
        return super().pytorch(adapter, a * np.float32(adapter.group.rank == 0))
""",
    )
    ended, _ = reduced("pytorch", 2, 1001, scripts)
    assert ended.returncode != 0
    assert "from those in double precision" in ended.stderr


@pytest.mark.parametrize("framework", sorted(set(frameworks.adapters()) - set(ABLE)))
def test_a_framework_without_replicas_is_unsupported_with_the_reason(framework, reduced):
    ended, events = reduced(framework, 2, 1001)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert events[-1]["status"] == "unsupported"
    assert events[-1]["reason"] == frameworks.replicas(framework)[1]
