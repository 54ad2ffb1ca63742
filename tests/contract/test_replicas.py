"""Data-parallel training: the losses of one process, replicas at work, no hang when one dies."""

import csv
import json
import os
from collections import Counter
from functools import cache

import numpy as np
import psutil
import pytest

from fixtures.specs import EPOCH, FEW_STEPS
from touchstone.measure import order, supervisor
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.spec import make_spec
from touchstone.schema.spec import spec_to_json

ABLE = [name for name in frameworks.names() if frameworks.replicas(name)[0]]
STEPS = 10
LOSS = 1e-5
"""Of a loss of the first ten steps: single precision, with sums in another order."""
MIXED = 2e-2
"""The same where products have 7 bits of mantissa."""


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def losses_of(events):
    assert events[-1]["status"] == "ok", events[-1]
    return np.array([x for e in events if e["event"] == "chunk" for x in e["losses"]])[:STEPS]


@cache
def alone(study, framework):
    return losses_of(events_of(study(framework, ".jsonl", **EPOCH)))


@pytest.mark.parametrize("framework", ABLE)
def test_two_replicas_have_the_losses_of_one_process(framework, study):
    events = events_of(study(framework, ".jsonl", replicas=2, **EPOCH))
    worst = np.abs(losses_of(events) - alone(study, framework)).max()
    print(framework, worst)
    assert worst <= LOSS
    settings = next(e for e in events if e["event"] == "settings")
    asked = {key: value for key, value in settings["requested"].items() if value is not None}
    assert {key: settings["effective"][key] for key in asked} == pytest.approx(asked)
    assert (settings["effective"]["replicas"], settings["effective"]["batch_size"]) == (2, 64)
    assert settings["effective"]["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)
    steps = {
        e["name"]: e["examples"] / e["steps"] for e in events if e.get("steps") and "name" in e
    }
    assert set(steps.values()) == {64}
    one = next(e for e in events if e["event"] == "evaluation")
    assert one["correct"] / one["examples"] > 0.5


OTHER = {
    "epochs": 2, "evaluate_every": 1, "chunk_seconds": 0.0, "warmup_seconds": 0.0,
    "input": "records", "optimizer": "adam", "learning_rate": 0.001,
    "weight_decay_form": "decoupled", "crop_padding": 2, "flip": True,
}  # fmt: skip
SPLIT = {"replicas": 2, "batch_split": "per_replica", "batch_size": 32}


@pytest.mark.long
@pytest.mark.parametrize("framework", ABLE)
def test_so_they_have_split_by_replica_from_records_with_adam_augmented(framework, study):
    data = study.few(framework)
    found, reference = (
        events_of(study(framework, ".jsonl", data=data, **OTHER, **split)) for split in (SPLIT, {})
    )
    worst = np.abs(losses_of(found) - losses_of(reference)).max()
    print(framework, worst)
    assert worst <= LOSS
    assert [e["epoch"] for e in found if e["event"] == "evaluation"] == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("framework", ABLE)
def test_so_they_have_in_mixed_precision(framework, study):
    found, reference = (
        events_of(study(framework, ".jsonl", replicas=count, precision="bf16", **FEW_STEPS))
        for count in (2, 1)
    )
    if "AVX-512" in (found[-1]["reason"] or ""):
        assert found[-1] == reference[-1]
        pytest.skip(found[-1]["reason"])
    worst = np.abs(losses_of(found) - losses_of(reference)).max()
    print(framework, worst)
    assert worst <= MIXED
    phases = {e["name"]: e for e in found if e["event"] == "phase"}
    assert phases["measured"]["steps"] == FEW_STEPS["steps"] and "evaluation" not in phases


BREAKS = {
    "pytorch": """
class Adapter(Adapter):
    def _replicated(self):
        super()._replicated()
        return self.model
""",
    "tensorflow": """
class Adapter(Adapter):
    def _update_all(self, gradients, scalars):
        sums = [self.replicas * tf.convert_to_tensor(each) for each in gradients]
        super()._update_all(sums, scalars)
""",
    "mxnet": """
class Adapter(Adapter):
    def _optimize(self):
        super()._optimize()
        step = self.trainer.step
        self.trainer.step = lambda replicas: step(1)
""",
    "jax": """
def of_the_loss(found, axis, mean=lax.pmean):
    loss, gradients = found
    return mean(loss, axis), gradients
lax.pmean = of_the_loss
""",
}
"""By framework, what exchanges gradients wrongly or not at all, at the end of its adapter."""


@pytest.mark.long
@pytest.mark.parametrize("framework", ABLE)
def test_gradients_that_are_exchanged_wrongly_would_be_noticed(framework, study, planted):
    scripts = planted(f"runner/adapters/{framework}/adapter", BREAKS[framework])
    path = study(framework, ".jsonl", code=scripts, replicas=2, **FEW_STEPS)
    assert np.abs(losses_of(events_of(path)) - alone(study, framework)).max() > 10 * LOSS


@pytest.mark.parametrize("framework", sorted(set(frameworks.names()) - set(ABLE)))
def test_a_framework_without_replicas_is_unsupported_with_the_reason(framework, study):
    events = events_of(study(framework, ".jsonl", replicas=2, **FEW_STEPS))
    assert events[-1]["status"] == "unsupported"
    assert events[-1]["reason"] == frameworks.replicas(framework)[1]


@pytest.mark.parametrize(
    "framework, settings, reason",
    [
        ("pytorch", {"mode": "compile"}, "exchange gradients"),
        ("tensorflow", {"mode": "xla"}, "exchange gradients"),
        ("tensorflow", {"precision": "fp16-amp"}, "one loss scale"),
    ],
)
def test_what_replicas_cannot_do_is_unsupported(framework, settings, reason, study):
    events = events_of(study(framework, ".jsonl", replicas=2, **settings, **FEW_STEPS))
    assert events[-1]["status"] == "unsupported"
    assert reason in events[-1]["reason"]


SECOND = """
class Adapter(Adapter):
    def train_steps(self, *batches):
        if self.group and self.group.rank == 1 and self.batch_size:
            {}
        return super().train_steps(*batches)
"""
"""What PyTorch's second replica does before its second chunk and later ones."""
ENDS = {
    "killed": "__import__('os').kill(__import__('os').getpid(), 9)",
    "failed": "raise ZeroDivisionError('planted')",
    "out of memory": "raise MemoryError('planted')",
    "hanging": "__import__('time').sleep(3600)",
}
"""By name, what the second replica does in its second chunk."""
LIMIT = 800.0
"""Of a run's time, s: no load of the machine brings a run that goes on near it."""


@pytest.fixture
def supervised(study, planted, root, tmp_path, python_of, monkeypatch):
    """Supervise a run of two replicas of PyTorch, its adapter changed: its events."""

    def run(end, seconds):
        scripts = planted("runner/adapters/pytorch/adapter", SECOND.format(end))
        cell = Cell(
            framework="pytorch", network="lenet5", dataset="mnist-5k", replicas=2, epochs=4,
            mode=frameworks.modes("pytorch")[0], time_limit=seconds, warmup_seconds=0.0,
            sampling_interval=0.1,
        )  # fmt: skip
        spec = make_spec(cell, 1, root)
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(spec_to_json(spec)))
        monkeypatch.chdir(study.folder)
        monkeypatch.setattr(order, "_last", lambda: tmp_path / "last")
        runner = str(scripts / "run_in_framework.py")
        command = [python_of("pytorch"), runner, str(path), str(tmp_path / "events.jsonl")]
        supervisor.supervise(spec, command, tmp_path, tmp_path / "log", final=True)
        running = psutil.process_iter(["cmdline"])
        assert [p.pid for p in running if runner in (p.info["cmdline"] or [])] == []
        return events_of(tmp_path / "events.jsonl")

    return run


@pytest.mark.long
@pytest.mark.framework("pytorch")
@pytest.mark.parametrize(
    "end, status, said",
    [
        ("killed", "error", "SIGKILL"),
        # Sometimes PyTorch aborts while the other process raises what it lost.
        ("failed", "error", "and no result"),
        ("out of memory", "oom", "planted"),
        ("hanging", "timeout", "longer than the limit"),
    ],
)
def test_the_end_of_one_replica_is_that_of_the_run(end, status, said, supervised):
    """At once: the other one does not wait for it until the limit."""
    events = supervised(ENDS[end], seconds=8.0 if end == "hanging" else LIMIT)
    assert events[-1]["status"] == status
    assert said in events[-1]["reason"]
    if end == "failed":
        assert "ZeroDivisionError: planted" in "\n".join(events[-1]["log_tail"])


@pytest.mark.long
@pytest.mark.framework("pytorch")
def test_the_telemetry_is_that_of_all_replicas(supervised, tmp_path):
    events = supervised("pass", LIMIT)
    assert events[-1]["status"] == "ok"
    with open(tmp_path / "telemetry.csv") as file:
        processes = Counter(row["processes"] for row in csv.DictReader(file))
    assert max(map(float, filter(None, processes))) >= 2
