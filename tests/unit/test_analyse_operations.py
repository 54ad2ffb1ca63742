"""parse_run on an operation, and the floating-point rate of training: exact numbers."""

import json
from typing import NamedTuple

import pytest
from matplotlib.figure import Figure

from fixtures.records import require_valid, value
from fixtures.runs import FACTORS, edit_json, make_run, read_events, write_events
from fixtures.specs import timed
from touchstone.analysis.again import Kept
from touchstone.analysis.findings import compute
from touchstone.analysis.peaks import peaks, share_of_peak
from touchstone.plan.setting import OPERATION
from touchstone.report.figures.operations import _name
from touchstone.report.figures.render import drawing, make_figures, render
from touchstone.report.page import make_report
from touchstone.results.files import InputError
from touchstone.results.gathering import gather
from touchstone.results.metrics import METRICS, NOT_OF
from touchstone.results.record import build_record
from touchstone.results.study import read_study
from touchstone.schema.spec import Calls, OperationSpec, spec_from_json, spec_to_json


def make_operation(folder, tolerance=1e-4, flops=2**30, **options):
    """A run of the fixture's step times as one of an operation."""
    factors = {"network": "gemm", "dataset": "3x4x5", "batch_size": 1, **options}
    make_run(folder, train_examples=10, **factors)
    spec = spec_from_json(json.loads((folder / "spec.json").read_text()))
    spec = timed(spec, OperationSpec, operation=Calls("gemm", {}, flops, 2**20))
    (folder / "spec.json").write_text(json.dumps(spec_to_json(spec)))
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
    require_valid(record)
    assert value(record, "step_rate") == 4
    assert value(record, "flop_rate") == 4 * 2**30 / 1e9
    assert value(record, "memory_rate") == 4 * 2**20 / 1e9
    assert value(record, "deviation") == 2.0**-20
    assert value(record, "cpu_cores") == 1.5
    for name, metric in METRICS.items():
        if OPERATION not in metric.of and metric.of not in NOT_OF:
            assert record["metrics"][name]["reason"] == "an operation is called, not trained"


def test_training_counts_two_operations_for_every_multiply_accumulate_of_it(tmp_path):
    record = build_record(make_run(tmp_path))
    assert value(record, "flop_rate") == 2 * 3 * 2**20 * 256 / 1e9


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


def make_operations_study(root):
    """Two products and a copy in two frameworks, two repeats; no network is trained."""
    speeds = {("pytorch", "gemm"): 2**30, ("mxnet", "gemm"): 2**29, ("mxnet", "memory_copy"): 0}
    for (framework, name), flops in speeds.items():
        for repeat in (1, 2):
            factors = {"framework": framework, "network": name, "dataset": "3x4x5"}
            folder = root / "runs" / f"{framework}-{name}-{repeat}"
            make_operation(folder, flops=flops, repeat=repeat, **factors)
            edit_json(folder / "spec.json", cell=f"{framework}-{name}")
            path = root / "records" / f"{framework}-{name}" / f"rep{repeat}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(build_record(folder)))
    rows = [["cell", *FACTORS, "repeats"]]
    for framework, name in speeds:
        values = {**FACTORS, "framework": framework, "network": name, "dataset": "3x4x5"}
        values |= {"batch_size": 1, "epochs": ""}
        rows.append([f"{framework}-{name}", *(values[key] for key in FACTORS), 2])
    (root / "plan.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    (root / "config.resolved.yaml").write_text("study: fake\ntitle: Operations\n")
    gather(root / "plan.tsv", root / "records", root / "tables", {})
    return read_study(root / "plan.tsv", root / "tables", root / "records")


def test_the_share_is_of_the_best_product_or_copy_of_the_study(tmp_path):
    study = make_operations_study(tmp_path)
    assert not study.trained.cells
    peak = peaks(study.operations)["cpu", "fp32", None]
    assert (peak.flop_rate, peak.memory_rate) == (4 * 2**30 / 1e9, 4 * 2**20 / 1e9)
    shares = {cell.plan.name: share_of_peak(cell, peak) for cell in study.operations.cells}
    assert shares == {"pytorch-gemm": 100, "mxnet-gemm": 50, "mxnet-memory_copy": 100}
    assert all("parity_not_shown" not in cell.flags for cell in study.cells)


def test_a_study_of_operations_only_has_its_figures_and_its_page(tmp_path):
    study = make_operations_study(tmp_path)
    captions = {}
    (tmp_path / "figures").mkdir()
    with drawing():
        for drawn in make_figures(study):
            captions[drawn.name] = drawn.texts
            (tmp_path / f"figures/{drawn.name}.svg").write_bytes(render(drawn.figure)["svg"])
    (tmp_path / "figures/captions.json").write_text(json.dumps(captions))
    assert "4 GFLOP/s and 0.0 GB/s on the CPU" in captions["operations"]["caption"]
    page = make_report(
        compute(study, {}),
        tmp_path / "figures",
        title="Operations",
        kept=Kept("one"),
        config_name="",
        config_text="",
    )
    assert "Basic operations" in page and "memory copy" in page
    assert page.count("<figure") == 1 and 'id="figure-operations"' in page
    for share in ("100", "50.0"):
        assert f"<td>{share}</td>" in page


def test_a_name_is_written_beside_its_points_and_not_twice_in_a_place():
    ax = Figure(figsize=(8.0, 3.8)).subplots()
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(0.01, 1000)
    ax.set_ylim(0.1, 1000)
    rates = [
        ("sparse_gemm", 0.5, 1.6),
        ("sparse_gemm", 1.0, 1.8),
        ("a", 30.0, 180.0),
        ("sparse_gemm", 31.0, 1.5),
    ]
    rates += [("d", 31.0, 170.0)]
    _name(ax, [(x, Rated([name], y)) for name, x, y in rates])
    named = {text.get_text(): text.xy for text in ax.texts if text.xy[0] >= 30}
    assert named == {"a\nd": (30.0, 180.0), "sparse gemm": (31.0, 1.5)}
    assert [text.xy for text in ax.texts if text.xy[0] < 30] == [(0.5, 1.8)]


class Rated(NamedTuple):
    """As much of a cell as a name is written for."""

    facet: list[str]
    rate: float

    def values(self, metric: str) -> list[float]:
        return [self.rate]
