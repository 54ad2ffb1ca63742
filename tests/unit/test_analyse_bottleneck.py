"""What holds a cell back, and what it reaches of the peak: numbers that a person can compute."""

from types import SimpleNamespace

import pytest

from touchstone.analysis.answer_tables import write
from touchstone.analysis.bottleneck import CANNOT_TELL, COLUMNS, rows, summary, verdicts
from touchstone.analysis.precision import gains
from touchstone.report.sections.numbers import bottleneck_sentences
from touchstone.results.metrics import METRICS
from touchstone.results.study import Cell, Result, Series, Study
from touchstone.results.tables import PlannedCell

FACTORS = {
    "framework": "pytorch", "network": "lenet5", "dataset": "mnist", "device": "cpu",
    "precision": "fp32", "mode": "eager", "input": "memory", "batch_size": "64",
    "learning_rate": "0.1", "reader_threads": "1", "threads": "", "epochs": "5",
}  # fmt: skip
LINK = {"name": "a GPU", "pcie_mb_per_s": 16000}


def cell(throughput=None, repeats=3, gpus=(), metrics=None, **factors):
    """A cell whose runs all have the same numbers."""
    told = {**FACTORS, **{name: str(value) for name, value in factors.items()}}
    known = {"throughput": throughput, **(metrics or {})}
    values = {name: known.get(name) for name in METRICS}
    status = "oom" if throughput is None and not metrics else "ok"
    reasons = {name: "no sensor" for name, value in values.items() if value is None}
    provenance = {"machine": {"gpus": list(gpus)}}
    runs = [
        Result(r + 1, status, None, [], values, reasons, [], {}, provenance, [])
        for r in range(repeats)
    ]
    facet = told["network"], told["dataset"], told["device"]
    plan = PlannedCell("-".join(told.values()), told, repeats)
    return Cell(plan, facet, int(told["batch_size"]), Series(told["framework"]), runs)


def gemm(rate, **factors):
    return cell(
        metrics={"flop_rate": rate}, network="gemm", dataset="9x9x9", input="synthetic",
        batch_size=1, epochs="", **factors,
    )  # fmt: skip


def judged(*cells):
    """The verdict on the first cell."""
    return verdicts(Study(list(cells)))[0]


def test_a_quarter_of_the_time_spent_reading_is_input_bound():
    found = judged(
        cell(192, input="records", reader_threads=2), cell(256), cell(250, input="synthetic")
    )
    assert found.bound == "input-bound" and found.why == "reading costs 25 % of the time"
    assert found.evidence.resident.plan.factors["input"] == "memory"
    assert found.evidence.input_share == pytest.approx(25)
    assert found.evidence.bottleneck == pytest.approx(25)


def test_synthetic_examples_stand_in_for_those_in_memory():
    found = judged(cell(192, input="records"), cell(256, input="synthetic"))
    assert found.bound == "input-bound"


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ([], "the same cell with input: memory"),
        ([cell(256, mode="compile")], "the same cell with input: memory"),
        ([cell(256)], "the same cell with another batch size"),
    ],
)
def test_what_is_missing_for_a_verdict_is_named(others, missing):
    found = judged(cell(250, input="records"), *others)
    assert found.bound == CANNOT_TELL and missing in found.why


def test_reading_is_not_judged_without_a_measure_of_noise():
    found = judged(cell(192, 1, input="records"), cell(256, 1))
    assert found.bound == CANNOT_TELL and "a second repeat" in found.why


def test_what_a_step_costs_whatever_its_size_is_launching():
    """Steps of 0.25 s and 0.3 s for 64 and 128: 0.2 s + 0.05 s for every 64."""
    small, large = cell(256), cell(128 / 0.3, batch_size=128, learning_rate=0.2)
    found = verdicts(Study([small, large]))
    assert [v.bound for v in found] == ["launch-bound"] * 2
    shares = [v.evidence.launch_share for v in found]
    assert shares == pytest.approx([80, 200 / 3])
    assert found[0].why == "80 % of a step's time is the same for every batch size"


def test_a_step_that_grows_with_its_size_computes():
    """0.25 s and 0.45 s: 0.05 s + 0.2 s for every 64."""
    found = judged(cell(256), cell(128 / 0.45, batch_size=128))
    assert (found.bound, found.evidence.launch_share) == ("compute-bound", pytest.approx(20))
    assert found.evidence.bottleneck is None


def test_a_cell_that_reads_at_no_cost_is_bound_like_the_one_that_does_not_read():
    found = judged(cell(250, input="records"), cell(256), cell(128 / 0.45, batch_size=128))
    assert (found.bound, found.evidence.launch_share) == ("compute-bound", pytest.approx(20))


def test_a_larger_batch_that_is_slower_per_example_has_nothing_fixed():
    found = judged(cell(256), cell(200, batch_size=128))
    assert found.evidence.launch_share == 0


def test_the_share_of_peak_is_of_the_best_product_in_the_same_precision():
    cells = [
        cell(256, metrics={"flop_rate": 60.0}),
        cell(256, metrics={"flop_rate": 60.0}, precision="bf16"),
        gemm(100.0), gemm(80.0, framework="mxnet"), gemm(400.0, threads=1),
    ]  # fmt: skip
    found = verdicts(Study(cells))
    assert [v.evidence.peak_share for v in found] == [pytest.approx(60), None]
    assert found[0].bound == "compute-bound"
    assert found[0].why == "it reaches 60 % of the measured peak"
    assert found[1].evidence.share_missing == "the study has no gemm on the cpu, bf16"


@pytest.mark.parametrize(("device", "share"), [("gpu", 30), ("cpu", 60)])
def test_two_gpus_have_two_peaks_and_two_replicas_on_a_cpu_one(device, share):
    two = cell(256, metrics={"flop_rate": 60.0}, device=device, replicas=2)
    found = judged(two, gemm(100.0, device=device))
    assert found.evidence.peak_share == pytest.approx(share)


@pytest.mark.parametrize(
    ("utilization", "bound"), [(60.0, "launch-bound"), (95.0, "compute-bound")]
)
def test_a_gpu_that_waits_is_launch_bound(utilization, bound):
    found = judged(cell(256, metrics={"gpu_utilization": utilization}, device="gpu"))
    assert found.bound == bound
    assert found.why == f"the GPU runs no kernel in {100 - utilization:.0f} % of the time"
    assert found.evidence.bottleneck == 100 - utilization


@pytest.mark.parametrize(
    ("received", "bound"), [(12000.0, "copy-bound"), (4000.0, "input-bound"), (None, "input-bound")]
)
def test_reading_over_a_full_link_is_copying(received, bound):
    metrics = {"gpu_utilization": 50.0, "gpu_pcie_rx": received}
    reading = cell(128, gpus=[LINK], metrics=metrics, device="gpu", input="records")
    found = judged(reading, cell(256, device="gpu"))
    assert found.bound == bound
    assert found.evidence.copy_share == (received and received / 160)
    assert found.evidence.bottleneck == 50


def test_a_gpu_without_its_utilisation_is_not_judged():
    found = judged(cell(256, device="gpu"))
    assert (found.bound, found.why) == (CANNOT_TELL, "missing: gpu_utilization (no sensor)")


def test_a_cell_without_a_number_says_what_happened():
    found = judged(cell())
    assert (found.bound, found.why) == (CANNOT_TELL, "no throughput: oom")


def test_the_tables_have_every_cell_and_the_sentences_every_verdict(tmp_path):
    study = Study([cell(192, input="records"), cell(256), gemm(100.0)])
    found = verdicts(study)
    assert all(len(row) == len(COLUMNS) for row in rows(found))
    write(gains(study), found, [], tmp_path)
    header, first, second = (tmp_path / "bottleneck.csv").read_text().splitlines()
    assert header == ",".join(COLUMNS) and "input-bound" in first and CANNOT_TELL in second
    table = (tmp_path / "bottleneck.md").read_text().splitlines()
    assert len(table) == 4 and "| input-bound | reading costs 25 % of the time | 25 |" in table[2]
    assert (tmp_path / "precision.md").read_text().startswith("No cells of this study differ")
    cells = {
        one.cell.plan.name: SimpleNamespace(
            facet=one.cell.facet, label=one.cell.series.label, batch_size=one.cell.batch_size
        )
        for one in found
    }
    findings = SimpleNamespace(bottlenecks=[summary(one) for one in found], cell=cells)
    assert bottleneck_sentences(findings) == [
        "On lenet5 with mnist (cpu), input-bound: pytorch at batch size 64 (reading costs 25 % of"
        " the time)."
    ]
