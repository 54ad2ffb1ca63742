"""Cells that differ by precision only, side by side: exact numbers."""

import csv
import json

import pytest

from fixtures.runs import make_record, write_plan
from fixtures.studies import built, text_of
from touchstone.analysis import findings_tables
from touchstone.analysis.findings import compute
from touchstone.results.certificates import read_certificates
from touchstone.results.gathering import gather
from touchstone.results.study import read_study
from touchstone.statistics.intervals import paired_difference
from unit.test_analyse_gather import certificate


def test_a_difference_within_blocks_by_hand():
    """Differences 0, 1 and 2: their mean is 1, half of its interval t(97.5 %, 2) / sqrt(3)."""
    found = paired_difference({1: 5.0, 2: 5.0, 3: 5.0, 4: 9.0}, {1: 5.0, 2: 4.0, 3: 3.0})
    half = 4.302652729911275 / 3**0.5
    assert found == (3, 1.0, pytest.approx(1 - half), pytest.approx(1 + half))
    assert paired_difference({1: 2.0}, {1: 1.5}) == (1, 0.5, None, None)
    assert paired_difference({1: 2.0}, {2: 1.5}) is None


def make_study(root):
    """fp32 and bf16, which takes half as long, is 2 points less accurate and takes 64 MiB more."""
    cells = [{"precision": "fp32"}, {"precision": "bf16"}, {"precision": "bf16", "batch_size": 32}]
    for cell in cells:
        for repeat in (1, 2, 3):
            mixed = cell["precision"] == "bf16"
            make_record(
                root / "runs", root / "records", repeat=repeat, correct=88 if mixed else 90,
                step_seconds=lambda step, t=0.125 if mixed else 0.25: t, **cell,
            )  # fmt: skip
    for path in (root / "records").glob("*bf16*/*.json"):
        record = json.loads(path.read_text())
        record["metrics"]["host_memory_peak"]["value"] = 768.0
        path.write_text(json.dumps(record))
    for path in (root / "records").glob("*fp32*/*.json"):
        record = json.loads(path.read_text())
        record["metrics"]["host_memory_peak"]["value"] = 512.0
        path.write_text(json.dumps(record))
    write_plan(root / "plan.tsv", cells)
    (root / "config.resolved.yaml").write_text("title: Precisions\n")
    return root


def test_a_precision_is_next_to_fp32(tmp_path):
    root = make_study(tmp_path)
    gather(root / "plan.tsv", root / "records", root / "tables", {})
    study = read_study(root / "plan.tsv", root / "tables", root / "records")
    findings = compute(study, {})
    (gain,) = findings.precision
    assert findings.cell[gain.reference].factors["precision"] == "fp32"
    assert gain.throughput.value == pytest.approx(2) and gain.throughput.n == 3
    assert gain.accuracy_change == pytest.approx(-0.02)
    assert (gain.memory_metric, gain.memory, gain.reference_memory, gain.memory_ratio) == (
        "host_memory_peak", 768.0, 512.0, 1.5,
    )  # fmt: skip
    findings_tables.write(findings, root / "tables", scaling=False, profile=False)
    with open(root / "tables/precision.csv") as file:
        (row,) = csv.DictReader(file)
    assert (row["precision"], row["reference_precision"]) == ("bf16", "fp32")
    assert float(row["throughput_ratio"]) == pytest.approx(2) and row["verdict"] == "faster"
    assert row["memory_ratio"] == "1.5" and row["n"] == "3"
    table = (root / "tables/precision.md").read_text().splitlines()
    assert len(table) == 3 and "| bf16 | 3 | 2 | 2 | 2 | faster | 0.88 |" in table[2]


def test_the_page_has_the_table_and_the_flag(tmp_path):
    root = make_study(tmp_path)
    page = text_of(built(root, images=False))
    assert "What precision changes" in page and "bf16 against fp32" in page
    assert "-2.00" in page and "host memory peak" in page


def test_a_certificate_does_not_cover_fewer_bits(tmp_path):
    root = make_study(tmp_path)
    certificates = read_certificates([certificate(tmp_path)])
    gather(root / "plan.tsv", root / "records", root / "tables", certificates)
    study = read_study(root / "plan.tsv", root / "tables", root / "records")
    flagged = {c.plan.factors["precision"] for c in study.cells if "parity_not_shown" in c.flags}
    assert flagged == {"bf16"}
