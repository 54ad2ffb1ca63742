"""The telemetry of several nodes as one, with answers known beforehand."""

import csv
import json
import shutil

import pytest

from fixtures.records import require_valid
from fixtures.runs import edit_json, make_run, read_events, write_events, write_telemetry
from touchstone.results.bundle import _without_names as without_names
from touchstone.results.files import InputError
from touchstone.results.nodes import shift, together
from touchstone.results.privacy import Names
from touchstone.results.record import build_record


def test_a_clock_that_drifts_is_followed_between_its_readings():
    clock = [{"at": 100.0, "offset": 50.0}, {"at": 200.0, "offset": 51.0}]
    assert [shift(clock, t) for t in (90.0, 100.0, 150.0, 200.0, 210.0)] == [
        140.0, 150.0, 200.5, 251.0, 261.0,
    ]  # fmt: skip
    assert shift(clock[:1], 150.0) == 200.0


@pytest.mark.parametrize(
    "name, expected",
    [
        ("cpu_seconds", [(1.0, 10.0 + 105.0), (2.0, 20.0 + 110.0)]),
        ("gpu_utilization", [(1.0, 57.5), (2.0, 65.0)]),
        ("gpu_temperature", [(1.0, 105.0), (2.0, 110.0)]),
    ],
)
def test_columns_are_put_together_where_all_were_watched(name, expected):
    first = {name: [(0.0, 0.0), (1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]}
    other = {name: [(0.5, 102.5), (1.5, 107.5), (2.5, 112.5)]}
    assert together(first, [other]) == {name: expected}


def test_bits_of_the_samples_on_both_sides_are_kept():
    name = "gpu_throttle_reasons"
    first, other = [(1.0, 1.0), (2.0, 0.0)], [(0.5, 2.0), (1.5, 0.0), (2.5, 4.0)]
    assert together({name: first}, [{name: other}]) == {name: [(1.0, 3.0), (2.0, 4.0)]}


def test_a_column_that_a_node_lacks_is_empty():
    assert together({"cpu_energy": [(1.0, 5.0)]}, [{}]) == {"cpu_energy": []}


@pytest.fixture
def run(tmp_path):
    """A run on two nodes that are alike, the clock of the other 1,000 s late."""
    folder, other = make_run(tmp_path / "run"), tmp_path / "run/nodes/other"
    other.mkdir(parents=True)
    edit_json(folder / "spec.json", execution__nodes=2)
    shutil.copy(folder / "env.json", other)
    edit_json(other / "env.json", machine__hostname="other")
    with open(folder / "telemetry.csv", newline="") as file:
        rows = [{name: float(x) for name, x in row.items() if x} for row in csv.DictReader(file)]
    write_telemetry(other, [{**row, "t": row["t"] - 1000} for row in rows])
    clock = [{"at": -900.0, "offset": 1000.0, "uncertainty": 0.002}]
    (other / "node.json").write_text(json.dumps({"format": 1, "name": "other", "clock": clock}))
    return folder


def test_the_record_is_of_all_nodes(run):
    record = build_record(run)
    require_valid(record)
    expected = {"cpu_cores": 3.0, "cpu_utilization": 75.0, "host_memory_peak": 2 * 522.0}
    assert {name: record["metrics"][name]["value"] for name in expected} == expected
    nodes = record["provenance"]["nodes"]
    assert [node["clock_uncertainty"] for node in nodes] == [0.0, 0.002]
    assert nodes[1]["machine"]["hostname"] == "other"


def test_a_run_that_is_ok_has_the_files_of_every_node(run):
    (run / "nodes/other/node.json").unlink()
    with pytest.raises(InputError, match="0 other nodes left their files, not 1"):
        build_record(run)


def test_of_one_that_is_not_ok_no_part_is_taken_for_all(run):
    (run / "nodes/other/node.json").unlink()
    *events, outcome = read_events(run)
    write_events(run, [*events, {**outcome, "status": "timeout", "reason": "late"}])
    record = build_record(run)
    assert record["metrics"]["throughput"]["value"] > 0
    assert record["metrics"]["cpu_cores"]["reason"] == "no sensor gave cpu_seconds"


def test_a_bundle_hides_the_names_of_all_nodes(tmp_path):
    machines = [{"hostname": "first"}, {"hostname": "other"}]
    record = {
        "reason": "node other: first", "log_tail": ["other"],
        "provenance": {
            "machine": machines[0], "unknown": {}, "nodes": [{"machine": m} for m in machines],
        },
    }  # fmt: skip
    env = {"machine": {"hostname": "first"}, "unknown": {}}
    hidden = json.dumps(without_names(record, env, Names(("first", "other"), (tmp_path,), ())))
    assert "other" not in hidden and "first" not in hidden
