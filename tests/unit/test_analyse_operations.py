"""parse_run on an operation, and the floating-point rate of training: exact numbers."""

import json

import pytest

from analyse.files import InputError
from analyse.record import OF_TRAINING, build_record
from fixtures.runs import edit_json, make_run, read_events, write_events
from unit.test_analyse_record import VALIDATOR, value


def make_operation(folder, tolerance=1e-4, flops=2**30, **options):
    """A run of the fixture's step times as one of an operation."""
    make_run(folder, batch_size=1, train_examples=10, network="gemm", dataset="3x4x5", **options)
    spec = json.loads((folder / "spec.json").read_text())
    for key in ("network", "data"):
        del spec[key]
    spec["operation"] = {"name": "gemm", "dimensions": {}, "flops": flops, "traffic": 2**20}
    spec["phases"]["seconds"] = 4.0
    (folder / "spec.json").write_text(json.dumps(spec))
    events = [e for e in read_events(folder) if e["event"] != "evaluation"]
    for event in events:
        if event["event"] == "chunk":
            event["losses"] = []
    place = [e["event"] for e in events].index("result")
    events.insert(place, {"event": "deviation", "value": 2.0**-20, "tolerance": tolerance})
    write_events(folder, events)
    return folder


def test_an_operation_has_rates_and_nothing_of_training(tmp_path):
    record = build_record(make_operation(tmp_path))
    VALIDATOR.validate(record)
    assert value(record, "step_rate") == 4
    assert value(record, "flop_rate") == 4 * 2**30 / 1e9
    assert value(record, "memory_rate") == 4 * 2**20 / 1e9
    assert value(record, "deviation") == 2.0**-20
    assert value(record, "cpu_cores") == 1.5
    for name in OF_TRAINING:
        assert record["metrics"][name]["reason"] == "an operation is called, not trained"


def test_training_counts_six_operations_for_every_multiply_accumulate(tmp_path):
    record = build_record(make_run(tmp_path))
    assert value(record, "flop_rate") == 6 * 2**20 * 256 / 1e9


def test_a_chunk_of_an_operation_with_losses_is_refused(tmp_path):
    events = read_events(make_operation(tmp_path))
    next(e for e in events if e["event"] == "chunk")["losses"] = [1.0]
    write_events(tmp_path, events)
    with pytest.raises(InputError, match="a chunk of 1 steps has 1 losses"):
        build_record(tmp_path)


def test_an_operation_without_its_count_is_refused(tmp_path):
    edit_json(make_operation(tmp_path) / "spec.json", operation__flops=None)
    with pytest.raises(InputError, match="'operation.flops' is None, not int"):
        build_record(tmp_path)
