"""gather: the two tables against values computed by hand and by `statistics`."""

import csv
import json
import statistics
import time

import pytest

from fixtures.runs import FACTORS, cell_name, make_record, write_plan
from touchstone.analysis.findings import compute
from touchstone.results.certificates import proof, read_certificates
from touchstone.results.files import InputError
from touchstone.results.gathering import gather
from touchstone.results.metrics import METRICS
from touchstone.results.planned import read_plan
from touchstone.results.tables import COMPARISONS, MEASUREMENTS, SUMMARY


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
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {})
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
    assert {row["flags"] for row in speeds[3:5]} == {"parity_not_shown"}
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
    assert float(speed["cv"]) == float(speed["sd"]) / 192
    empty = by_metric["mxnet", "throughput"]
    assert (empty["status"], empty["n"]) == ("oom 3", "0")
    assert {empty[name] for name in ("median", "mean", "min", "max", "sd", "cv")} == {""}


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
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {})
    row = rows(tmp_path / "tables" / "summary.csv")[0]
    assert row["metric"] == "throughput" and row["n"] == str(count)
    assert float(row["median"]) == pytest.approx(statistics.median(values), rel=1e-12)
    assert float(row["mean"]) == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert row["sd"] == "" if count < 2 else float(row["sd"]) == pytest.approx(
        statistics.stdev(values), rel=1e-12
    )  # fmt: skip


def test_times_to_an_accuracy_that_were_not_reached(tmp_path):
    """Of three runs one, and in the other cell two, ended before the target accuracy."""
    cells = [{"framework": name} for name in ("mxnet", "pytorch")]
    for cell, known in zip(cells, ([9.0, None, 4.0], [5.0, None, None]), strict=True):
        for repeat, seconds in enumerate(known, 1):
            make_record(tmp_path / "runs", tmp_path / "records", repeat=repeat, **cell)
            metric = {"value": seconds, "unit": "s"}
            if seconds is None:
                metric |= {"reason": "not reached within 2 epochs", "censored_at": 6.5}
            path = tmp_path / "records" / cell_name({**FACTORS, **cell}) / f"rep{repeat}.json"
            record = json.loads(path.read_text())
            record["metrics"]["time_to_accuracy"] = metric
            path.write_text(json.dumps(record))
    write_plan(tmp_path / "plan.tsv", cells)
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {})

    def of(table):
        found = rows(tmp_path / "tables" / table)
        return [row for row in found if row["metric"] == "time_to_accuracy"]

    told = [(row["value"], row["censored_at"]) for row in of("measurements.csv")]
    assert told == [("9.0", ""), ("", "6.5"), ("4.0", ""), ("5.0", ""), ("", "6.5"), ("", "6.5")]
    names = ("n", "censored", "median", "min", "mean", "max", "sd")
    assert [[row[name] for name in names] for row in of("summary.csv")] == [
        ["2", "1", "9.0", "4.0", "", "", ""],  # the middle one of 4, 9 and what is larger
        ["1", "2", "", "5.0", "", "", ""],
    ]
    assert of("comparisons.csv") == []


def test_flags_are_counted_in_the_summary(tmp_path):
    for repeat in (1, 2):
        make_record(tmp_path / "runs", tmp_path / "records", repeat=repeat, epochs=repeat)
        # both under the name of the default cell: an epoch of 10 steps is too short to test
    write_plan(tmp_path / "plan.tsv", [{}], repeats=2)
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", {})
    assert rows(tmp_path / "tables" / "measurements.csv")[0]["flags"] == (
        "drift_untested, parity_not_shown"
    )
    assert rows(tmp_path / "tables" / "summary.csv")[0]["flags"] == (
        "drift_untested 1, parity_not_shown 2"
    )


def test_records_that_were_not_planned_stay_out(mixed):
    stray = mixed / "records" / "stray" / "rep1.json"
    stray.parent.mkdir()
    stray.write_text("{}")
    extra = mixed / "records" / cell_name({**FACTORS, "framework": "pytorch"}) / "rep4.json"
    extra.write_text("{}")
    before = (mixed / "tables" / "summary.csv").read_bytes()
    gather(mixed / "plan.tsv", mixed / "records", mixed / "tables", {})
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
        gather(mixed / "plan.tsv", mixed / "records", mixed / "tables", {})
    assert (mixed / "tables" / "measurements.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda text: "", "it is empty"),
        (lambda text: text.replace("batch_size", "batch"), "columns are missing: batch_size"),
        (lambda text: text.splitlines()[0] + "\n", "no cell"),
        (lambda text: text + text.splitlines()[1] + "\n", "again"),
        (lambda text: text.replace("\t3\n", "\t0\n"), "line 2: repeats: '0'"),
        (lambda text: text.replace("\t64\t", "\t6x4\t"), "line 2: batch_size: .*'6x4'"),
        (lambda text: text.replace("\t3\n", "\n"), "fields"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path, change, cause):
    path = tmp_path / "plan.tsv"
    write_plan(path, [{}])
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=cause):
        read_plan(path)


def speeds(root, table, **factors):
    """Records and plan of cells with the given step seconds by framework and repeat."""
    cells = []
    for framework, seconds in table.items():
        cell = {"framework": framework, **factors.get(framework, {})}
        cells.append(cell)
        for repeat, second in enumerate(seconds, start=1):
            make_record(
                root / "runs",
                root / "records",
                repeat=repeat,
                step_seconds=lambda step, s=second: s,
                **cell,
            )
    write_plan(root / "plan.tsv", cells, repeats=max(map(len, table.values())))
    return root


def compared(root):
    gather(root / "plan.tsv", root / "records", root / "tables", {})
    table = rows(root / "tables" / "comparisons.csv")
    assert all(tuple(row) == COMPARISONS for row in table)
    return [row for row in table if row["metric"] == "throughput"]


def test_comparisons_by_hand(tmp_path):
    """Twice, four and eight times as fast as the cell planned first."""
    seconds = {"pytorch": [1.0, 1.0, 1.0], "mxnet": [0.5, 0.25, 0.125]}
    (row,) = compared(speeds(tmp_path, seconds))
    assert (row["framework"], row["reference_framework"]) == ("mxnet", "pytorch")
    assert float(row["ratio"]) == pytest.approx(4.0)
    half = 4.302652729911275 / 3**0.5
    ends = [float(row[name]) for name in ("low", "high")]
    assert ends == pytest.approx([4 / 2**half, 4 * 2**half])
    assert (row["n"], row["verdict"], row["indicative"]) == ("3", "cannot tell", "yes")
    assert row["flags"] == "parity_not_shown 3"
    assert row["reference_flags"] == "parity_not_shown 3"
    assert row["remarks"] == ""


def test_one_repeat_is_a_ratio_without_an_interval(tmp_path):
    (row,) = compared(speeds(tmp_path, {"pytorch": [1.0], "mxnet": [0.5]}))
    assert float(row["ratio"]) == pytest.approx(2.0) and row["verdict"] == "too few runs"
    names = ("low", "high", "detectable", "detectable_low", "detectable_high")
    assert {row[name] for name in names} == {""}


def test_only_cells_that_differ_in_framework_or_mode_are_compared(tmp_path):
    seconds = {"pytorch": [1.0] * 2, "mxnet": [1.0] * 2, "tensorflow": [1.0] * 2}
    factors = {"mxnet": {"mode": "static"}, "tensorflow": {"precision": "bf16"}}
    (row,) = compared(speeds(tmp_path, seconds, **factors))
    assert (row["mode"], row["reference_mode"]) == ("static", "channels_last")


def test_other_machines_and_eras_are_remarked(tmp_path):
    speeds(tmp_path, {"pytorch": [1.0] * 2, "mxnet": [0.5] * 2})
    for path in (tmp_path / "records").glob("*/*.json"):
        record = json.loads(path.read_text())
        old = record["factors"]["framework"] == "mxnet"
        record["provenance"]["software"]["cuda"] = "11.2" if old else "12.8"
        record["provenance"]["machine"]["hostname"] = f"node{old}"
        path.write_text(json.dumps(record))
    (row,) = compared(tmp_path)
    assert row["remarks"] == "different_machine, different_era"


CERTIFICATE = {
    "format": 1,
    "network": "lenet5",
    "reference": "pytorch",
    "tolerances": {"fp64": {"forward": 1e-10, "update": 1e-6}},
    "frameworks": {
        "tensorflow": {
            "equal": True,
            "beyond": [],
            "deviations": {"fp64": {"forward": 1e-15, "update": 5e-7, "other": 1.0}},
        },
        "mxnet": {
            "equal": False,
            "beyond": ["fp64 update"],
            "deviations": {"fp64": {"forward": 1e-15, "update": 5e-2}},
        },
        "caffe": {"equal": False, "beyond": [], "deviations": {}, "unsupported": "no layer x"},
    },
    "equal": False,
}


def certificate(root, **changes):
    path = root / "lenet5.json"
    path.write_text(json.dumps({**CERTIFICATE, **changes}))
    return path


def test_a_certificate_says_for_each_framework(tmp_path):
    certificates = read_certificates([certificate(tmp_path)])
    found = {f: proof(certificates, "lenet5", f) for f in (*CERTIFICATE["frameworks"], "pytorch")}
    assert {f: one.verdict for f, one in found.items()} == {
        "tensorflow": "equal", "mxnet": "differs", "caffe": "not shown", "pytorch": "reference"
    }  # fmt: skip
    assert [f for f, one in found.items() if one.shown] == ["tensorflow", "pytorch"]
    closest = found["tensorflow"].closest
    assert (closest.kind, closest.value, closest.tolerance) == ("update", 5e-7, 1e-6)
    assert found["mxnet"].why == "beyond the tolerance: fp64 update"
    assert found["caffe"].why == "unsupported: no layer x"
    assert "does not have" in proof(certificates, "lenet5", "jax").why
    assert proof(certificates, "vgg16", "mxnet").verdict == "not shown"


def test_only_runs_without_proof_carry_the_flag(tmp_path):
    speeds(tmp_path, {"pytorch": [1.0], "tensorflow": [1.0], "mxnet": [1.0]})
    certificates = read_certificates([certificate(tmp_path)])
    gather(tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables", certificates)
    table = rows(tmp_path / "tables" / "measurements.csv")
    flagged = {row["framework"] for row in table if "parity_not_shown" in row["flags"]}
    assert flagged == {"mxnet"}
    table = rows(tmp_path / "tables" / "summary.csv")
    assert {row["framework"] for row in table if "parity_not_shown 1" in row["flags"]} == flagged


def test_the_older_of_two_frameworks_more_than_five_years_apart_are_of_another_era(tmp_path):
    speeds(tmp_path, {"pytorch": [1.0], "mxnet": [1.0], "tensorflow": [1.0]})
    released = {
        "pytorch": "2026-07",
        "mxnet": "2021-06",
        "tensorflow": "2021-07",
        "caffe": "2036-01",
    }
    places = tmp_path / "plan.tsv", tmp_path / "records", tmp_path / "tables"
    gather(*places, {}, released=released)
    table = rows(tmp_path / "tables" / "measurements.csv")
    assert {row["framework"] for row in table if "different_era" in row["flags"]} == {"mxnet"}
    flags = "flags", "reference_flags"
    for row in rows(tmp_path / "tables" / "comparisons.csv"):
        names = [row["framework"], row["reference_framework"]]
        assert ["different_era" in row[key] for key in flags] == [n == "mxnet" for n in names]
    gather(*places, {}, released={**released, "mxnet": None})
    assert "different_era" not in (tmp_path / "tables" / "measurements.csv").read_text()


@pytest.mark.parametrize(
    "changes", [{"format": 2}, {"network": None}, {"frameworks": {"mxnet": {}}}, {"reference": 1}]
)
def test_a_certificate_of_another_kind_is_refused(tmp_path, changes):
    with pytest.raises(InputError, match="lenet5.json"):
        read_certificates([certificate(tmp_path, **changes)])


def test_two_certificates_of_a_network_are_refused(tmp_path):
    with pytest.raises(InputError, match="a second certificate of lenet5"):
        read_certificates([certificate(tmp_path)] * 2)


@pytest.mark.slow
def test_gather_is_linear(tmp_path):
    """Four times the records take about four times as long, not sixteen times."""
    record = make_record(tmp_path / "runs", tmp_path / "one")

    def prepare(count):
        """Three records of so many cells, with their plan."""
        root = tmp_path / str(count)
        cells = [{"batch_size": size} for size in range(1, count + 1)]
        for cell in cells:
            name = cell_name({**FACTORS, **cell})
            folder = root / "records" / name
            folder.mkdir(parents=True)
            for repeat in (1, 2, 3):
                text = json.dumps({**record, "cell": name, "repeat": repeat})
                (folder / f"rep{repeat}.json").write_text(text)
        write_plan(root / "plan.tsv", cells)

    def seconds(count):
        """CPU time of one execution; what else the machine does is no part."""
        root = tmp_path / str(count)
        begin = time.process_time()
        compute(gather(root / "plan.tsv", root / "records", root / "tables", {}), {})
        took = time.process_time() - begin
        assert len(rows(root / "tables" / "measurements.csv")) == 3 * count * len(METRICS)
        return took

    prepare(400)
    prepare(100)
    # What slows one of the two down by chance does not do so five times.
    ratios = (seconds(400) / seconds(100) for _ in range(5))
    assert any(ratio < 8 for ratio in ratios)
