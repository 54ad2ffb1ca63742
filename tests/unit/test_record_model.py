"""The model of a record: what is generated from it is current, and every rule is enforced.

A rule is enforced if a record that breaks only it is refused by the model and by the JSON schema
that is generated from it. Records of all kinds of runs pass both in the tests of `build_record`.
"""

import copy
import json

import pytest

from fixtures.records import SCHEMA, VALIDATOR, refused_by, require_valid
from fixtures.runs import make_run
from touchstone.commands.document_record import CONTRACTS, contracts, schema
from touchstone.results.flags import FLAGS
from touchstone.results.metrics import METRICS
from touchstone.results.phases import PHASES
from touchstone.results.record import build_record
from touchstone.results.record_model import faults
from touchstone.schema.status import STATUSES

TRIAL = {
    "mode": "static", "threads": None, "wait_policy": "default", "status": "ok", "reason": None,
    "throughput": 250.0, "first_step_time": 1.0, "folder": "trials/static",
}  # fmt: skip


def test_what_is_generated_is_current():
    assert schema() == SCHEMA, "run `make docs`"
    text = CONTRACTS.read_text(encoding="utf-8")
    assert contracts(text) == text, "run `make docs`"


def test_the_schema_names_what_the_code_names():
    VALIDATOR.check_schema(SCHEMA)
    properties, parts = SCHEMA["properties"], SCHEMA["$defs"]
    assert properties["flags"]["items"]["enum"] == list(FLAGS)
    assert properties["phases"]["propertyNames"]["enum"] == list(PHASES)
    assert properties["status"]["enum"] == list(STATUSES)
    assert list(parts["Metrics"]["properties"]) == list(METRICS)


def test_every_field_has_a_description():
    described = [SCHEMA, *SCHEMA["$defs"].values()]
    for part in described:
        assert part["description"]
        assert all(value["description"] for value in part["properties"].values())


@pytest.fixture
def ok(tmp_path):
    """A valid record that has every part that a record can have, but for what a fault leaves."""
    record = build_record(make_run(tmp_path / "ok"))
    record["provenance"] |= {
        "trials": [TRIAL],
        "nodes": [{"machine": {"logical_cores": 2}, "clock_uncertainty": t} for t in (0.0, 0.1)],
    }
    record["provenance"]["settings"] |= {"differs": ["why"], "hints": ["what"]}
    require_valid(record)
    return record


@pytest.fixture
def failed(tmp_path):
    """A valid record of a fault."""
    record = build_record(make_run(tmp_path / "failed", status="error", reason="it broke"))
    require_valid(record)
    return record


def parent_of(record, place):
    """What holds the value at a place, `losses.0.epoch`, and its key there."""
    *above, last = place.split(".")
    for key in above:
        record = record[int(key)] if isinstance(record, list) else record[key]
    return record, int(last) if isinstance(record, list) else last


def changed(record, place, value):
    record = copy.deepcopy(record)
    part, key = parent_of(record, place)
    part[key] = value
    return record


def without(record, place):
    record = copy.deepcopy(record)
    part, key = parent_of(record, place)
    del part[key]
    return record


BOTH = ["model", "schema"]
REQUIRED = {
    "": "format cell repeat status reason factors flags metrics phases losses evaluations"
    " provenance",
    "factors": "framework network dataset device precision mode input batch_size learning_rate",
    "metrics.throughput": "value unit",
    "metrics.gpu_power": "value unit reason",
    "losses.0": "epoch loss",
    "evaluations.0": "epoch accuracy loss seconds",
    "provenance": "seed deviations started machine environment software settings trials start"
    " unknown run",
    "provenance.machine": "logical_cores",
    "provenance.data": "folder files bytes verified remembered",
    "provenance.trials.0": "mode threads wait_policy status reason throughput first_step_time"
    " folder",
    "provenance.nodes.0": "machine clock_uncertainty",
}
CLOSED = (
    "metrics.throughput", "metrics.gpu_power", "phases", "losses.0", "evaluations.0",
    "provenance", "provenance.data", "provenance.settings", "provenance.trials.0",
    "provenance.nodes.0",
)  # fmt: skip
NO_TEXT, NO_MAPPING, NO_LIST = (1, None, ["a"], {}), (1, None, "a", []), (1, None, "a", {})
NO_NUMBER = ("1.5", [], {}, True)
WRONG = {
    "format": (2, 0, "1", None, True),
    "cell": (*NO_TEXT, "", "a b", "a/b"),
    "repeat": (0, -1, 1.5, "1", None, True),
    "status": ("fine", "OK", None, 1),
    "reason": ("", 1, [], "an ok run needs none"),
    "factors": NO_MAPPING,
    "factors.framework": ([], {}),
    "factors.epochs": ([], {}),
    "flags": (*NO_LIST, ["fast"], [1], ["drifting", "drifting"]),
    "metrics": NO_MAPPING,
    "metrics.throughput": NO_MAPPING,
    "metrics.throughput.value": NO_NUMBER,
    "metrics.throughput.reason": ("a number has none",),
    "metrics.throughput.censored_at": (1.0,),
    "metrics.gpu_power.value": (1.0,),  # which has a reason
    "metrics.gpu_power.reason": ("", 1, None),
    "metrics.gpu_power.censored_at": (*NO_NUMBER, None),
    "phases": (*NO_MAPPING, {"pause": 1.0}),
    "phases.measured": (*NO_NUMBER, -1.0, None),
    "losses": (*NO_LIST, [1.0]),
    "losses.0.epoch": (0, 1.5, "1", None, True),
    "losses.0.loss": NO_NUMBER,
    "evaluations": (*NO_LIST, [1.0]),
    "evaluations.0.epoch": (0, 1.5, "1", None, True),
    "evaluations.0.accuracy": (*NO_NUMBER, -0.1, 1.1),
    "evaluations.0.loss": NO_NUMBER,
    "evaluations.0.seconds": (*NO_NUMBER, -0.1, None),
    "provenance": NO_MAPPING,
    "provenance.seed": (-1, 1.5, "1", None, True),
    "provenance.deviations": (*NO_LIST, [1]),
    "provenance.started": (*NO_TEXT, "yesterday", "2026-11-21", "2026-11-21T05:40:00"),
    "provenance.data": NO_MAPPING,
    "provenance.data.folder": (*NO_TEXT, ""),
    "provenance.data.files": (0, 1.5, "1", None, True),
    "provenance.data.bytes": (-1, 1.5, "1", None, True),
    "provenance.data.verified": (*NO_TEXT, "yesterday", "2026-11-21"),
    "provenance.data.remembered": (1, "yes", None),
    "provenance.machine": NO_MAPPING,
    "provenance.environment": NO_MAPPING,
    "provenance.software": NO_MAPPING,
    "provenance.settings": NO_MAPPING,
    "provenance.settings.requested": NO_MAPPING,
    "provenance.settings.effective": NO_MAPPING,
    "provenance.settings.differs": (*NO_LIST, [1], [""]),
    "provenance.settings.hints": (*NO_LIST, [1], [""]),
    "provenance.trials": (*NO_LIST, [1]),
    "provenance.trials.0.mode": NO_TEXT,
    "provenance.trials.0.threads": (0, 1.5, "1", True),
    "provenance.trials.0.wait_policy": ("asleep", None),
    "provenance.trials.0.status": ("fine", None),
    "provenance.trials.0.reason": (1, [], {}),
    "provenance.trials.0.throughput": NO_NUMBER,
    "provenance.trials.0.first_step_time": NO_NUMBER,
    "provenance.trials.0.folder": NO_TEXT,
    "provenance.start": NO_MAPPING,
    "provenance.unknown": (*NO_MAPPING, {"machine.governor": ""}, {"machine.governor": None}),
    "provenance.run": (*NO_TEXT, ""),
    "provenance.nodes": (*NO_LIST, [], [{"machine": {}, "clock_uncertainty": 0.0}]),
    "provenance.nodes.0.machine": NO_MAPPING,
    "provenance.nodes.0.clock_uncertainty": (*NO_NUMBER, -0.1, None),
    "log_tail": (["an ok run has none"],),
}


@pytest.mark.parametrize("place", REQUIRED)
def test_a_record_without_a_required_field_is_refused(ok, place):
    for name in REQUIRED[place].split():
        bad = without(ok, f"{place}.{name}".removeprefix("."))
        assert refused_by(bad) == BOTH, name


@pytest.mark.parametrize("place", CLOSED)
def test_a_record_with_another_field_is_refused(ok, place):
    assert refused_by(changed(ok, f"{place}.extra", 1)) == BOTH


def test_a_record_of_another_version_has_other_metrics(ok):
    for name in METRICS:
        assert refused_by(without(ok, f"metrics.{name}")) == [], name
    other = {"value": 1.5, "unit": "images/J"}
    assert refused_by(changed(ok, "metrics.images_per_joule", other)) == []
    assert refused_by(changed(ok, "metrics.images_per_joule", {"value": 1.5})) == BOTH


def test_a_record_with_another_part_is_refused_but_with_another_setting_of_its_cell_is_not(ok):
    assert refused_by(changed(ok, "extra", 1)) == BOTH
    require_valid(changed(ok, "factors.nesterov", True))
    require_valid(changed(ok, "provenance.machine.rack", "left"))


@pytest.mark.parametrize("place", WRONG)
def test_a_record_with_a_wrong_value_is_refused(ok, place):
    for value in WRONG[place]:
        assert refused_by(changed(ok, place, value)) == BOTH, value


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_in_another_unit_is_refused(ok, name):
    for unit in ("furlongs", "", None, 1):
        assert refused_by(changed(ok, f"metrics.{name}.unit", unit)) == BOTH


@pytest.mark.parametrize("name", ["step_rate", "first_step_time", "flop_rate"])
def test_a_run_that_is_ok_without_a_number_that_every_such_run_has_is_refused(ok, name):
    unit = METRICS[name].unit
    bad = changed(ok, f"metrics.{name}", {"value": None, "unit": unit, "reason": "lost"})
    assert refused_by(bad) == BOTH


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_run_that_is_not_ok_has_a_reason(ok, status):
    assert refused_by(changed(ok, "status", status)) == BOTH


def test_only_a_fault_has_the_end_of_its_log(failed):
    assert refused_by(without(failed, "log_tail")) == BOTH
    assert refused_by(changed(failed, "status", "oom")) == BOTH
    for value in (*NO_LIST, [1]):
        assert refused_by(changed(failed, "log_tail", value)) == BOTH


def test_a_number_that_is_not_finite_is_refused(ok):
    assert "model" in refused_by(changed(ok, "metrics.throughput.value", float("nan")))


def test_faults_say_where_and_why(ok):
    bad = changed(changed(ok, "repeat", 0), "losses.0.epoch", "one")
    assert faults(bad) == [
        "$.repeat: Input should be greater than or equal to 1",
        "$.losses[0].epoch: Input should be a valid integer",
    ]
    assert json.loads(json.dumps(ok)) == ok
