"""Specs and events as both sides of a run have them, and as JSON."""

import json
from typing import Any

import pytest

from fixtures.runs import make_run
from fixtures.specs import training_spec
from touchstone.commands.document_run import PAGE, page_with_tables
from touchstone.plan import frameworks
from touchstone.plan.model import Cell
from touchstone.plan.parity import parity_spec
from touchstone.plan.parts import Program
from touchstone.plan.spec import make_spec
from touchstone.schema.events import (
    Chunk,
    Outcome,
    Result,
    event_from_json,
    event_to_line,
    events_of,
    outcome_of,
    read_events,
)
from touchstone.schema.spec import KINDS, ProfileSpec, kind_of, spec_from_json, spec_to_json
from touchstone.schema.values import WrongValue

CELLS: dict[str, dict[str, Any]] = {
    "training": {"network": "resnet20-cifar", "dataset": "cifar10", "optimizer": "adam"},
    "inference": {"network": "lenet5", "dataset": "mnist-5k", "workload": "inference"},
    "operation": {"network": "gemm", "dataset": "3x4x5"},
    "program": {"network": "program", "dataset": "own", "program": "mine"},
}


def spec_of(kind, root):
    if kind == "parity":
        return parity_spec("lstm-text", "jax")
    if kind == "profile":
        return ProfileSpec(spec_of("training", root))
    program = Program(file=__file__, framework="pytorch") if kind == "program" else None
    return make_spec(Cell(framework="pytorch", mode="eager", **CELLS[kind]), 1, root, program)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_is_the_same_after_its_way_through_json(kind, root):
    spec = spec_of(kind, root)
    assert kind_of(spec) == kind
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))) == spec


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "'format' is 2, not 1"),
        ({"kind": "dancing"}, "'kind' is 'dancing', not one of training"),
        ({"seed": "1"}, "'seed' is '1', not int"),
        ({"repeat": True}, "'repeat' is True, not int"),
        ({"speed": 1}, "'speed' is no field of TrainingSpec"),
        ({"network": 3}, "'network' is 3, not an object"),
        ({"limits": {"seconds": 1}}, "'limits.memory_mib' is missing"),
        ({"deviations": ["a", 2]}, "'deviations[1]' is 2, not str"),
        ({"augmentation": {"crop_padding": 1.5, "flip": True}}, "'augmentation.crop_padding' is"),
    ],
)
def test_a_damaged_spec_is_refused_with_its_field_and_value(change, reason):
    with pytest.raises(WrongValue) as refused:
        spec_from_json(spec_to_json(training_spec()) | change)
    assert reason in str(refused.value)


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_spec_of_before_has_its_optimizers_settings_in_their_place(name, root):
    """They stood among the others, with 0 for those of the other optimizer."""
    cell = Cell(framework="pytorch", mode="eager", **{**CELLS["training"], "optimizer": name})
    spec = make_spec(cell, 1, root)
    value = spec_to_json(spec)
    own = value["optimizer"].pop("settings")
    first = {"momentum": 0.0, "nesterov": False, "beta1": 0.0, "beta2": 0.0, "epsilon": 0.0}
    value["optimizer"] |= {**first, **own}
    assert spec_from_json(value) == spec
    value["optimizer"]["speed"] = 1
    with pytest.raises(WrongValue, match="'optimizer.speed' is no field of Optimizer"):
        spec_from_json(value)


def test_an_event_is_a_line_and_read_again(tmp_path):
    chunk = Chunk("measured", 3, 2, 1.0, 2.5, [0.5, None])
    line = event_to_line(chunk)
    assert json.loads(line)["event"] == "chunk" and event_from_json(json.loads(line)) == chunk
    events = read_events(make_run(tmp_path) / "events.jsonl")
    assert isinstance(outcome_of(events), Outcome) and outcome_of(events).status == "ok"
    with pytest.raises(ValueError, match="no outcome"):
        outcome_of(events[:-1])


def test_only_the_events_that_are_asked_for_are_looked_at():
    lines = '{"event": "dance"}\n' + event_to_line(Result("ok", None))
    assert events_of(lines, Result) == [Result("ok", None)]
    with pytest.raises(WrongValue, match="no event"):
        event_from_json({"event": "dance"})


def test_the_document_has_every_field():
    page = PAGE.read_text()
    assert page_with_tables(page) == page, "run `make docs`"


def test_every_framework_reads_the_records_that_its_spec_names(root):
    for framework in frameworks.names():
        cell = Cell(framework=framework, network="lenet5", dataset="mnist-5k", mode="eager")
        assert set(make_spec(cell, 1, root).data.shards) == {"train", "test"}
