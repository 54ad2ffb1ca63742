"""Speed-up and efficiency of cells with several replicas, with answers known beforehand."""

import csv
import io

import pytest

from touchstone.analysis.cells import summaries
from touchstone.analysis.findings_model import Findings
from touchstone.analysis.findings_tables import SCALING, as_csv
from touchstone.analysis.scaling import has_replicas, scalings
from touchstone.report.figures import scaling as figure_of_scaling
from touchstone.report.figures.render import drawing, render
from touchstone.results.metrics import METRICS
from touchstone.results.planned import FACTORS, PlannedCell
from touchstone.results.study import Cell, Result, Series, Study

USUAL = {
    "framework": "pytorch", "network": "lenet5", "dataset": "mnist-5k", "device": "cpu",
    "precision": "fp32", "mode": "eager", "input": "memory", "nodes": "1", "replicas": "1",
    "environment": "pinned", "style": "tuned", "batch_split": "effective", "batch_size": "64",
    "learning_rate": "0.01", "threads": "",
}  # fmt: skip
MACHINE = {"cpu_model": "a CPU", "logical_cores": 4, "memory_mib": None, "gpus": []}


def cell(name, speeds, **changes):
    """A cell with these throughputs, one a block; None for a run out of memory."""
    factors = {**USUAL, **changes}
    runs = [
        Result(
            repeat, repeat, "", "ok" if speed else "oom", None, [],
            {**dict.fromkeys(METRICS), "throughput": speed}, {}, [], {}, {"machine": MACHINE}, [],
        )
        for repeat, speed in enumerate(speeds, 1)
    ]  # fmt: skip
    series = Series(factors["framework"], ("replicas",), (factors["replicas"],))
    return Cell(PlannedCell.of_row(name, factors, len(runs)), series, runs)


ALONE = cell("alone", [100.0, 200.0, 400.0])


def test_the_speed_up_is_paired_by_blocks():
    two = cell("two", [150.0, 300.0, 600.0], replicas="2", device="cpu")
    (row,) = scalings(Study([ALONE, two]))
    assert (row.kind, row.replicas, row.resources) == ("strong", 2, 1)
    assert row.speedup.value == pytest.approx(1.5)
    low, high = row.speedup.low, row.speedup.high
    assert (low, high) == pytest.approx((1.5, 1.5))  # the same in every block
    assert row.efficiency == pytest.approx(1.5)
    assert row.speedup.verdict == "faster" and row.reason is None


@pytest.mark.parametrize(
    "alone, several, resources",
    [
        ({"device": "gpu"}, {"device": "gpu", "replicas": "4"}, 4),
        ({"threads": "2"}, {"threads": "2", "replicas": "2"}, 1),
        ({"threads": "1"}, {"threads": "2", "replicas": "2"}, 2),
        ({"threads": "1"}, {"threads": "3", "replicas": "2"}, None),
        ({"threads": ""}, {"threads": "2", "replicas": "2"}, None),
        ({}, {"nodes": "2"}, 2),
        ({"threads": "1"}, {"threads": "2", "replicas": "2", "nodes": "3"}, 6),
        ({"device": "gpu"}, {"device": "gpu", "replicas": "4", "nodes": "2"}, 8),
        ({}, {"replicas": "2", "learning_rate": "0.02"}, None),
    ],
)
def test_cells_are_paired_where_their_resources_are_known(alone, several, resources):
    study = Study([cell("a", [1.0], **alone), cell("b", [1.0], **several)])
    assert [row.resources for row in scalings(study)] == ([resources] if resources else [])


def test_efficiency_is_the_share_of_what_the_devices_would_give():
    four = {"device": "gpu", "replicas": "4", "batch_split": "per_replica"}
    study = Study([cell("a", [10.0, 10.0], device="gpu"), cell("b", [30.0, 20.0], **four)])
    (row,) = scalings(study)
    assert row.kind == "weak"
    assert row.efficiency == pytest.approx(600**0.5 / 10 / 4)
    low, high = row.speedup.low, row.speedup.high
    assert (row.efficiency_low, row.efficiency_high) == pytest.approx((low / 4, high / 4))
    assert low < 600**0.5 / 10 < high
    assert row.speedup.verdict == "cannot tell"


def test_the_table_says_why_there_is_no_number():
    study = Study([ALONE, cell("two", [None, None, None], replicas="2")])
    assert has_replicas(study) and not has_replicas(Study([ALONE]))
    findings = Findings.model_construct(cells=summaries(study, {}, {}), scaling=scalings(study))
    (row,) = csv.DictReader(io.StringIO(as_csv(SCALING, findings)))
    assert set(FACTORS) < set(row)
    assert (row["speedup"], row["efficiency"], row["n"]) == ("", "", "0")
    assert row["reason"] == "two: oom"
    assert (row["throughput"], row["reference_throughput"]) == ("", "200.0")
    assert row["verdict"] == "too few runs"


def test_the_figure_draws_every_line_and_says_when_there_is_none():
    rows = [cell(f"r{n}", [100.0 * n, 210.0 * n, 400.0 * n], replicas=str(n)) for n in (2, 4)]
    weak = cell("w", [150.0, 300.0, 600.0], replicas="2", batch_split="per_replica")
    study = Study([ALONE, *rows, weak])
    with drawing():
        figure = figure_of_scaling.draw(study)
        assert render(figure)["svg"]
    titles = [ax.get_title("left") for ax in figure.axes if ax.get_visible()]
    assert titles == [f"lenet5 · mnist-5k · cpu\n{kind} scaling" for kind in ("strong", "weak")]
    strong = figure.axes[0].containers[0].lines[0]
    assert list(strong.get_xdata()) == [1, 2, 4]
    exact = [1, *(n * (1.05) ** (1 / 3) for n in (2, 4))]
    assert list(strong.get_ydata()) == pytest.approx(exact)
    assert "The highest efficiency is" in figure_of_scaling.texts(study)["alt"]
    with drawing():
        nothing = figure_of_scaling.draw(Study([ALONE, cell("two", [None] * 3, replicas="2")]))
    assert "No cell of several replicas" in nothing.texts[0].get_text()
