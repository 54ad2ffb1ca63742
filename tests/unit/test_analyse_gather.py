"""gather: the two tables against values computed by hand and by `statistics`."""

import csv
import json
import statistics
import time

import pytest

from analyse.files import InputError
from analyse.metrics import METRICS
from analyse.tables import MEASUREMENTS, SUMMARY, gather, read_plan
from fixtures.runs import FACTORS, cell_name, make_record, write_plan


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def mixed(tmp_path):
    """Two cells of three repeats: the first with a timeout, the second without any ok run."""
    a, b = {"framework": "pytorch"}, {"framework": "mxnet", "batch_size": 32}
    places = (tmp_path / "runs", tmp_path / "records")
    seconds = {1: 0.25, 2: 0.5, 3: 0.25}
    for repeat in (1, 2):
        make_record(
            *places, repeat=repeat, step_seconds=lambda s, r=repeat: seconds[r], epochs=4, **a
        )
    make_record(*places, repeat=3, status="timeout", reason="600 s", steps=9, epochs=4, **a)
    for repeat in (1, 2, 3):
        make_record(*places, repeat=repeat, status="oom", reason="bad, alloc", steps=0, **b)
    write_plan(tmp_path / "plan.tsv", [b, a])
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables")
    return tmp_path


def test_measurements_follow_the_plan_and_keep_everything(mixed):
    table = rows(mixed / "tables" / "measurements.csv")
    assert list(table[0]) == [*MEASUREMENTS] and list(table[0])[-1] == "reason"
    assert len(table) == 2 * 3 * len(METRICS)
    order = [(row["framework"], row["repeat"]) for row in table[:: len(METRICS)]]
    assert order == [(f, str(n)) for f in ("mxnet", "pytorch") for n in (1, 2, 3)]
    speeds = [row for row in table if row["metric"] == "throughput"]
    assert [row["value"] for row in speeds] == ["", "", "", "256.0", "128.0", ""]
    assert speeds[0]["reason"] == "oom: bad, alloc" and speeds[5]["reason"] == "timeout: 600 s"
    assert {row["flags"] for row in speeds[3:5]} == {""}
    for row in table:
        assert (row["value"] == "") == (row["reason"] != "")
        record = json.loads(
            (mixed / "records" / row["cell"] / f"rep{row['repeat']}.json").read_text()
        )
        value = record["metrics"][row["metric"]]["value"]
        assert row["value"] == ("" if value is None else repr(value))


def test_summary_counts_statuses_and_values(mixed):
    table = rows(mixed / "tables" / "summary.csv")
    assert list(table[0]) == [*SUMMARY] and len(table) == 2 * len(METRICS)
    by_metric = {(row["framework"], row["metric"]): row for row in table}
    speed = by_metric["pytorch", "throughput"]
    assert (speed["status"], speed["n"]) == ("ok 2, timeout 1", "2")
    assert (speed["median"], speed["min"], speed["max"]) == ("192.0", "128.0", "256.0")
    assert float(speed["sd"]) == statistics.stdev([256.0, 128.0])
    assert by_metric["pytorch", "first_step_time"]["n"] == "3"
    empty = by_metric["mxnet", "throughput"]
    assert (empty["status"], empty["n"]) == ("oom 3", "0")
    assert {empty[name] for name in ("median", "mean", "min", "max", "sd")} == {""}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_statistics_of_any_number_of_repeats(tmp_path, count):
    values = [64 / (0.1 + 0.037 * i * i) for i in range(count)]
    for i in range(count):
        make_record(
            tmp_path / "runs",
            tmp_path / "records",
            repeat=i + 1,
            step_seconds=lambda step, i=i: 0.1 + 0.037 * i * i,
        )
    write_plan(tmp_path / "plan.tsv", [{}], repeats=count)
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables")
    row = rows(tmp_path / "tables" / "summary.csv")[0]
    assert row["metric"] == "throughput" and row["n"] == str(count)
    assert float(row["median"]) == pytest.approx(statistics.median(values), rel=1e-12)
    assert float(row["mean"]) == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert row["sd"] == "" if count < 2 else float(row["sd"]) == pytest.approx(
        statistics.stdev(values), rel=1e-12
    )  # fmt: skip


def test_flags_are_counted_in_the_summary(tmp_path):
    for repeat in (1, 2):
        make_record(tmp_path / "runs", tmp_path / "records", repeat=repeat, epochs=repeat)
        # both under the name of the default cell: an epoch of 10 steps is too short to test
    write_plan(tmp_path / "plan.tsv", [{}], repeats=2)
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables")
    assert rows(tmp_path / "tables" / "measurements.csv")[0]["flags"] == (
        "few_samples, drift_untested"
    )
    assert rows(tmp_path / "tables" / "summary.csv")[0]["flags"] == (
        "drift_untested 1, few_samples 1"
    )


def test_records_that_were_not_planned_stay_out(mixed):
    stray = mixed / "records" / "stray" / "rep1.json"
    stray.parent.mkdir()
    stray.write_text("{}")
    extra = mixed / "records" / cell_name({**FACTORS, "framework": "pytorch"}) / "rep4.json"
    extra.write_text("{}")
    before = (mixed / "tables" / "summary.csv").read_bytes()
    gather(mixed / "plan.tsv", mixed / "records", mixed / "tables")
    assert (mixed / "tables" / "summary.csv").read_bytes() == before


@pytest.mark.parametrize("damage", ["missing", "not JSON", "other repeat", "foreign format"])
def test_a_record_that_cannot_be_used_is_named(mixed, damage):
    path = mixed / "records" / cell_name({**FACTORS, "framework": "pytorch"}) / "rep2.json"
    record = json.loads(path.read_text())
    if damage == "missing":
        path.unlink()
    elif damage == "not JSON":
        path.write_text("{")
    else:
        change = {"repeat": 1} if damage == "other repeat" else {"format": 2}
        path.write_text(json.dumps({**record, **change}))
    before = (mixed / "tables" / "measurements.csv").read_bytes()
    with pytest.raises(InputError, match="rep2.json"):
        gather(mixed / "plan.tsv", mixed / "records", mixed / "tables")
    assert (mixed / "tables" / "measurements.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda text: "", "columns are missing"),
        (lambda text: text.replace("batch_size", "batch"), "columns are missing: batch_size"),
        (lambda text: text.splitlines()[0] + "\n", "no cell"),
        (lambda text: text + text.splitlines()[1] + "\n", "again"),
        (lambda text: text.replace("\t3\n", "\t0\n"), "'repeats' is '0'"),
        (lambda text: text.replace("\t3\n", "\n"), "fields"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path, change, cause):
    path = tmp_path / "plan.tsv"
    write_plan(path, [{}])
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=cause):
        read_plan(path)


def test_gather_is_linear(tmp_path):
    """1500 records well under the pace of 30,000 in 20 s."""
    record = make_record(tmp_path / "runs", tmp_path / "one")
    cells = [{"batch_size": size} for size in range(1, 501)]
    for cell in cells:
        name = cell_name({**FACTORS, **cell})
        folder = tmp_path / "records" / name
        folder.mkdir(parents=True)
        for repeat in (1, 2, 3):
            text = json.dumps({**record, "cell": name, "repeat": repeat})
            (folder / f"rep{repeat}.json").write_text(text)
    write_plan(tmp_path / "plan.tsv", cells)
    begin = time.perf_counter()
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables")
    assert time.perf_counter() - begin < 1500 * 20 / 30_000 * 2  # the machine may be busy
    assert len(rows(tmp_path / "tables" / "measurements.csv")) == 1500 * len(METRICS)
