"""Exports of a study: `pyperf` and a reader of Parquet read them, and find the tables' numbers."""

import csv
import json
import subprocess
import sys

import fastparquet
import pyperf
import pytest

from fixtures.commands import call
from fixtures.runs import make_study
from fixtures.studies import gathered, speeds, study_of
from touchstone.paths import ROOT
from touchstone.results.tables import MEASUREMENTS, SUMMARY


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A gathered study of which some runs failed."""
    root = make_study(tmp_path_factory.mktemp("results"), failures=True)
    gathered(root)
    return root


def exported(kind, root, output):
    """Where the command has written a study."""
    done = call("export", kind, root, "--output", output)
    assert (done.returncode, done.stderr) == (0, "")
    return output


def test_pyperf_reads_the_seconds_of_an_example(results, tmp_path):
    suite = pyperf.BenchmarkSuite.load(str(exported("pyperf", results, tmp_path / "a.json")))
    cells = {cell.plan.name: cell.values("throughput") for cell in study_of(results).cells}
    found = {one.get_name(): one.get_values() for one in suite}
    assert {*found} == {name for name, rates in cells.items() if rates} != {*cells}
    for name, seconds in found.items():
        assert seconds == pytest.approx([1 / rate for rate in cells[name]])
    run = suite.get_benchmarks()[0].get_runs()[0]
    assert {"date", "cpu_count", "framework_version"} <= {*run.get_metadata()}


def test_pyperf_compares_two_studies(tmp_path):
    files = []
    for name, rate in (("old", 1000), ("new", 2000)):
        speeds(tmp_path / name, {"pytorch": [rate, 1.01 * rate, 1.02 * rate]})
        files.append(exported("pyperf", tmp_path / name, tmp_path / f"{name}.json"))
    done = subprocess.run(
        [sys.executable, "-m", "pyperf", "compare_to", *map(str, files)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "990 us +- 10 us -> [new] 495 us +- 5 us: 2.00x faster" in done.stdout, done.stdout


def test_parquet_has_the_rows_of_the_tables_with_types(results, tmp_path):
    folder = exported("parquet", results, tmp_path / "tables")
    for name, columns in (("measurements", MEASUREMENTS), ("summary", SUMMARY)):
        table = fastparquet.ParquetFile(str(folder / f"{name}.parquet")).to_pandas()
        with open(results / f"tables/{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert tuple(table.columns) == columns and len(table) == len(rows) > 0
        assert table["batch_size"].tolist() == [int(row["batch_size"]) for row in rows]
        number = "value" if name == "measurements" else "median"
        pairs = zip(table[number], rows, strict=True)
        assert all(
            value == float(row[number]) if row[number] else value != value for value, row in pairs
        )
        assert table["cell"].tolist() == [row["cell"] for row in rows]


def test_every_column_is_described():
    text = (ROOT / "docs/contracts.md").read_text()
    assert not [name for name in {*MEASUREMENTS, *SUMMARY} if f"| `{name}` |" not in text]


def test_what_is_missing_is_named(tmp_path, results, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    done = call("export", "parquet", results, "--output", tmp_path / "a")
    assert done.returncode == 1 and "pip install fastparquet" in done.stderr
    done = call("export", "pyperf", tmp_path, "--output", tmp_path / "a.json")
    assert done.returncode == 1 and "plan.tsv" in done.stderr


def test_a_study_without_numbers_is_an_empty_suite(failed, tmp_path):
    path = exported("pyperf", failed, tmp_path / "a.json")
    assert json.loads(path.read_text()) == {"version": "1.0", "benchmarks": []}
