"""What holds a cell back, and what it reaches of the peak: numbers that a person can compute."""

import csv
import math
import random

import pytest

from touchstone.analysis.bottleneck import CANNOT_TELL, bottlenecks
from touchstone.analysis.cells import summaries
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.findings_tables import BOTTLENECK, PRECISION, as_csv, as_markdown
from touchstone.report.sections.numbers import bottleneck_sentences
from touchstone.results.metrics import METRICS
from touchstone.results.planned import PlannedCell
from touchstone.results.study import Cell, Result, Series, Study

FACTORS = {
    "framework": "pytorch", "network": "lenet5", "dataset": "mnist", "device": "cpu",
    "precision": "fp32", "mode": "eager", "input": "memory", "batch_size": "64",
    "learning_rate": "0.1", "environment": "pinned", "style": "tuned", "reader_threads": "1",
    "threads": "", "epochs": "5",
}  # fmt: skip
LINK = {"name": "a GPU", "pcie_mb_per_s": 16000}


def cell(throughput=None, repeats=3, gpus=(), metrics=None, cores=None, **factors):
    """A cell; a metric has one number for all of its runs, or one for each."""
    told = {**FACTORS, **{name: str(value) for name, value in factors.items()}}
    known = {"throughput": throughput, **(metrics or {})}
    status = "oom" if throughput is None and not metrics else "ok"
    provenance = {"machine": {"gpus": list(gpus)}, "environment": {"threads": cores}}
    runs = []
    for place in range(repeats):
        values = {
            name: value[place] if isinstance(value, list) else value
            for name, value in ((name, known.get(name)) for name in METRICS)
        }
        reasons = {name: "no sensor" for name, value in values.items() if value is None}
        repeat = place + 1
        found = (values, reasons, [], {}, provenance, [])
        runs.append(Result(repeat, repeat, "", status, None, [], *found))
    plan = PlannedCell.of_row("-".join(told.values()), told, repeats)
    return Cell(plan, Series(told["framework"]), runs)


def gemm(rate, **factors):
    return cell(
        metrics={"flop_rate": rate}, network="gemm", dataset="9x9x9", input="synthetic",
        batch_size=1, epochs="", **factors,
    )  # fmt: skip


def judged(*cells):
    """The verdict on the first cell."""
    return bottlenecks(Study(list(cells)))[0]


def sign(found, kind):
    """The evidence of one kind."""
    (one,) = [sign for sign in found.evidence if sign.kind == kind]
    return one


def estimate(found, kind):
    """The number of one kind of evidence, with its interval."""
    one = sign(found, kind)
    return one.low, one.value, one.high


BUSY = {"cpu_cores": 1.9}
READS = {"cpu_time_per_1000_images": 8.0}
WAITS = {"cpu_time_per_1000_images": 5.0}


def test_reading_that_costs_a_quarter_of_the_time_and_more_cpu_time_is_input_bound():
    """The CPU time of the examples is the second kind of evidence."""
    found = judged(
        cell(192, input="records", reader_threads=2, metrics=READS),
        cell(256, metrics=WAITS),
        cell(250, input="synthetic"),
    )
    assert found.verdict == "input-bound"
    assert found.why == (
        "reading costs 25 % [25, 25] of the time; an example takes 60 % [60, 60] more CPU time than"
        " without reading (n = 3, indicative)"
    )
    assert "-memory-" in found.resident_cell
    assert found.bottleneck == pytest.approx(25)


def test_cores_that_wait_for_the_disk_are_evidence_for_reading():
    reading = cell(192, input="records", metrics={**WAITS, "cpu_cores": 1.2})
    found = judged(reading, cell(256, metrics={**WAITS, "cpu_cores": 1.6}))
    assert found.verdict == "input-bound"
    assert "the cores are in use for 25 % [25, 25] less of the time" in found.why


def test_reading_without_a_second_kind_of_evidence_is_no_verdict():
    found = judged(cell(192, input="records"), cell(256, input="synthetic"))
    assert found.verdict == CANNOT_TELL
    assert found.why.startswith("only one kind of evidence: reading costs 25 %")


def test_a_cost_of_reading_whose_interval_contains_the_limit_is_no_verdict():
    reading = cell([150, 250, 230], input="records", metrics=READS)
    found = judged(reading, cell(256, metrics=WAITS))
    low, value, high = estimate(found, "reading")
    assert low < 10 < value < high
    assert found.verdict == CANNOT_TELL and found.why.endswith(
        "and the interval contains 10 % (n = 3, indicative)"
    )


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ([], "the same cell with input: memory"),
        ([cell(256, mode="compile")], "the same cell with input: memory"),
        ([cell(256)], "a batch size 4 times as large or small"),
        ([cell(256), cell(300, batch_size=128)], "a batch size 4 times as large or small"),
    ],
)
def test_what_is_missing_for_a_verdict_is_named(others, missing):
    found = judged(cell(250, input="records"), *others)
    assert found.verdict == CANNOT_TELL and missing in found.why


@pytest.mark.parametrize("reads", ["records", "memory"])
def test_nothing_is_judged_without_a_measure_of_noise(reads):
    found = judged(cell(192, 1, input=reads), cell(256, 1, batch_size=256))
    assert found.verdict == CANNOT_TELL and "a second repeat" in found.why


def test_a_step_that_costs_the_same_whatever_its_size_while_cores_wait_launches():
    """Steps of 0.25 s and 0.38 s for 64 and 256: 0.207 s + 0.043 s for every 64."""
    idle = {"metrics": {"cpu_cores": 1.0}, "cores": 2}
    small = cell(256, **idle)
    large = cell(256 / 0.38, batch_size=256, learning_rate=0.2, **idle)
    found = bottlenecks(Study([small, large]))
    assert [one.verdict for one in found] == ["launch-bound"] * 2
    assert [sign(v, "batch size").value for v in found] == pytest.approx(
        [100 * 0.62 * 4 / 3, 100 * (1 / 0.38 - 1) / 3]
    )
    assert found[0].why == (
        "83 % [83, 83] of a step's time is the same for every batch size (a step of 256 takes 1.5"
        " times as long as one of 64); its 2 cores are busy for 50 % [50, 50] of the time"
        " (n = 3, indicative)"
    )


def test_a_step_that_grows_with_its_size_on_busy_cores_computes():
    """0.25 s and 0.85 s: 0.05 s + 0.2 s for every 64."""
    options = {"metrics": BUSY, "cores": 2}
    found = judged(cell(256, **options), cell(256 / 0.85, batch_size=256, **options))
    assert found.verdict == "compute-bound"
    assert sign(found, "batch size").value == pytest.approx(20)
    assert found.bottleneck is None


def test_a_share_whose_interval_contains_the_limit_is_no_evidence():
    """A share of 20 % in the middle, from runs that differ by a third."""
    options = {"metrics": BUSY, "cores": 2}
    small = cell([200, 256, 320], **options)
    found = judged(small, cell([330, 300, 250], batch_size=256, **options))
    low, value, high = estimate(found, "batch size")
    assert low < 50 < high and value < 50
    assert found.verdict == CANNOT_TELL
    assert "only one kind of evidence that it is compute-bound: its 2 cores" in found.why
    assert "the interval contains the limit" in found.why


def test_the_interval_of_a_share_is_that_of_the_ratio_of_speeds():
    """By hand: the speeds' ratios 0.9, 0.8, 0.72 have the mean log -0.2190 and the deviation
    0.1116 / sqrt 3, Student's quantile with 2 degrees of freedom is 4.303."""
    found = judged(cell([90, 80, 72]), cell(100, batch_size=256))
    low, value, high = estimate(found, "batch size")
    middle, half = -0.2190027, 4.302653 * 0.1116294 / math.sqrt(3)
    ends = [100 * (1 - math.exp(log)) * 4 / 3 for log in (middle + half, middle, middle - half)]
    assert (low, value, high) == pytest.approx(ends, rel=1e-3)


def test_evidence_that_disagrees_is_no_verdict():
    """Time that grows with the batch on threads that sleep between operations."""
    metrics = {**BUSY, "context_switch_rate": 23000.0}
    options = {"metrics": metrics, "cores": 2}
    found = judged(cell(256, **options), cell(256 / 0.85, batch_size=256, **options))
    assert found.verdict == CANNOT_TELL
    assert found.why.startswith("the evidence disagrees: its threads switch 11,500 [11,500, 11,500")
    assert "20 % [20, 20] of a step's time" in found.why


def test_a_cell_that_reads_at_no_cost_is_bound_like_the_one_that_does_not_read():
    options = {"metrics": BUSY, "cores": 2}
    found = judged(
        cell(250, input="records", **options),
        cell(256, **options),
        cell(256 / 0.85, batch_size=256, **options),
    )
    assert found.verdict == "compute-bound"


def test_a_larger_batch_that_is_slower_per_example_has_a_negative_fixed_share():
    """Nothing is cut off at 0: (1 - 256 / 200) 256 / 192."""
    found = judged(cell(256), cell(200, batch_size=256))
    assert sign(found, "batch size").value == pytest.approx(-0.28 * 400 / 3)


def test_the_share_of_peak_is_of_the_best_product_in_the_same_precision():
    cells = [
        cell(256, metrics={"flop_rate": 60.0, **BUSY}, cores=2),
        cell(256, metrics={"flop_rate": 60.0}, precision="bf16"),
        gemm(100.0), gemm(80.0, framework="mxnet"), gemm(400.0, threads=1),
    ]  # fmt: skip
    found = bottlenecks(Study(cells))
    assert [one.share_of_peak for one in found] == [pytest.approx(60), None]
    assert found[0].verdict == "compute-bound"
    assert "it reaches 60 % [60, 60] of the measured peak" in found[0].why
    assert found[1].share_of_peak_missing == "the study has no gemm on the CPU, bf16"


@pytest.mark.parametrize(("device", "share"), [("gpu", 30), ("cpu", 60)])
def test_two_gpus_have_two_peaks_and_two_replicas_on_a_cpu_one(device, share):
    two = cell(256, metrics={"flop_rate": 60.0}, device=device, replicas=2)
    found = judged(two, gemm(100.0, device=device))
    assert found.share_of_peak == pytest.approx(share)
    assert sign(found, "measured peak").value == pytest.approx(share)


def test_a_single_core_is_busy_whatever_limits_the_cell():
    found = judged(cell(256, metrics={"cpu_cores": 1.0}, cores=1))
    assert not found.evidence and "a run on two cores or more" in found.why


@pytest.mark.parametrize(
    ("utilization", "large", "bound"),
    [
        (60.0, 256 / 0.4, "launch-bound"),
        (95.0, 256 / 0.85, "compute-bound"),
        (60.0, 256 / 0.85, CANNOT_TELL),
        ([70.0, 80.0, 90.0], 256 / 0.4, CANNOT_TELL),
    ],
)
def test_a_gpu_that_waits_and_a_fixed_time_of_a_step_are_launching(utilization, large, bound):
    metrics = {"gpu_utilization": utilization}
    small = cell(256, metrics=metrics, device="gpu")
    found = judged(small, cell(large, batch_size=256, metrics=metrics, device="gpu"))
    assert found.verdict == bound


def test_idle_time_of_the_gpu_is_the_bottleneck_in_per_cent():
    found = judged(cell(256, metrics={"gpu_utilization": 60.0}, device="gpu"))
    assert found.bottleneck == 40
    assert sign(found, "idle GPU").text == "the GPU runs no kernel in 40 % [40, 40] of the time"
    assert found.verdict == CANNOT_TELL and "only one kind of evidence" in found.why


@pytest.mark.parametrize(
    ("received", "bound"), [(12000.0, "copy-bound"), (4000.0, "input-bound"), (None, "input-bound")]
)
def test_reading_over_a_full_link_is_copying(received, bound):
    metrics = {"gpu_utilization": 50.0, "gpu_pcie_rx": received}
    reading = cell(128, gpus=[LINK], metrics=metrics, device="gpu", input="records")
    found = judged(reading, cell(256, device="gpu"))
    assert found.verdict == bound
    assert found.copy_share == (received and received / 160)
    assert found.bottleneck == 50


def test_a_gpu_without_its_utilisation_says_so():
    found = judged(cell(256, device="gpu"))
    assert found.verdict == CANNOT_TELL and "missing: " in found.why
    assert "gpu_utilization (no sensor)" in found.why


def test_a_cell_without_a_number_says_what_happened():
    found = judged(cell())
    assert (found.verdict, found.why) == (CANNOT_TELL, "no throughput: oom")


def test_noise_rarely_passes_for_evidence():
    """40 % of a step is fixed, and runs scatter by 13 %."""
    rng = random.Random(3)
    decided = 0
    for _ in range(200):
        noise = [[math.exp(rng.gauss(0, 0.13)) for _ in range(3)] for _ in range(2)]
        small = cell([256 * x for x in noise[0]], metrics={"context_switch_rate": 1.0}, cores=2)
        large = cell([256 / 0.7 * x for x in noise[1]], batch_size=256)
        found = judged(small, large)
        decided += "launch-bound" in sign(found, "batch size").points_to
    assert decided <= 10  # 2.5 % at the limit of 50 % itself


def test_the_tables_have_every_cell_and_the_sentences_every_verdict():
    reading = cell(192, input="records", metrics=READS)
    study = Study([reading, cell(256, metrics=WAITS), gemm(100.0)])
    findings = Findings.model_construct(
        cells=summaries(study, {}, {}), bottlenecks=bottlenecks(study), precision=[]
    )
    header, first, second = csv.reader(as_csv(BOTTLENECK, findings).splitlines())
    assert header == [column.name for column in BOTTLENECK.columns]
    assert first[header.index("verdict")] == "input-bound"
    assert float(first[header.index("input_share_low")]) == pytest.approx(25)
    assert second[header.index("verdict")] == CANNOT_TELL
    table = as_markdown(BOTTLENECK, findings).splitlines()
    assert len(table) == 4 and "| input-bound | reading costs 25 % [25, 25] of the time" in table[2]
    assert as_markdown(PRECISION, findings).startswith("No cells of this study differ")
    judged_one, unknown = bottleneck_sentences(findings)
    assert judged_one.startswith(
        "lenet5 with mnist (CPU): PyTorch at batch size 64 is input-bound. Evidence: reading costs"
        " 25 % [25, 25] of the time; "
    )
    assert unknown == (
        "lenet5 with mnist (CPU): no verdict on 1 of 2 configurations. The table says why."
    )
